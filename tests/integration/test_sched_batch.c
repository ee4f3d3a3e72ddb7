/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SWITCHML_SCHED_BATCH, as the kernel sees it: the policy of every progress thread, and only of
 * those. And a kernel that refuses: it lets no process without CAP_SYS_NICE leave SCHED_IDLE.
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "support/calls.h"
#include "support/test.h"

#define N_RANKS	  2
#define N_THREADS 2

/* ---- a kernel that refuses: first, because it forks, and there are no other threads yet ---- */

enum { REFUSED = 0, OPENED, OTHER_TEXT, NO_IDLE };

/* As a user without privileges, in SCHED_IDLE. In a child: none of this can be undone. */
static int open_when_idle(int port)
{
	const struct job job = {.n_ranks = 1, .port = port};
	const struct sched_param none = {0};
	const struct rlimit no_nice = {0};
	struct sml_context *context;
	struct sml_config config;
	int error;

	if (sched_setscheduler(0, SCHED_IDLE, &none) || setrlimit(RLIMIT_NICE, &no_nice) ||
	    (geteuid() == 0 && setresuid(65534, 65534, 65534)) ||
	    sched_setscheduler(0, SCHED_BATCH, &none) == 0)
		return NO_IDLE;
	configure(&config, &job, 0);
	config.sched_batch = 1;
	error = sml_open(&context, &config);
	if (error == 0)
		return OPENED;
	fprintf(stderr, "%s\n", sml_error_text(NULL));
	return error == -EPERM && context == NULL &&
			       strstr(sml_error_text(NULL), "SWITCHML_SCHED_BATCH=1: ") &&
			       strstr(sml_error_text(NULL), "without SCHED_IDLE")
		       ? REFUSED
		       : OTHER_TEXT;
}

TEST(a_refusal_of_the_kernel_is_an_error_of_the_opening)
{
	int port = free_port(), status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0)
		_exit(open_when_idle(port));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == NO_IDLE) {
		print_message("skipped: this kernel lets any process leave SCHED_IDLE, or none "
			      "enter it\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), REFUSED);
}

/* ---- the setting ---- */

static bool is_progress(long thread)
{
	char path[64], name[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%ld/comm", thread);
	file = fopen(path, "re");
	if (file == NULL)
		return false; /* it has ended */
	if (fgets(name, sizeof(name), file) == NULL)
		name[0] = '\0';
	fclose(file);
	return strncmp(name, "sml-progress", strlen("sml-progress")) == 0;
}

/* All ranks are threads of this process, so one rank's threads are among those of all. */
static void policies(struct rank *rank)
{
	int inherited = sched_getscheduler(getpid());
	int wanted = *(const bool *)rank->job->argument ? SCHED_BATCH : inherited;
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	int n = 0;

	CHECK(rank, tasks != NULL);
	while ((entry = readdir(tasks)) != NULL) {
		long thread = strtol(entry->d_name, NULL, 10);
		int policy = thread > 0 ? sched_getscheduler((pid_t)thread) : -1;

		if (policy < 0)
			continue;
		if (is_progress(thread)) {
			n++;
			if (policy != wanted)
				complain(rank, "thread %ld has policy %d", thread, policy);
		} else if (policy != inherited) {
			complain(rank, "thread %ld moves no packets, and has policy %d", thread,
				 policy);
		}
	}
	closedir(tasks);
	/* No rank leaves before all have looked. */
	CHECK(rank, sml_barrier(rank->context) == 0);
	if (n != N_RANKS * N_THREADS)
		complain(rank, "%d progress threads, not %d", n, N_RANKS * N_THREADS);
}

static void look_and_call(struct rank *rank)
{
	/* Until all ranks are here, some have no threads yet. */
	CHECK(rank, sml_barrier(rank->context) == 0);
	policies(rank);
	calls_of_some_kinds(rank);
}

static void run(bool batch)
{
	run_job(&(struct job){.n_ranks = N_RANKS,
			      .threads = N_THREADS,
			      .body = look_and_call,
			      .argument = &batch});
}

TEST(progress_threads_run_as_the_setting_says)
{
	unsetenv("SWITCHML_SCHED_BATCH");
	run(false);
	setenv("SWITCHML_SCHED_BATCH", "0", 1);
	run(false);
	setenv("SWITCHML_SCHED_BATCH", "1", 1);
	run(true);
	unsetenv("SWITCHML_SCHED_BATCH");
}
