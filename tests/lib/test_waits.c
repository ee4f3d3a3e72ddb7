/* SPDX-License-Identifier: BSD-3-Clause */
/* Ways to wait for calls: with a limit, for any of several, and by a descriptor for event loops. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "support/elements.h"
#include "support/ranks.h"
#include "support/test.h"

/* Longer than any pause of a process on a busy machine. */
#define LONG_MS 60000

/* ---- limited waits ---- */

/* Rank 0 may go on when the others have seen what they wanted to see. */
struct gate {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned passed;
};

#define GATE                                                                                       \
	{                                                                                          \
		PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0                             \
	}

static void pass(struct gate *gate)
{
	pthread_mutex_lock(&gate->lock);
	gate->passed++;
	pthread_cond_broadcast(&gate->changed);
	pthread_mutex_unlock(&gate->lock);
}

static void await(struct gate *gate, unsigned passed)
{
	pthread_mutex_lock(&gate->lock);
	while (gate->passed < passed)
		pthread_cond_wait(&gate->changed, &gate->lock);
	pthread_mutex_unlock(&gate->lock);
}

/* promises: to wait for it next. */
static int begin_promised(struct rank *rank, int32_t *data, bool promises,
			  struct sml_request **request)
{
	const struct sml_options options = {.size = sizeof(options), .waits = promises};

	return sml_allreduce(rank->context, data, data, 1000, SML_INT32, SML_SUM, &options,
			     request);
}

static int begin(struct rank *rank, int32_t *data, struct sml_request **request)
{
	return begin_promised(rank, data, false, request);
}

static void wait_with_limits(struct rank *rank)
{
	struct gate *gate = rank->job->argument;
	struct sml_request *requests[2], **request = &requests[1];
	static int32_t data[2][1000];
	int32_t *mine = data[rank->rank];
	uint64_t began;

	elements_fill(mine, 1000, rank->rank + 1);
	CHECK(rank, sml_barrier(rank->context, NULL, &requests[0]) == 0);
	if (rank->rank == 0)
		await(gate, 1); /* rank 0 makes the call when rank 1's limits have passed */
	CHECK(rank, begin(rank, mine, request) == 0);
	if (rank->rank == 1) {
		/* One of the two ends. */
		while (requests[0])
			CHECK(rank, sml_wait(requests, 2, 1, NULL) == -EAGAIN && *request);
		began = now_ms();
		CHECK(rank, sml_wait(request, 1, 30, NULL) == -EAGAIN && *request);
		CHECK(rank, now_ms() - began >= 30);
		CHECK(rank, sml_wait(request, 1, 0, NULL) == -EAGAIN && *request);
		/* Nobody has touched the buffer, and the context is as good as before. */
		CHECK(rank, elements_are(mine, 1000, 2));
		pass(gate);
	}
	CHECK(rank, sml_wait(requests, 2, LONG_MS, NULL) == 0 && !*request);
	CHECK(rank, elements_are(mine, 1000, 3));
	CHECK(rank, sml_barrier(rank->context, NULL, NULL) == 0);
}

TEST(a_limited_wait_ends_and_the_call_goes_on)
{
	struct gate gate = GATE;

	run_job(&(struct job){.n_ranks = 2, .body = wait_with_limits, .argument = &gate});
}

/* ---- promised waits: only where ranks share memory do they differ from others ---- */

static void end_by_tests(struct rank *rank, struct sml_request *request)
{
	uint64_t until_ms = now_ms() + LONG_MS;
	int result = -EAGAIN;

	while (result == -EAGAIN && now_ms() < until_ms)
		result = sml_wait(&request, 1, 0, NULL);
	CHECK(rank, result == 0 && request == NULL);
}

