/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by dataplane.c (threads, and the table of jobs) and packets.c (processing packets). */
#ifndef SML_SWITCH_UDP_INTERNAL_H
#define SML_SWITCH_UDP_INTERNAL_H

#include <pthread.h>

#include "net/udp_inbox.h"
#include "net/udp_results.h"
#include "net/udp_socket.h"
#include "switch/dataplane.h"

struct sml_udp_job {
	struct sml_pool pool;
	void *memory;
	bool started;
	bool mismatch_reported;
	/* The shard's thread writes these: from each probe until the job runs, then by renewals. */
	struct sml_path paths[SML_MAX_CHILDREN][SML_MAX_SHARDS];
	bool has_path[SML_MAX_CHILDREN][SML_MAX_SHARDS];
	uint32_t renewals[SML_MAX_CHILDREN][SML_MAX_SHARDS]; /* atomic; 0 if there is none */
	struct sml_job_counters counters;		     /* relaxed atomics */
	/*
	 * At a leaf: the path to the parent, which is known before its first answer and then stays
	 * the same, and what has passed.
	 */
	struct sml_path up[SML_MAX_SHARDS];
	bool knows_parent;		   /* atomic */
	uint16_t up_lanes[SML_MAX_SHARDS]; /* atomic */
};

struct sml_udp_thread {
	struct sml_dataplane *dataplane;
	unsigned index;
	int fd, wake_fd;
	pthread_t id;
	struct sml_udp_job *jobs[SML_MAX_JOBS]; /* this thread's view */
	uint64_t orders_done;
	uint64_t malformed_seen;
	uint64_t now_ns; /* of the packets that it processes */
	struct sml_udp_sender sender;
	struct sml_results results;
	struct sml_results sums;		/* of a leaf, to its parent */
	struct sml_dataplane_counters counters; /* relaxed atomics */
	struct sml_udp_inbox *inbox;
	struct sml_packet packets[SML_RECEIVE_PACKETS];
};

struct sml_dataplane {
	struct sml_dataplane_config config;
	unsigned n_threads;
	struct sml_udp_thread *threads;
	union sml_sockaddr parent; /* of a leaf */
	uint32_t receive_buffer_bytes;
	/* Orders: the control thread's table of jobs, copied by each thread. */
	pthread_mutex_t mutex;
	pthread_cond_t done;
	struct sml_udp_job *jobs[SML_MAX_JOBS];
	uint64_t orders; /* atomic: changes so far */
	bool stopping;
	/* Another kind of order: each thread adds what it knows. `job` is NULL if there is none. */
	struct {
		struct sml_udp_job *job;
		struct sml_slot_progress *states;
		uint32_t n, most;
	} question;
};

/*
 * Process some received packets, and send their results. False if nothing is left. Called only by
 * the thread itself.
 */
bool sml_udp_receive_batch(struct sml_udp_thread *thread);

#endif
