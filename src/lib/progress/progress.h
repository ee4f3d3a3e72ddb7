/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The threads that move packets. A rank has a worker of the core for each stripe and shard. Thread
 * t serves shard t of every stripe, so there are as many threads as shards, however many stripes.
 *
 *	thread ---- line ---- shard         dedicated switches: a line (a transport) for each
 *	       \--- line ---- shard
 *
 *	thread ---- line ---- shard         embedded stripes: one line for all stripes,
 *	                \---- shard         and for this rank's own slots
 *	                 \--- embedded stripe
 *
 * Threads share tensors and nothing else.
 *
 * Going to sleep without missing anything: the thread sets `resting`, and then checks once more for
 * work from other threads: requests in its queue, and exponents and finished tensors, which the
 * threads' `events` counts. The other threads first add the work, and then check `resting`. Both
 * orders are sequentially consistent, so at least one side sees the other.
 */
#ifndef SML_LIB_PROGRESS_H
#define SML_LIB_PROGRESS_H

#include <pthread.h>

#include "lib/progress/line.h"
#include "lib/progress/request.h"
#include "lib/transport/transport.h"

struct sml_threads;

enum sml_rest {
	SML_AWAKE,
	SML_RESTING,	     /* must be told about new tensors */
	SML_RESTING_BLOCKED, /* and about what other threads bring */
};

struct sml_progress {
	struct sml_threads *threads;
	unsigned index;
	struct sml_line *lines[SML_MAX_STRIPES];
	unsigned n_lines;
	struct sml_packet in[SML_RECEIVE_PACKETS];
	uint32_t events_seen;
	uint32_t question_seen; /* questions about the embedded stripe's slots */
	unsigned n_parked;	/* shards */
	bool hungry;		/* a worker is full, and the queue is not empty */
	int wake_fd;
	pthread_t thread;
	bool started;

	uint32_t resting; /* atomic: enum sml_rest */
	/* Where callers drive. All atomic. */
	uint32_t driven;       /* somebody drives */
	uint32_t outstanding;  /* tensors passed to the thread and not retired: each once a shard */
	uint32_t events_known; /* the threads', that the thread itself has acted on */

	pthread_mutex_t queue_lock;
	struct sml_request *queue_first, *queue_last; /* first is also read without the lock */
};

/* A thread without lines. Returns NULL without memory or files, and then sets the error text. */
struct sml_progress *sml_progress_new(struct sml_threads *threads, unsigned index);

/* run: sml_progress_main(). Returns 0 or an error, and sets the error text. */
int sml_progress_start(struct sml_progress *progress, void *(*run)(void *progress));

/* The thread's main function: moves packets until the threads' `stop`. */
void *sml_progress_main(void *self);

/*
 * Pass a tensor to the thread. Call this under the submit lock, so that all threads have the same
 * order. waits: the caller is about to wait for the tensor, and may drive.
 */
void sml_progress_submit(struct sml_progress *progress, struct sml_request *request, bool waits);

/*
 * Do one round of the thread's work, in the thread that may do it now. Returns true if something
 * was done.
 */
bool sml_progress_step(struct sml_progress *progress);

/*
 * Wake the thread if it rests: it checks everything again, including the threads' `stop` and the
 * stripes' `park`.
 */
void sml_progress_wake(struct sml_progress *progress);

/* ---- where this rank shares memory, and sends no packets: drive.c ---- */

/*
 * There, a result is two stores and two loads away, and waking a thread costs more than the whole
 * call. So a caller that waits does the progress thread's work itself: it *drives*. At most one
 * thread drives at a time. The progress thread drives when no caller does and calls are
 * outstanding, or the threads' `events` have changed: a failover parks shards of idle ranks, too.
 *
 * Nothing is forgotten: who stops driving checks afterwards whether there is anything to do, and
 * who submits a call or counts an event checks afterwards whether anybody drives. Both orders are
 * sequentially consistent.
 *
 * A caller's side: until the tensor is done, the threads stop, or the deadline has passed. Returns
 * at once if somebody else drives.
 */
void sml_progress_drive(struct sml_progress *progress, const struct sml_tensor *tensor,
			uint64_t deadline_ns);

/* A tensor has been queued; waits: the caller will drive if nobody does. */
void sml_progress_notify(struct sml_progress *progress, bool waits);

/* A caller only checks, and does not wait, so another thread must drive. */
void sml_progress_leave_alone(struct sml_progress *progress);

/*
 * The thread's side: returns when the threads stop. From then on nobody drives, and nobody accesses
 * a buffer.
 */
void sml_progress_drive_alone(struct sml_progress *progress);

/* Joins the thread, the threads' `stop` having been set, and frees its lines. */
void sml_progress_free(struct sml_progress *progress);

#endif