static void keep_and_break_promises(struct rank *rank)
{
	static int32_t data[2][1000];
	int32_t *mine = data[rank->rank];
	struct sml_request *requests[2];
	size_t index;

	for (int way = 0; way < 5; way++) {
		elements_fill(mine, 1000, rank->rank + 1);
		CHECK(rank, begin_promised(rank, mine, true, &requests[0]) == 0);
		if (way == 0)
			CHECK(rank, sml_wait(&requests[0], 1, -1, NULL) == 0);
		if (way == 1)
			while (sml_wait(requests, 1, 1, NULL) == -EAGAIN)
				;
		if (way == 2)
			end_by_tests(rank, requests[0]);
		/* The promise is for one call: the second one needs no wait of this thread. */
		if (way >= 3)
			CHECK(rank, sml_barrier(rank->context, NULL, &requests[1]) == 0);
		if (way == 3) {
			CHECK(rank, sml_wait(requests, 2, LONG_MS, &index) == 0 && index < 2);
			CHECK(rank, sml_wait(requests, 2, LONG_MS, &index) == 0 && index < 2);
		}
		if (way == 4) {
			CHECK(rank, sml_wait(&requests[1], 1, -1, NULL) == 0);
			CHECK(rank, sml_wait(&requests[0], 1, -1, NULL) == 0);
		}
		CHECK(rank, elements_are(mine, 1000, 3));
	}
	CHECK(rank, sml_barrier(rank->context, NULL, NULL) == 0);
}

TEST(a_call_whose_wait_was_promised_ends_however_it_is_waited_for)
{
	run_job(&(struct job){.n_ranks = 2, .host_group = true, .body = keep_and_break_promises});
	run_job(&(struct job){.n_ranks = 2, .body = keep_and_break_promises});
}

static void wait_longer_than_the_context(struct rank *rank)
{
	struct sml_request *request;
	static int32_t data[1000];

	if (rank->rank == 0) {
		wait_until_told(rank);
		return;
	}
	CHECK(rank, begin(rank, data, &request) == 0);
	CHECK(rank, sml_wait(&request, 1, LONG_MS, NULL) == SML_ERROR_TIMEOUT && request == NULL);
}

#define MANY 40

static void wait_for_any(struct rank *rank)
{
	struct gate *gate = rank->job->argument;
	static int32_t data[2][MANY][1000];
	struct sml_request *requests[MANY + 1] = {NULL}; /* the last one stays NULL */
	bool seen[MANY] = {false};
	size_t index = 0;

	CHECK(rank, sml_wait(requests, MANY + 1, -1, &index) == 0 && index == MANY + 1);
	CHECK(rank, sml_wait(NULL, 0, -1, &index) == 0 && index == 0);
	if (rank->rank == 0)
		await(gate, 1);
	for (unsigned i = 0; i < MANY; i++) {
		elements_fill(data[rank->rank][i], 1000, (int32_t)i);
		CHECK(rank, begin(rank, data[rank->rank][i], &requests[i]) == 0);
	}
	if (rank->rank == 1) {
		CHECK(rank, sml_wait(requests, MANY + 1, 20, &index) == -EAGAIN);
		CHECK(rank, index == MANY + 1);
		pass(gate);
	}
	for (unsigned i = 0; i < MANY; i++) {
		CHECK(rank, sml_wait(requests, MANY + 1, LONG_MS, &index) == 0);
		CHECK(rank, index < MANY && !seen[index] && requests[index] == NULL);
		CHECK(rank, elements_are(data[rank->rank][index], 1000, 2 * (int32_t)index));
		seen[index] = true;
	}
	CHECK(rank, sml_wait(requests, MANY + 1, -1, &index) == 0 && index == MANY + 1);
}

TEST(wait_any_returns_each_request_once)
{
	struct gate gate = GATE;

	run_job(&(struct job){.n_ranks = 2, .body = wait_for_any, .argument = &gate});
}

/* Rank 0 never makes the calls: it ends the job once rank 1 has made them. */
static void end_when_told(struct rank *rank)
{
	await(rank->job->argument, 1);
	CHECK(rank, sml_abort(rank->context, "enough") == 0);
}

