/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All progress threads of a context, and what they share besides tensors. The context owns them:
 * they call it through a table of callbacks, and know nothing else of it.
 */
#ifndef SML_LIB_THREADS_H
#define SML_LIB_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/wire.h"

struct sml_host;
struct sml_embedded_stripe;
struct sml_progress;
struct sml_requests;
struct sml_shard;
struct sml_stall_report;

/* The threads' callbacks to their owner. Each is called by the thread that it is about. */
struct sml_threads_owner {
	void *self;
	/* A tensor is done, and its caller may be waiting. */
	void (*tensor_done)(void *self, uint64_t n);
	/*
	 * The shard is not in the state that its `park` asks for: it must be parked (and is
	 * frozen), or must belong to the thread again. True if `parked` has changed accordingly.
	 */
	bool (*park)(void *self, struct sml_shard *shard);
};

struct sml_threads {
	struct sml_progress *threads[SML_MAX_SHARDS];
	unsigned n_threads;
	bool spin;
	bool stop;	 /* atomic: threads are to end */
	uint32_t events; /* atomic: head chunks and tensors that any thread finished; shards to park
			  */
	struct sml_requests *requests;
	struct sml_embedded_stripe *own; /* NULL if this process has none */
	/*
	 * Memory that ranks share, for each switch; this rank sleeps at the first one. NULL if each
	 * sends packets.
	 */
	struct sml_host *host;
	bool callers_drive; /* this rank sends no packets: see progress.h */
	struct sml_threads_owner owner;

	pthread_mutex_t lock; /* also of the embedded stripe's question */
	pthread_cond_t changed;
	unsigned n_stopped;
};

/* Zeroes it: no threads yet. */
void sml_threads_init(struct sml_threads *threads, struct sml_requests *requests,
		      const struct sml_threads_owner *owner);
void sml_threads_fini(struct sml_threads *threads);

/*
 * Make all threads check everything again: `stop`, shards to park, and what other threads brought.
 */
void sml_threads_wake(struct sml_threads *threads);

/* Note that something has come that any of them may be waiting for. */
void sml_threads_notify(struct sml_threads *threads);

/* Wake the other threads that wait, because this thread has brought something. */
void sml_threads_notify_others(struct sml_threads *threads, const struct sml_progress *by);

/* Ask the threads to end: they see that when they next wake. */
void sml_threads_stop(struct sml_threads *threads);

static inline bool sml_threads_is_stopping(const struct sml_threads *threads)
{
	return __atomic_load_n(&threads->stop, __ATOMIC_SEQ_CST);
}

/* Returns when no thread accesses a buffer any more. All threads must have been started. */
void sml_threads_await_stop(struct sml_threads *threads);

/* Called by a thread as it ends. */
void sml_threads_note_stopped(struct sml_threads *threads);

/*
 * ---- what slots here wait for (question.c) ----
 *
 * Asks what the slots of this rank's embedded stripe are waiting for. Each slot belongs to a
 * thread, which answers, unless it has stopped. Slots that ranks share are read at once.
 */

/*
 * What ranks of this host share for the stripe is read. Otherwise, ask the threads, or read the
 * slots if the threads have stopped. The caller frees the report; it is partial if a thread does
 * not answer. NULL if this rank has no slots, or no memory.
 */
struct sml_stall_report *sml_question_query(struct sml_threads *threads, unsigned stripe);

/* The thread's side: answer if there is a question that it has not seen. */
void sml_question_answer(struct sml_threads *threads, unsigned thread, uint32_t *seen);

/*
 * What a switch says of a stripe (or NULL), with what is known here: where ranks of this host
 * contribute as one, which of them are late; and where all ranks are on one host, or the job has
 * failed, what the slots here say if it does not. names: who the ranks are, if nothing else says
 * it; or NULL. The caller closes it. NULL if nothing is known.
 */
struct sml_stall_report *sml_question_complete(struct sml_threads *threads, unsigned stripe,
					       struct sml_stall_report *told,
					       const struct sml_stall_report *names, bool failed);

#endif
