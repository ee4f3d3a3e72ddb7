/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting and ending a progress thread. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fork.h"
#include "base/thread.h"
#include "lib/progress/progress.h"
#include "lib/progress/threads.h"

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

int sml_progress_start(struct sml_progress *progress)
{
	char name[16];
	int error;

	snprintf(name, sizeof(name), "sml-progress%u", progress->index);
	error = sml_thread_start(&progress->thread, name, sml_progress_main, progress);
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
