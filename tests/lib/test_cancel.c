/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads of the application that end in unusual ways. One that is cancelled while it waits in a
 * call ends after the call, and the context stays usable for the others: whatever the call. A main
 * thread that ends with an open context leaves a process that signals still reach.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/ranks.h"
#include "support/test.h"

#define COUNT	      1000
#define NOT_RETURNED  1
#define NOT_CANCELLED 2

static int32_t in[2 * COUNT], out[2 * COUNT];

/* ---- cancellation ---- */

struct waiter {
	struct sml_context *context;
	int (*call)(struct sml_context *context);
	bool pending; /* The call begins with the cancellation pending: no test depends on when. */
	pthread_t thread;
	atomic_bool begun;
	atomic_int result; /* of the call */
};

static int do_allreduce(struct sml_context *context)
{
	return sml_allreduce(context, in, out, COUNT, SML_INT32, SML_SUM, NULL, NULL);
}

static int do_reduce(struct sml_context *context)
{
	return sml_reduce(context, in, out, COUNT, SML_INT32, SML_SUM, 0, NULL, NULL);
}

static int do_broadcast(struct sml_context *context)
{
	return sml_broadcast(context, out, COUNT, SML_INT32, 1, NULL, NULL);
}

static int do_allgather(struct sml_context *context)
{
	return sml_allgather(context, in, out, COUNT, SML_INT32, NULL, NULL);
}

static int do_reduce_scatter(struct sml_context *context)
{
	return sml_reduce_scatter(context, in, out, COUNT, SML_INT32, SML_SUM, NULL, NULL);
}

static int do_barrier(struct sml_context *context)
{
	return sml_barrier(context, NULL, NULL);
}

static int do_wait(struct sml_context *context)
{
	struct sml_request *request;
	int error = sml_barrier(context, NULL, &request);

	return error ? error : sml_wait(&request, 1, -1, NULL);
}

static int do_wait_for(struct sml_context *context)
{
	struct sml_request *request;
	int error = sml_barrier(context, NULL, &request);

	return error ? error : sml_wait(&request, 1, 60000, NULL);
}

static int do_wait_any(struct sml_context *context)
{
	struct sml_request *requests[2] = {NULL};
	int error = sml_barrier(context, NULL, &requests[1]);
	size_t index;

	return error ? error : sml_wait(requests, 2, 60000, &index);
}

static void *wait_in_call(void *self)
{
	struct waiter *waiter = self;

	if (waiter->pending)
		(void)pthread_cancel(pthread_self());
	atomic_store(&waiter->begun, true);
	atomic_store(&waiter->result, waiter->call(waiter->context));
	pthread_testcancel();
	return NULL;
}

static void cancel_while_it_waits(struct waiter *waiter)
{
	assert_int_equal(pthread_create(&waiter->thread, NULL, wait_in_call, waiter), 0);
	while (!atomic_load(&waiter->begun))
		usleep(100);
	/* Most probably it waits by now. */
	usleep(2000);
	(void)pthread_cancel(waiter->thread);
}

/* The call's result; NOT_RETURNED if the thread ended otherwise than by its cancellation after it.
 */
static int join_cancelled(struct waiter *waiter)
{
	void *result = NULL;

	if (pthread_join(waiter->thread, &result) != 0)
		return NOT_RETURNED;
	if (result != PTHREAD_CANCELED)
		return NOT_CANCELLED;
	return atomic_load(&waiter->result);
}

/* Rank 1 makes no call until rank 0's is over. */
static pthread_barrier_t both;

static void wait_alone(struct rank *rank)
{
	struct waiter waiter = *(const struct waiter *)rank->job->argument;
	int aborted = 0, result = SML_ERROR_ABORTED;

	waiter.context = rank->context;
	/* An abort before rank 1 has opened would be the end of its sml_open(). */
	pthread_barrier_wait(&both);
	if (rank->rank == 0) {
		cancel_while_it_waits(&waiter);
		aborted = sml_abort(rank->context, "enough");
		result = join_cancelled(&waiter);
	}
	pthread_barrier_wait(&both);
	CHECK(rank, aborted == 0);
	wait_until_told(rank);
	CHECK_ERROR(rank, result, SML_ERROR_ABORTED, "enough");
}

static void cancel_in_every_call(bool host_group, bool dedicated)
{
	static int (*const calls[])(struct sml_context *) = {
		do_allreduce, do_reduce, do_broadcast, do_allgather, do_reduce_scatter,
		do_barrier,   do_wait,	 do_wait_for,  do_wait_any};
	char address[64];

	if (dedicated)
		serve_at(0, address);
	for (size_t i = 0; i < 2 * sizeof(calls) / sizeof(calls[0]); i++) {
		struct waiter waiter = {
			.call = calls[i / 2], .pending = i % 2, .result = NOT_RETURNED};

		pthread_barrier_init(&both, NULL, 2);
		run_job(&(struct job){.n_ranks = 2,
				      .switch_address = dedicated ? address : NULL,
				      .host_group = host_group,
				      .argument = &waiter,
				      .body = wait_alone});
		pthread_barrier_destroy(&both);
	}
}

