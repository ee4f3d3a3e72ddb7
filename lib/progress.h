/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A shard: one worker of the core, one transport, and the thread that moves
 * packets between them. A context has one or several; they share tensors and
 * nothing else.
 *
 * Going to sleep without missing anything: the thread says so in `resting`,
 * then looks once more at what others may have brought (its queue; exponents
 * and finished tensors of other shards, counted by the context's `events`).
 * Others bring first and look at `resting` afterwards. Both orders are
 * sequentially consistent, so one of the two sees the other.
 */
#ifndef SML_LIB_PROGRESS_H
#define SML_LIB_PROGRESS_H

#include <pthread.h>

#include "core/worker.h"
#include "lib/request.h"
#include "lib/transport.h"

struct sml_context;

enum sml_rest {
	SML_AWAKE,
	SML_RESTING,	     /* wants to know of new tensors */
	SML_RESTING_BLOCKED, /* and of what other shards bring */
};

struct sml_shard {
	struct sml_context *context;
	unsigned index;
	struct sml_transport *transport;
	struct sml_worker worker; /* the thread's; anybody's once it has stopped */
	void *worker_memory;
	/* The epoch before, for its kept results: see failover.c. Memory NULL: none. */
	struct sml_worker kept;
	void *kept_memory;
	struct sml_batch out;
	struct sml_packet in[SML_RECEIVE_PACKETS];
	uint64_t send_blocked;
	uint32_t events_seen;
	bool hungry; /* the worker is full, and the queue is not empty */
	int wake_fd;
	pthread_t thread;
	bool started;

	uint32_t resting; /* atomic: enum sml_rest */

	pthread_mutex_t queue_lock;
	struct sml_request *queue_first, *queue_last; /* first is also read without the lock */

	/* Copies of the worker's, for other threads. Each atomic. */
	struct sml_counters counters;
};

/* 0 or an error, told by sml_error_set(). The transport belongs to the shard from then on. */
int sml_shard_init(struct sml_shard *shard, struct sml_context *context,
		   const struct sml_worker_config *config, struct sml_transport *transport);
int sml_shard_start(struct sml_shard *shard);

/*
 * The thread: moves packets until the context's `stop`. While its `park` is set
 * the thread is parked: its worker is frozen and anybody's.
 */
void *sml_shard_main(void *self);

/* Hand over a tensor. In the same order for all shards: under the submit lock. */
void sml_shard_submit(struct sml_shard *shard, struct sml_request *request);

/* Wake the thread if it rests: it looks at everything again, the context's `stop` too. */
void sml_shard_wake(struct sml_shard *shard);

/*
 * Of a parked shard: the next epoch's worker and transport (the shard's from then
 * on) take the place of the ones before. keep: the results that the one before
 * keeps may be needed again. False: no memory, and nothing has changed.
 */
bool sml_shard_renew(struct sml_shard *shard, const struct sml_worker_config *config,
		     const struct sml_ticket_map maps[SML_STREAMS], struct sml_transport *transport,
		     bool keep);

/* Joins the thread: the context's `stop` has been set. Allowed on a zeroed shard. */
void sml_shard_fini(struct sml_shard *shard);

#endif
