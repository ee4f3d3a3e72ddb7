/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/thread.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What a new thread needs. It frees it. */
struct start {
	void *(*body)(void *);
	void *argument;
	sigset_t mask; /* of the thread that starts it: the application's */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned n_running; /* threads of this file */
static _Thread_local sigset_t application_mask;
static _Thread_local bool is_ours;

static void forget_threads(void)
{
	__atomic_store_n(&n_running, 0, __ATOMIC_RELAXED);
}

static void mind_forks(void)
{
	(void)pthread_atfork(NULL, NULL, forget_threads);
}

static void *run_body(void *self)
{
	struct start start = *(struct start *)self;
	void *result;

	free(self);
	application_mask = start.mask;
	is_ours = true;
	result = start.body(start.argument);
	__atomic_sub_fetch(&n_running, 1, __ATOMIC_RELAXED);
	return result;
}

int sml_thread_start(pthread_t *thread, const char *name, void *(*body)(void *), void *argument)
{
	struct start *start = malloc(sizeof(*start));
	sigset_t all, own;
	int error;

	if (start == NULL)
		return -ENOMEM;
	pthread_once(&once, mind_forks);
	*start = (struct start){.body = body, .argument = argument};
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &own);
	/* A thread of ours that starts another one has them all blocked. */
	start->mask = is_ours ? application_mask : own;
	__atomic_add_fetch(&n_running, 1, __ATOMIC_RELAXED);
	error = pthread_create(thread, NULL, run_body, start);
	pthread_sigmask(SIG_SETMASK, &own, NULL);
	if (error) {
		__atomic_sub_fetch(&n_running, 1, __ATOMIC_RELAXED);
		free(start);
		return -error;
	}
	pthread_setname_np(*thread, name);
	return 0;
}

/* The main thread has ended, and others have not: its state is Z then, or X. */
static bool main_has_ended(void)
{
	char path[64], text[128], *state;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", getpid());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	/* "1234 (name) Z ..."; the name may contain parentheses. */
	state = strrchr(text, ')');
	return state && state[1] == ' ' && (state[2] == 'Z' || state[2] == 'X');
}

static unsigned count_threads(void)
{
	DIR *folder = opendir("/proc/self/task");
	unsigned n = 0;

	if (folder == NULL)
		return 0;
	for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
		n += entry->d_name[0] != '.';
	closedir(folder);
	return n;
}

void sml_thread_take_signals(void)
{
	if (!main_has_ended())
		return;
	/* The main thread is still listed. */
	if (count_threads() == __atomic_load_n(&n_running, __ATOMIC_RELAXED) + 1)
		pthread_sigmask(SIG_SETMASK, &application_mask, NULL);
}

int sml_thread_begin_call(void)
{
	int state;

	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

void sml_thread_end_call(const int *state)
{
	(void)pthread_setcancelstate(*state, NULL);
}

void sml_cond_init(pthread_cond_t *condition)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &attributes);
	pthread_condattr_destroy(&attributes);
}