TEST(a_cancelled_thread_ends_after_its_call)
{
	cancel_in_every_call(false, false);
	cancel_in_every_call(false, true);
}

TEST(a_cancelled_thread_of_a_host_ends_after_its_call)
{
	cancel_in_every_call(true, false);
	cancel_in_every_call(true, true);
}

/* Prepared before the thread runs, because a test's own close() would end a cancelled one. */
static struct sml_config never_complete;

static int do_open(struct sml_context *none)
{
	struct sml_context *context = NULL;
	int error = sml_open(&context, &never_complete);

	(void)none;
	assert_null(context);
	return error;
}

static void cancel_in_open(bool pending)
{
	const struct job job = {.n_ranks = 2, .port = free_port(), .timeout_ms = 300};
	struct waiter waiter = {.call = do_open, .pending = pending, .result = NOT_RETURNED};

	configure(&never_complete, &job, 0);
	cancel_while_it_waits(&waiter);
	assert_int_equal(join_cancelled(&waiter), SML_ERROR_TIMEOUT);
}

TEST(a_cancelled_thread_ends_after_opening)
{
	cancel_in_open(false);
	cancel_in_open(true);
}

/* Rank 1 leaves only after rank 0's thread, which waits in sml_close(), has been cancelled. */
static atomic_bool cancelled;
static bool pending;

static void *open_and_close(void *number)
{
	int rank = (int)(intptr_t)number;
	const struct job job = {.n_ranks = 2, .port = *(int *)in};
	struct sml_context *context = NULL;
	struct waiter waiter = {.call = sml_close, .pending = pending, .result = NOT_RETURNED};
	struct sml_config config;

	configure(&config, &job, rank);
	if (sml_open(&context, &config) < 0)
		return "not opened";
	if (rank == 0) {
		waiter.context = context;
		cancel_while_it_waits(&waiter);
		atomic_store(&cancelled, true);
		return join_cancelled(&waiter) == 0 ? NULL : "not cancelled after closing";
	}
	while (!atomic_load(&cancelled))
		usleep(1000);
	return sml_close(context) == 0 ? NULL : "not closed";
}

static void cancel_in_close(void)
{
	pthread_t other;
	void *complaint = "";

	*(int *)in = free_port();
	atomic_store(&cancelled, false);
	assert_int_equal(pthread_create(&other, NULL, open_and_close, (void *)1), 0);
	assert_null(open_and_close((void *)0));
	pthread_join(other, &complaint);
	assert_null(complaint);
}

TEST(a_cancelled_thread_ends_after_closing)
{
	cancel_in_close();
	pending = true;
	cancel_in_close();
}

/* ---- the main thread ends ---- */

static bool stays;

/* 8: in a thread of the library, although the application has another one. */
static void on_term(int signal)
{
	char name[16] = "";

	(void)signal;
	prctl(PR_GET_NAME, name);
	_exit(stays && strncmp(name, "sml-", 4) == 0 ? 8 : 7);
}

static void *stay(void *self)
{
	(void)self;
	while (pause() < 0)
		;
	return NULL;
}

/* In a process of its own. How: a handler ('h'), another thread of the application ('t'). */
static int be_process(const char *how)
{
	const struct job job = {.n_ranks = 1, .heartbeat_ms = 1000};
	struct sigaction action = {.sa_handler = on_term};
	struct sml_context *context;
	struct sml_config config;
	pthread_t thread;

	configure(&config, &job, 0);
	if (sml_open(&context, &config) < 0)
		return 1;
	if (strpbrk(how, "ht"))
		sigaction(SIGTERM, &action, NULL);
	if (strchr(how, 't')) {
		stays = true;
		pthread_create(&thread, NULL, stay, NULL);
	}
	if (write(STDOUT_FILENO, ".", 1) != 1)
		return 1;
	pthread_exit(NULL);
}

/* Its main thread is gone, and others are not. */
static bool main_has_ended(pid_t pid)
{
	char path[64], text[256] = "", *state;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	fclose(file);
	state = strrchr(text, ')');
	return state && state[2] == 'Z';
}

/* The process's status after SIGTERM. */
static int status_of(const char *how)
{
	int fds[2], status = -1;
	char byte;
	pid_t pid;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		execl("/proc/self/exe", "test_cancel", "--main-ends", how, (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &byte, 1), 1);
	close(fds[0]);
	while (!main_has_ended(pid))
		usleep(1000);
	kill(pid, SIGTERM);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

TEST(sigterm_ends_a_process_whose_main_thread_has_ended)
{
	int status = status_of("-");

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGTERM);
}

TEST(a_handler_is_called_when_the_main_thread_has_ended)
{
	int status = status_of("h");

	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
}

TEST(signals_belong_to_the_applications_threads)
{
	int status = status_of("t");

	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "--main-ends") == 0)
		return be_process(argv[2]);
	return test_run();
}
