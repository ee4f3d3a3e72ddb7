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

#endif
