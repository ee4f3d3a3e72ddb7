/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by xdp_maps.c (the program and its maps) and xdp_jobs.c (what they hold). */
#ifndef SML_SWITCH_XDP_INTERNAL_H
#define SML_SWITCH_XDP_INTERNAL_H

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>

#include "switch/xdp/maps.h"
#include "switchml.skel.h"

/* The control plane's view of a job. */
struct sml_xdp_place {
	bool used;
	uint32_t number, index;
	uint32_t first_buffer, n_buffers;
	struct sml_pool_rules rules;
};

struct sml_xdp_maps {
	struct sml_xdp_config config;
	struct switchml *skeleton;
	unsigned n_cpus;
	struct sml_xdp_place places[SML_XDP_JOB_PLACES];
	bool *rows;		      /* max_jobs: taken */
	int *groups;		      /* max_jobs: devmaps */
	struct sml_xdp_traffic ended; /* of jobs that are gone */
};

static inline int sml_xdp_map_set(struct bpf_map *map, const void *key, const void *value)
{
	return bpf_map_update_elem(bpf_map__fd(map), key, value, BPF_ANY) < 0 ? -errno : 0;
}

#endif
