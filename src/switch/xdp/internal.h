/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by maps.c (the program and its maps), jobs.c (what they hold) and cleaner.c. */
#ifndef SML_SWITCH_XDP_INTERNAL_H
#define SML_SWITCH_XDP_INTERNAL_H

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>

#include "switch/xdp/maps.h"
#include "switchml.skel.h"

/*
 *	FREE -- a job is added --> USED -- removed --> LEFT -- cleaned --> CLEAN -- noticed --> FREE
 *
 * The cleaner's thread has what a LEFT map row names, the control thread all others.
 */
enum sml_xdp_map_row_state { SML_XDP_FREE, SML_XDP_USED, SML_XDP_LEFT, SML_XDP_CLEAN };

/* The control plane's view of a job. */
struct sml_xdp_map_row {
	uint32_t number, index;
	uint32_t first_buffer, n_buffers;
	struct sml_pool_rules rules;
};

/* The thread of cleaner.c. */
struct sml_xdp_cleaner {
	pthread_t thread;
	sem_t work;
	bool stopping, is_started;
};

struct sml_xdp_maps {
	struct sml_xdp_config config;
	struct switchml *skeleton;
	unsigned n_cpus;
	struct sml_xdp_map_row map_rows[SML_XDP_JOB_PLACES];
	enum sml_xdp_map_row_state states[SML_XDP_JOB_PLACES];
	struct sml_xdp_cleaner cleaner;
	int *groups;		      /* max_jobs: devmaps */
	struct sml_xdp_traffic ended; /* of jobs that are gone */
};

static inline int sml_xdp_map_set(struct bpf_map *map, const void *key, const void *value)
{
	return bpf_map_update_elem(bpf_map__fd(map), key, value, BPF_ANY) < 0 ? -errno : 0;
}

/* Whoever reads a state may then use what its map row names. */
static inline enum sml_xdp_map_row_state sml_xdp_map_row_state(const struct sml_xdp_maps *maps,
							       size_t map_row)
{
	return __atomic_load_n(&maps->states[map_row], __ATOMIC_ACQUIRE);
}

static inline void sml_xdp_map_row_set(struct sml_xdp_maps *maps, size_t map_row,
				       enum sml_xdp_map_row_state state)
{
	__atomic_store_n(&maps->states[map_row], state, __ATOMIC_RELEASE);
}

/* For the cleaner's thread: a map row has been LEFT, or somebody wants what such rows hold. */
static inline void sml_xdp_cleaner_wake(struct sml_xdp_maps *maps)
{
	sem_post(&maps->cleaner.work);
}

/* Where no cleaner's thread has been started, what ended jobs held stays theirs. */
void sml_xdp_cleaner_open(struct sml_xdp_maps *maps);
void sml_xdp_cleaner_close(struct sml_xdp_maps *maps);

#endif
