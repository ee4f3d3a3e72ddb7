/* SPDX-License-Identifier: BSD-3-Clause */
/* Running a loaded XDP program on one frame, and finding its maps. For cmocka tests. */
#ifndef SML_TESTS_XDP_RUN_H
#define SML_TESTS_XDP_RUN_H

#include <stdint.h>

#include "support/xdp_frames.h"
#include "switch/xdp/maps.h"

struct xdp_outcome {
	uint32_t action;
	uint32_t bytes;
	uint8_t frame[FRAME_BYTES];
};

/* For main(): load the program. Exits on failure, with 77 if BPF is not permitted. */
struct sml_xdp_maps *xdp_open_maps(const struct sml_xdp_config *config);

/* Add a job as soon as the resources of ended jobs are free. The maps' cleaner must be running. */
void xdp_add_job(struct sml_xdp_maps *maps, const struct sml_pool_rules *rules);

/* Of a leaf: the parent is the source of frames with this wrapping. */
void xdp_set_parent(struct sml_xdp_maps *maps, uint32_t job, const struct frame_wrapping *parent);

void xdp_run(int program, const uint8_t *frame, uint32_t bytes, struct xdp_outcome *out);

/*
 * A descriptor of the program's map with this name, which the caller closes; fails the test
 * on errors.
 */
int xdp_map_of(int program, const char *name);

#endif
