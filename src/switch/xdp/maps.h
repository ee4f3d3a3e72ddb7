/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loaded XDP program and its maps, as jobs: what the XDP dataplane and its
 * tests share. Not here: interfaces (attach.h), packets (dataplane.c).
 * One thread at a time calls these functions.
 *
 * When a job ends, programs that have admitted a packet of it may still run. The
 * kernel knows when they have ended, but asking it takes milliseconds, so a separate
 * thread asks (cleaner.c).
 *
 * The invariant: what a job has held belongs to no other job before all programs
 * that may use it have ended.
 */
#ifndef SML_SWITCH_XDP_MAPS_H
#define SML_SWITCH_XDP_MAPS_H

#include "bpf/layout.h"
#include "switch/dataplane.h"

struct sml_xdp_maps;
struct bpf_object;

struct sml_xdp_config {
	uint16_t port;
	uint32_t max_jobs, max_slots;
	bool accept_partial; /* checksums that a virtual interface has left unmade */
	bool shows_libbpf;   /* libbpf's and the verifier's messages, on standard error */
};

/* 0, or a negative errno, and sml_error_last() says why. */
int sml_xdp_maps_open(struct sml_xdp_maps **opened, const struct sml_xdp_config *config);
void sml_xdp_maps_close(struct sml_xdp_maps *maps);

/* The programs: on interfaces, and for what leaves by a job's devmap. */
int sml_xdp_maps_entry_fd(const struct sml_xdp_maps *maps);
int sml_xdp_maps_exit_fd(const struct sml_xdp_maps *maps);
int sml_xdp_maps_events_fd(const struct sml_xdp_maps *maps);

/* The cleaner's thread, for the privileges that the process has now. 0 or a negative errno. */
int sml_xdp_maps_start_cleaner(struct sml_xdp_maps *maps);

/*
 * 0; -EAGAIN: what it needs is still held by jobs that have ended, try again in a moment;
 * -ENOSPC (no row or no run of slots is free), or what the kernel says.
 */
int sml_xdp_maps_add_job(struct sml_xdp_maps *maps, const struct sml_pool_rules *rules);
/* A leaf's, before it probes: where the parent's packets come from. 0 or a negative errno. */
int sml_xdp_maps_set_parent(struct sml_xdp_maps *maps, uint32_t number,
			    const struct sml_xdp_endpoint *parent);
/*
 * Once all peers are there. daemon_key: not 0 where results go to the daemon's socket,
 * and not to the ports; a secret of this program and the daemon, that they bear. 0 or a negative
 * errno.
 */
int sml_xdp_maps_start_job(struct sml_xdp_maps *maps, uint32_t number, uint64_t daemon_key);
/* From now on its packets are refused. Does not wait: see above. */
void sml_xdp_maps_remove_job(struct sml_xdp_maps *maps, uint32_t number);

/* -ENOENT: no such job. */
int sml_xdp_maps_get_job(struct sml_xdp_maps *maps, uint32_t number, struct sml_xdp_job *job);
/* Both buffers of a slot of its. */
int sml_xdp_maps_get_slot(struct sml_xdp_maps *maps, uint32_t number, uint32_t slot,
			  struct sml_slot buffers[2]);
/* The rank may be SML_XDP_PARENT: a leaf's parent. */
int sml_xdp_maps_get_peer(struct sml_xdp_maps *maps, uint32_t number, uint8_t rank, uint8_t shard,
			  struct sml_xdp_peer *peer);
int sml_xdp_maps_set_peer(struct sml_xdp_maps *maps, uint32_t number, uint8_t rank, uint8_t shard,
			  const struct sml_xdp_peer *peer);

/* The next probe with this number tells where the rank's shard is. */
int sml_xdp_maps_renew_peer(struct sml_xdp_maps *maps, uint32_t number, uint8_t rank, uint8_t shard,
			    uint32_t renewal);

struct sml_xdp_totals {
	struct sml_xdp_traffic traffic;
	uint64_t contributions[SML_MAX_CHILDREN];
	uint64_t resends[SML_MAX_CHILDREN];
	uint64_t waited_ns[SML_MAX_CHILDREN];
};

void sml_xdp_maps_totals(struct sml_xdp_maps *maps, uint32_t number, struct sml_xdp_totals *totals);
/* Of all jobs, those that have ended included. */
void sml_xdp_maps_traffic(struct sml_xdp_maps *maps, struct sml_xdp_traffic *traffic);

#endif
