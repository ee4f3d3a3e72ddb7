/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/progress/threads.h"

#include <stdlib.h>

#include "base/thread.h"
#include "lib/host/slots.h"
#include "lib/progress/progress.h"

void sml_threads_init(struct sml_threads *threads, struct sml_requests *requests,
		      const struct sml_threads_owner *owner)
{
	*threads = (struct sml_threads){.requests = requests, .owner = *owner};
	pthread_mutex_init(&threads->lock, NULL);
	sml_cond_init(&threads->changed);
}

void sml_threads_fini(struct sml_threads *threads)
{
	pthread_cond_destroy(&threads->changed);
	pthread_mutex_destroy(&threads->lock);
}

void sml_threads_wake(struct sml_threads *threads)
{
	for (unsigned i = 0; i < threads->n_threads; i++)
		sml_progress_wake(threads->threads[i]);
	if (threads->callers_drive)
		sml_host_wake_self(threads->host);
}

void sml_threads_notify(struct sml_threads *threads)
{
	__atomic_add_fetch(&threads->events, 1, __ATOMIC_SEQ_CST);
	sml_threads_wake(threads);
}

void sml_threads_notify_others(struct sml_threads *threads, const struct sml_progress *by)
{
	if (threads->n_threads == 1)
		return;
	__atomic_add_fetch(&threads->events, 1, __ATOMIC_SEQ_CST);
	for (unsigned i = 0; i < threads->n_threads; i++) {
		struct sml_progress *other = threads->threads[i];

		if (other != by &&
		    __atomic_load_n(&other->resting, __ATOMIC_SEQ_CST) == SML_RESTING_BLOCKED)
			sml_progress_wake(other);
	}
}

void sml_threads_stop(struct sml_threads *threads)
{
	__atomic_store_n(&threads->stop, true, __ATOMIC_SEQ_CST);
}

void sml_threads_await_stop(struct sml_threads *threads)
{
	pthread_mutex_lock(&threads->lock);
	while (threads->n_stopped < threads->n_threads)
		pthread_cond_wait(&threads->changed, &threads->lock);
	pthread_mutex_unlock(&threads->lock);
}

void sml_threads_note_stopped(struct sml_threads *threads)
{
	pthread_mutex_lock(&threads->lock);
	threads->n_stopped++;
	pthread_cond_broadcast(&threads->changed);
	pthread_mutex_unlock(&threads->lock);
}
