/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What moves packets. A rank has a worker of the core for each stripe and shard;
 * thread t serves shard t of every stripe, so that there are as many threads as
 * shards, however many stripes.
 *
 *	thread ---- line ---- shard         a transport, and who sends through it:
 *	       \--- line ---- shard         dedicated switches have a line each,
 *
 *	thread ---- line ---- shard         stripes of ranks share one, and there
 *	                \---- shard         this rank's own slots are, too
 *	                 \--- own stripe
 *
 * Threads share tensors and nothing else.
 *
 * Going to sleep without missing anything: the thread says so in `resting`,
 * then looks once more at what others may have brought (its queue; exponents
 * and finished tensors of other threads, counted by the context's `events`).
 * Others bring first and look at `resting` afterwards. Both orders are
 * sequentially consistent, so one of the two sees the other.
 */
#ifndef SML_LIB_PROGRESS_H
#define SML_LIB_PROGRESS_H

#include <pthread.h>

#include "core/worker.h"
#include "lib/progress/own_stripe.h"
#include "lib/progress/request.h"
#include "lib/transport/transport.h"

struct sml_context;
struct sml_stripe;

enum sml_rest {
	SML_AWAKE,
	SML_RESTING,	     /* wants to know of new tensors */
	SML_RESTING_BLOCKED, /* and of what other threads bring */
};

/* One worker: the thread's, but the failover's while it is parked, and anybody's at the end. */
struct sml_shard {
	struct sml_stripe *stripe;
	unsigned index; /* of the thread that serves it */
	struct sml_line *line;
	struct sml_worker worker;
	void *worker_memory;
	/* The epoch before, for its kept results: see failover.c. Memory NULL: none. */
	struct sml_worker kept;
	void *kept_memory;
	uint64_t held_since_ns; /* its few packets wait for more; 0: none do */
	bool parked;		/* as the stripe asked: frozen, not to be touched */

	/* Copies of the worker's, for other threads. Each atomic. */
	struct sml_counters counters;
};

/* Packets to one stripe before another has its turn. */
#define SML_TURN_PACKETS 64

struct sml_line {
	struct sml_transport *transport;
	struct sml_batch out;
	uint64_t send_blocked;
	struct sml_shard *shards[SML_MAX_STRIPES]; /* where they are several, by stripe */
	unsigned n_shards;
	unsigned turn; /* whose packets go first */
	/* What this rank's own stripe does here. NULL: it has none. */
	struct sml_own_stripe *own;
	struct sml_results results;
	uint64_t held_since_ns; /* results wait for more; 0: none do */
	uint64_t n_absorbed, n_completed;
	uint64_t served_packets, served_bytes; /* that other ranks have sent to it */
	uint32_t round, n_takes;	       /* see own_stripe.h */
	uint32_t scratch[SML_MAX_PACKET_BYTES / 4];
};

/* What others may be waiting for. */
struct sml_news {
	uint64_t done; /* tensors */
	bool heads;    /* head chunks: exponents */
};

struct sml_progress {
	struct sml_context *context;
	unsigned index;
	struct sml_line *lines[SML_MAX_STRIPES];
	unsigned n_lines;
	struct sml_packet in[SML_RECEIVE_PACKETS];
	uint32_t events_seen;
	uint32_t question_seen; /* about the own stripe's slots */
	unsigned n_parked;	/* shards */
	bool hungry;		/* a worker is full, and the queue is not empty */
	int wake_fd;
	pthread_t thread;
	bool started;

	uint32_t resting; /* atomic: enum sml_rest */

	pthread_mutex_t queue_lock;
	struct sml_request *queue_first, *queue_last; /* first is also read without the lock */
};

/* ---- threads (progress.c, progress_life.c) ---- */

/* A thread without lines. NULL: no memory or files; told by sml_error_set(). */
struct sml_progress *sml_progress_new(struct sml_context *context, unsigned index);

int sml_progress_start(struct sml_progress *progress);

/* The thread: moves packets until the context's `stop`. */
void *sml_progress_main(void *self);

/* Hand over a tensor. In the same order for all threads: under the submit lock. */
void sml_progress_submit(struct sml_progress *progress, struct sml_request *request);

/*
 * Wake the thread if it rests: it looks at everything again, the context's
 * `stop` and the stripes' `park` too.
 */
void sml_progress_wake(struct sml_progress *progress);

/* Joins the thread, the context's `stop` having been set, and frees its lines. */
void sml_progress_free(struct sml_progress *progress);

/* ---- lines (line.c) ---- */

/*
 * The transport belongs to the line from then on. own: NULL, or this rank's
 * stripe. first_turn: the stripe that it begins with. NULL: no memory.
 */
struct sml_line *sml_line_new(struct sml_transport *transport, struct sml_own_stripe *own,
			      unsigned first_turn);
void sml_line_free(struct sml_line *line);

/* Take what has come. True when something had. */
bool sml_line_receive(struct sml_line *line, struct sml_packet *packets, uint64_t now_ns,
		      struct sml_news *news);

/* Fill a batch and send it. True when something went. */
bool sml_line_send(struct sml_line *line, uint64_t now_ns, struct sml_news *news);

/* When what waits to leave in company has to leave all the same; UINT64_MAX: nothing does. */
uint64_t sml_line_deadline(const struct sml_line *line);

static inline bool sml_line_is_full(const struct sml_line *line)
{
	return line->out.first < line->out.n;
}

/* ---- shards (shard.c) ---- */

/* A worker on this line. NULL: no memory, told by sml_error_set(). */
struct sml_shard *sml_shard_new(struct sml_stripe *stripe, const struct sml_worker_config *config,
				struct sml_line *line);
void sml_shard_free(struct sml_shard *shard);

/*
 * A worker of the next epoch and its memory, for sml_shard_renew(), or to be freed. NULL: no
 * memory. Those of all shards first: of a stripe all workers are of one epoch.
 */
struct sml_worker *sml_shard_prepare(const struct sml_worker_config *config, void **memory);

/*
 * The next epoch begins with `next`, on another transport. keep: the worker of now stays for its
 * kept results, in the place of the one before. The maps' tables must live as long.
 */
void sml_shard_renew(struct sml_shard *shard, struct sml_worker *next, void *memory,
		     const struct sml_ticket_map maps[SML_STREAMS], struct sml_transport *transport,
		     bool keep);

/* Copy the worker's counters to where others may read them. */
void sml_shard_publish(struct sml_shard *shard);

#endif