static void fail_while_waiting(struct rank *rank)
{
	struct sml_request *requests[3];
	static int32_t data[3][1000];
	size_t index = 7;

	if (rank->rank == 0) {
		end_when_told(rank);
		return;
	}
	for (unsigned i = 0; i < 3; i++)
		CHECK(rank, begin(rank, data[i], &requests[i]) == 0);
	pass(rank->job->argument);
	for (unsigned i = 0; i < 3; i++) {
		CHECK(rank, sml_wait(requests, 3, LONG_MS, &index) == SML_ERROR_ABORTED);
		CHECK(rank, index < 3 && requests[index] == NULL);
	}
}

TEST(wait_any_returns_each_request_of_a_failed_job)
{
	struct gate gate = GATE;

	run_job(&(struct job){.n_ranks = 2, .body = fail_while_waiting, .argument = &gate});
}

static struct sml_request *stranger;

static void mix_contexts(struct rank *rank)
{
	struct gate *gate = rank->job->argument;
	struct sml_request *requests[2];
	static int32_t data[2][1000];
	size_t index = 7;

	/* Two jobs of one rank each: "a" waits for a request of "b". */
	if (rank->job->name[0] == 'b') {
		CHECK(rank, begin(rank, data[0], &stranger) == 0);
		pass(gate);
		await(gate, 2);
		CHECK(rank, sml_wait(&stranger, 1, -1, NULL) == 0);
		return;
	}
	await(gate, 1);
	CHECK(rank, begin(rank, data[1], &requests[0]) == 0);
	requests[1] = stranger;
	CHECK(rank, sml_wait(requests, 2, LONG_MS, &index) == -EINVAL && index == 2);
	CHECK(rank, requests[0] != NULL && requests[1] == stranger);
	CHECK(rank, sml_wait(&requests[0], 1, -1, NULL) == 0);
	pass(gate);
}

TEST(wait_any_refuses_requests_of_two_contexts)
{
	struct gate gate = GATE;

	run_jobs(
		(struct job[]){
			{.n_ranks = 1, .name = "a", .body = mix_contexts, .argument = &gate},
			{.n_ranks = 1, .name = "b", .body = mix_contexts, .argument = &gate}},
		2);
}

/* ---- the descriptor for event loops ---- */

#define CALLS	2000
#define AT_ONCE 37

struct loop {
	struct sml_request *requests[AT_ONCE];
	int32_t data[AT_ONCE];
	unsigned begun, ended;
};

/* Test all requests, and begin others in the places of those that are done. */
static int serve(struct rank *rank, struct loop *loop)
{
	int error;

	for (unsigned i = 0; i < AT_ONCE; i++) {
		if (loop->requests[i]) {
			error = sml_wait(&loop->requests[i], 1, 0, NULL);
			if (error == -EAGAIN)
				continue;
			if (error)
				return error;
			loop->ended++;
		}
		if (loop->begun == CALLS)
			continue;
		loop->data[i] = 1;
		error = sml_allreduce(rank->context, &loop->data[i], &loop->data[i], 1, SML_INT32,
				      SML_SUM, NULL, &loop->requests[i]);
		if (error)
			return error;
		loop->begun++;
	}
	return 0;
}

/*
 * Only a readable descriptor makes this program look. The reminders, once a second, would hide a
 * lost wake-up as a pause, so that they must be few.
 */
