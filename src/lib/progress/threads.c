/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/progress/threads.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fork.h"
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

/* Of one that rests: see progress.h. Everybody may do that. */
void sml_progress_wake(struct sml_progress *progress)
{
	uint64_t one = 1;

	if (__atomic_exchange_n(&progress->resting, SML_AWAKE, __ATOMIC_SEQ_CST) == SML_AWAKE)
		return;
	/* The eventfd cannot be full, and the reader takes all of it. */
	if (write(progress->wake_fd, &one, sizeof(one)) < 0)
		sml_assert(errno == EAGAIN);
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

/* ---- each of them ---- */

struct sml_progress *sml_progress_new(struct sml_threads *threads, unsigned index)
{
	struct sml_progress *progress = calloc(1, sizeof(*progress));

	if (progress == NULL) {
		sml_error_set(-ENOMEM, "no memory for a progress thread");
		return NULL;
	}
	progress->wake_fd = sml_fd_lift(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (progress->wake_fd < 0) {
		sml_error_set(-errno,
			      "no file descriptor for a progress thread: %s "
			      "(the limit of descriptors: ulimit -n)",
			      strerrordesc_np(errno));
		free(progress);
		return NULL;
	}
	progress->threads = threads;
	progress->index = index;
	pthread_mutex_init(&progress->queue_lock, NULL);
	return progress;
}

int sml_progress_start(struct sml_progress *progress, void *(*run)(void *progress))
{
	char name[16];
	int error;

	snprintf(name, sizeof(name), "sml-progress%u", progress->index);
	error = sml_thread_start(&progress->thread, name, run, progress);
	if (error)
		return sml_error_set(error, "a progress thread cannot be started: %s",
				     strerrordesc_np(-error));
	progress->started = true;
	return 0;
}

void sml_progress_free(struct sml_progress *progress)
{
	if (progress == NULL)
		return;
	if (progress->started) {
		sml_progress_wake(progress);
		pthread_join(progress->thread, NULL);
	}
	for (unsigned i = 0; i < progress->n_lines; i++)
		sml_line_free(progress->lines[i]);
	close(progress->wake_fd);
	pthread_mutex_destroy(&progress->queue_lock);
	free(progress);
}
