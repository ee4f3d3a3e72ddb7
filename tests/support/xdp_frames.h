/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames for tests of the XDP and P4 programs: any headers around a UDP payload. */
#ifndef SML_TESTS_XDP_FRAMES_H
#define SML_TESTS_XDP_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/pool.h"

#define FRAME_BYTES 4096
#define FRAME_PORT  28500

struct frame_wrapping {
	unsigned n_tags; /* VLAN */
	bool v6;
	uint8_t rank; /* has the source's address and port */
};

/* A contribution's header; the caller changes what it needs. */
struct sml_header frame_header(const struct sml_pool_rules *rules, uint8_t rank, uint16_t slot,
			       uint32_t use, uint16_t lanes);

/* Returns the frame's length. */
uint32_t frame_build(uint8_t *frame, const struct frame_wrapping *wrapping, const void *payload,
		     uint32_t length);

/* Recompute the checksums. */
void frame_seal(uint8_t *frame, const struct frame_wrapping *wrapping);

/* Where it comes from: an IPv6 address, or a mapped one of IPv4. */
void frame_source(const struct frame_wrapping *wrapping, uint8_t address[16]);
uint16_t frame_source_port_be(const struct frame_wrapping *wrapping);

uint32_t frame_headers(const struct frame_wrapping *wrapping);

/* Is it a frame with correct checksums, to the source of `wrapping`, with this payload length? */
bool frame_answers(const uint8_t *frame, uint32_t bytes, const struct frame_wrapping *wrapping,
		   uint32_t length);

#endif