static void run_loop(struct rank *rank)
{
	const bool use_epoll = rank->job->argument != NULL;
	struct loop loop = {.begun = 0};
	struct epoll_event event = {.events = EPOLLIN};
	int fd = sml_event_fd(rank->context), epoll = epoll_create1(0);
	struct pollfd ready = {.fd = use_epoll ? epoll : fd, .events = POLLIN};
	uint64_t rings, began = now_ms();

	CHECK(rank, fd >= 0 && sml_event_fd(rank->context) == fd);
	CHECK(rank, epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
	while (loop.ended < CALLS) {
		CHECK(rank, poll(&ready, 1, LONG_MS) == 1);
		CHECK(rank, !use_epoll || epoll_wait(epoll, &event, 1, 0) == 1);
		CHECK(rank, read(fd, &rings, sizeof(rings)) == (ssize_t)sizeof(rings));
		CHECK(rank, serve(rank, &loop) == 0);
	}
	close(epoll);
	/* If each of some 50 rounds lost its wake-up, this would take as many seconds. */
	CHECK(rank, now_ms() - began < LONG_MS / 2);
}

TEST(an_event_loop_hears_of_every_end)
{
	run_job(&(struct job){.n_ranks = 2, .threads = 2, .body = run_loop});
	run_job(&(struct job){.n_ranks = 2, .argument = "epoll", .body = run_loop});
}

/* Nobody rings, and there is no call: the descriptor stays silent once it has been read. */
static void watch_idly(struct rank *rank)
{
	int fd = sml_event_fd(rank->context);
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	uint64_t rings;

	CHECK(rank, read(fd, &rings, sizeof(rings)) == (ssize_t)sizeof(rings));
	CHECK(rank, poll(&ready, 1, 100) == 0);
	CHECK(rank, read(fd, &rings, sizeof(rings)) < 0 && errno == EAGAIN);
	CHECK(rank, sml_barrier(rank->context, NULL, NULL) == 0);
	CHECK(rank, poll(&ready, 1, LONG_MS) == 1);
}

TEST(the_descriptor_is_silent_without_calls)
{
	run_job(&(struct job){.n_ranks = 1, .body = watch_idly});
}

/* Nothing but the descriptor wakes this rank, until the request ends with this error. */
static void loop_until_done(struct rank *rank, struct sml_request *request, int expected)
{
	struct pollfd ready = {.fd = sml_event_fd(rank->context), .events = POLLIN};
	uint64_t rings;
	int error = 0;

	while (request) {
		CHECK(rank, poll(&ready, 1, LONG_MS) == 1);
		CHECK(rank, read(ready.fd, &rings, sizeof(rings)) == (ssize_t)sizeof(rings));
		error = sml_wait(&request, 1, 0, NULL);
	}
	CHECK(rank, error == expected);
}

/* The other rank never makes the call; nothing but the descriptor wakes this one. */
static void loop_until_the_deadline(struct rank *rank)
{
	struct sml_request *request;
	static int32_t data[1000];

	if (rank->rank == 0) {
		wait_until_told(rank);
		return;
	}
	CHECK(rank, begin(rank, data, &request) == 0);
	loop_until_done(rank, request, SML_ERROR_TIMEOUT);
}

/* Longer than a pause of the machine while the job opens. */
#define SHORT_MS 4000

TEST(the_contexts_timeout_limits_every_wait)
{
	run_jobs((struct job[]){{.n_ranks = 2,
				 .name = "loop",
				 .timeout_ms = SHORT_MS,
				 .body = loop_until_the_deadline},
				{.n_ranks = 2,
				 .name = "wait",
				 .timeout_ms = SHORT_MS,
				 .body = wait_longer_than_the_context}},
		 2);
}

static void loop_until_the_failure(struct rank *rank)
{
	struct sml_request *request;
	static int32_t data[1000];

	if (rank->rank == 0) {
		end_when_told(rank);
		return;
	}
	CHECK(rank, begin(rank, data, &request) == 0);
	pass(rank->job->argument);
	loop_until_done(rank, request, SML_ERROR_ABORTED);
}

TEST(an_event_loop_notices_a_failure)
{
	struct gate gate = GATE;

	run_job(&(struct job){.n_ranks = 2, .body = loop_until_the_failure, .argument = &gate});
}
