/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the public interface promises besides results: versions of its structures, limited
 * waits, a descriptor for event loops, the log, an interrupted sml_open(), calls in place.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/ranks.h"

/* Longer than any pause of a process on a busy machine. */
#define LONG_MS 60000

/* ---- versions ---- */

static void the_library_says_its_version(void **state)
{
	char text[32];

	(void)state;
	snprintf(text, sizeof(text), "%d.%d.%d", sml_version_number() / 1000000,
		 sml_version_number() / 1000 % 1000, sml_version_number() % 1000);
	assert_string_equal(text, sml_version());
	assert_string_equal(sml_version(), SML_VERSION_STRING);
	assert_int_equal(sml_version_number(), SML_VERSION_NUMBER);
}

/* As programs of other versions have it: a member more than this library knows. */
struct later_options {
	struct sml_options known;
	int future[3];
};

/* 1 + 2^-20 is lost on the int16 wire next to 1e3, and not on the int32 wire. */
static int reduce(struct rank *rank, const struct sml_options *options, bool *is_narrow)
{
	float data[2000];
	int error;

	for (unsigned i = 0; i < 2000; i++)
		data[i] = i == 0 ? 1000.0f : 1.03125f;
	error = sml_allreduce(rank->context, data, data, 2000, SML_FLOAT32, SML_SUM, options);
	*is_narrow = data[1] != 2.0625f;
	return error;
}

static void pass_options(struct rank *rank)
{
	struct sml_options options = SML_OPTIONS_INIT;
	struct later_options later = {{sizeof(later), SML_WIRE_INT16, 0}, {0}};
	bool is_narrow;

	CHECK(rank, reduce(rank, &options, &is_narrow) == 0 && !is_narrow);
	options.wire = SML_WIRE_INT16;
	CHECK(rank, reduce(rank, &options, &is_narrow) == 0 && is_narrow);
	/* A shorter one of an older program: what it lacks has its default. */
	options.size = offsetof(struct sml_options, wire);
	CHECK(rank, reduce(rank, &options, &is_narrow) == 0 && !is_narrow);
	/* A longer one of a newer program. */
	CHECK(rank, reduce(rank, &later.known, &is_narrow) == 0 && is_narrow);
	later.future[2] = 1;
	CHECK(rank, reduce(rank, &later.known, &is_narrow) == -EINVAL);
	CHECK(rank, strstr(sml_error_text(rank->context), "newer library") != NULL);
	CHECK(rank, strchr(sml_error_text(rank->context), '\n') == NULL);
	/* Forgotten, or never written. */
	options.size = 0;
	CHECK(rank, reduce(rank, &options, &is_narrow) == -EINVAL);
	CHECK(rank, strstr(sml_error_text(rank->context), "SML_OPTIONS_INIT") != NULL);
	options.size = SIZE_MAX / 2;
	CHECK(rank, reduce(rank, &options, &is_narrow) == -EINVAL);
	options = (struct sml_options)SML_OPTIONS_INIT;
	options.reserved = 1;
	CHECK(rank, reduce(rank, &options, &is_narrow) == -EINVAL);
	CHECK(rank, reduce(rank, NULL, &is_narrow) == 0 && !is_narrow);
}

static void options_of_other_versions_are_understood_or_refused(void **state)
{
	(void)state;
	run_job(&(struct job){.n_ranks = 2, .body = pass_options});
}

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

static int begin(struct rank *rank, int32_t *data, struct sml_request **request)
{
	return sml_allreduce_async(rank->context, data, data, 1000, SML_INT32, SML_SUM, NULL,
				   request);
}

static void fill(int32_t *data, int32_t value)
{
	for (unsigned i = 0; i < 1000; i++)
		data[i] = value;
}

static bool all_are(const int32_t *data, int32_t value)
{
	for (unsigned i = 0; i < 1000; i++)
		if (data[i] != value)
			return false;
	return true;
}

static void wait_with_limits(struct rank *rank)
{
	struct gate *gate = rank->job->argument;
	struct sml_request *request;
	static int32_t data[2][1000];
	int32_t *mine = data[rank->rank];
	uint64_t began;
	int done = 7;

	fill(mine, rank->rank + 1);
	if (rank->rank == 0)
		await(gate, 1); /* rank 0 makes the call when rank 1's limits have passed */
	CHECK(rank, begin(rank, mine, &request) == 0);
	if (rank->rank == 1) {
		began = now_ms();
		CHECK(rank, sml_wait_for(request, 30, &done) == 0 && done == 0);
		CHECK(rank, now_ms() - began >= 30);
		CHECK(rank, sml_wait_for(request, 0, &done) == 0 && done == 0);
		/* Nobody has touched the buffer, and the context is as good as before. */
		CHECK(rank, all_are(mine, 2));
		pass(gate);
	}
	CHECK(rank, sml_wait_for(request, LONG_MS, &done) == 0 && done == 1);
	CHECK(rank, all_are(mine, 3));
	CHECK(rank, sml_barrier(rank->context) == 0);
}

static void a_limited_wait_ends_and_the_call_goes_on(void **state)
{
	struct gate gate = GATE;

	(void)state;
	run_job(&(struct job){.n_ranks = 2, .body = wait_with_limits, .argument = &gate});
}

static void wait_longer_than_the_context(struct rank *rank)
{
	struct sml_request *request;
	static int32_t data[1000];
	int done = 7;

	if (rank->rank == 0) {
		wait_until_told(rank);
		return;
	}
	CHECK(rank, begin(rank, data, &request) == 0);
	CHECK(rank, sml_wait_for(request, LONG_MS, &done) == SML_ERROR_TIMEOUT && done == 1);
}

#define MANY 40

static void wait_for_any(struct rank *rank)
{
	struct gate *gate = rank->job->argument;
	static int32_t data[2][MANY][1000];
	struct sml_request *requests[MANY + 1] = {NULL}; /* the last one stays NULL */
	bool seen[MANY] = {false};
	size_t index = 0;

	CHECK(rank, sml_wait_any(requests, MANY + 1, -1, &index) == 0 && index == MANY + 1);
	CHECK(rank, sml_wait_any(NULL, 0, -1, &index) == 0 && index == 0);
	if (rank->rank == 0)
		await(gate, 1);
	for (unsigned i = 0; i < MANY; i++) {
		fill(data[rank->rank][i], (int32_t)i);
		CHECK(rank, begin(rank, data[rank->rank][i], &requests[i]) == 0);
	}
	if (rank->rank == 1) {
		CHECK(rank, sml_wait_any(requests, MANY + 1, 20, &index) == 0);
		CHECK(rank, index == MANY + 1);
		pass(gate);
	}
	for (unsigned i = 0; i < MANY; i++) {
		CHECK(rank, sml_wait_any(requests, MANY + 1, LONG_MS, &index) == 0);
		CHECK(rank, index < MANY && !seen[index] && requests[index] == NULL);
		CHECK(rank, all_are(data[rank->rank][index], 2 * (int32_t)index));
		seen[index] = true;
	}
	CHECK(rank, sml_wait_any(requests, MANY + 1, -1, &index) == 0 && index == MANY + 1);
}

static void wait_any_returns_each_request_once(void **state)
{
	struct gate gate = GATE;

	(void)state;
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
		CHECK(rank, sml_wait_any(requests, 3, LONG_MS, &index) == SML_ERROR_ABORTED);
		CHECK(rank, index < 3 && requests[index] == NULL);
	}
}

static void wait_any_returns_each_request_of_a_failed_job(void **state)
{
	struct gate gate = GATE;

	(void)state;
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
		CHECK(rank, sml_wait(stranger) == 0);
		return;
	}
	await(gate, 1);
	CHECK(rank, begin(rank, data[1], &requests[0]) == 0);
	requests[1] = stranger;
	CHECK(rank, sml_wait_any(requests, 2, LONG_MS, &index) == -EINVAL && index == 2);
	CHECK(rank, requests[0] != NULL && requests[1] == stranger);
	CHECK(rank, sml_wait(requests[0]) == 0);
	pass(gate);
}

static void wait_any_refuses_requests_of_two_contexts(void **state)
{
	struct gate gate = GATE;

	(void)state;
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
	int done, error;

	for (unsigned i = 0; i < AT_ONCE; i++) {
		if (loop->requests[i]) {
			error = sml_test(loop->requests[i], &done);
			if (error)
				return error;
			if (!done)
				continue;
			loop->requests[i] = NULL;
			loop->ended++;
		}
		if (loop->begun == CALLS)
			continue;
		loop->data[i] = 1;
		error = sml_allreduce_async(rank->context, &loop->data[i], &loop->data[i], 1,
					    SML_INT32, SML_SUM, NULL, &loop->requests[i]);
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
static void run_loop(struct rank *rank, bool use_epoll)
{
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

static void loop_with_poll(struct rank *rank)
{
	run_loop(rank, false);
}

static void loop_with_epoll(struct rank *rank)
{
	run_loop(rank, true);
}

static void an_event_loop_hears_of_every_end(void **state)
{
	(void)state;
	run_job(&(struct job){.n_ranks = 2, .threads = 2, .body = loop_with_poll});
	run_job(&(struct job){.n_ranks = 2, .body = loop_with_epoll});
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
	CHECK(rank, sml_barrier(rank->context) == 0);
	CHECK(rank, poll(&ready, 1, LONG_MS) == 1);
}

static void the_descriptor_is_silent_without_calls(void **state)
{
	(void)state;
	run_job(&(struct job){.n_ranks = 1, .body = watch_idly});
}

/* The other rank never makes the call; nothing but the descriptor wakes this one. */
static void loop_until_the_deadline(struct rank *rank)
{
	struct sml_request *request;
	static int32_t data[1000];
	struct pollfd ready = {.events = POLLIN};
	uint64_t rings;
	int done = 0, error = 0;

	if (rank->rank == 0) {
		wait_until_told(rank);
		return;
	}
	ready.fd = sml_event_fd(rank->context);
	CHECK(rank, begin(rank, data, &request) == 0);
	while (!done) {
		CHECK(rank, poll(&ready, 1, LONG_MS) == 1);
		CHECK(rank, read(ready.fd, &rings, sizeof(rings)) == (ssize_t)sizeof(rings));
		error = sml_test(request, &done);
	}
	CHECK(rank, error == SML_ERROR_TIMEOUT);
}

/* Longer than a pause of the machine while the job opens. */
#define SHORT_MS 4000

static void the_contexts_timeout_limits_every_wait(void **state)
{
	(void)state;
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
	struct pollfd ready = {.events = POLLIN};
	uint64_t rings;
	int done = 0, error = 0;

	if (rank->rank == 0) {
		end_when_told(rank);
		return;
	}
	ready.fd = sml_event_fd(rank->context);
	CHECK(rank, begin(rank, data, &request) == 0);
	pass(rank->job->argument);
	while (!done) {
		CHECK(rank, poll(&ready, 1, LONG_MS) == 1);
		CHECK(rank, read(ready.fd, &rings, sizeof(rings)) == (ssize_t)sizeof(rings));
		error = sml_test(request, &done);
	}
	CHECK(rank, error == SML_ERROR_ABORTED);
}

static void an_event_loop_notices_a_failure(void **state)
{
	struct gate gate = GATE;

	(void)state;
	run_job(&(struct job){.n_ranks = 2, .body = loop_until_the_failure, .argument = &gate});
}

/* ---- the log ---- */

struct lines {
	pthread_mutex_t lock;
	unsigned n, n_levels[4];
	bool bad;
};

static void keep_line(void *self, int level, const char *text)
{
	struct lines *lines = self;

	pthread_mutex_lock(&lines->lock);
	lines->n++;
	if (level < 0 || level > 3 || strchr(text, '\n') || strncmp(text, "switchml", 8) == 0)
		lines->bad = true;
	else
		lines->n_levels[level]++;
	pthread_mutex_unlock(&lines->lock);
}

/* Returns sml_open()'s result. */
static int open_and_close(struct sml_config *config)
{
	struct sml_context *context;
	int error = sml_open(&context, config);

	return error ? error : sml_close(context);
}

static void log_lines_go_where_the_program_says(void **state)
{
	const struct job job = {.n_ranks = 1};
	struct lines lines = {.lock = PTHREAD_MUTEX_INITIALIZER};
	struct sml_config config;
	int to_stderr[2], saved = dup(STDERR_FILENO);
	char byte;

	(void)state;
	configure(&config, &job, 0);
	config.debug = 2;
	config.log = keep_line;
	config.log_self = &lines;
	assert_int_equal(pipe(to_stderr), 0);
	dup2(to_stderr[1], STDERR_FILENO);
	assert_int_equal(open_and_close(&config), 0);
	dup2(saved, STDERR_FILENO);
	close(to_stderr[1]);
	/* What was chosen, at the level "info"; nothing of the rank's on standard error. */
	assert_true(lines.n > 0 && !lines.bad && lines.n_levels[2] > 0);
	while (read(to_stderr[0], &byte, 1) == 1)
		assert_int_not_equal(byte, '[');
	close(to_stderr[0]);
	close(saved);
}

/* ---- an interrupted sml_open() ---- */

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
	(void)number;
	__atomic_store_n(&interrupted, 1, __ATOMIC_RELEASE);
}

static void *open_rank_1(void *self)
{
	const struct job *job = self;
	struct sml_config config;

	configure(&config, job, 1);
	return (void *)(intptr_t)open_and_close(&config);
}

/* A port where connections are accepted, and nobody says anything. Returns its socket. */
static int open_silent_port(int *port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
	*port = ntohs(address.sin_port);
	return fd;
}

/* Rank 1 is not there: sml_open() waits, in its join. */
static void open_alone(const struct job *job, const char *address)
{
	struct sml_config config;

	configure(&config, job, 0);
	if (address)
		config.switch_address = address;
	config.interrupt = &interrupted;
	interrupted = 0;
	ualarm(50000, 0);
	assert_int_equal(open_and_close(&config), -EINTR);
	assert_non_null(strstr(sml_error_text(NULL), "interrupted"));
}

static void a_signal_interrupts_open(void **state)
{
	struct job job = {.n_ranks = 2, .port = free_port()};
	struct sml_config config;
	char address[64];
	pthread_t thread;
	void *result;
	int port, silent = open_silent_port(&port);

	(void)state;
	signal(SIGALRM, interrupt);
	open_alone(&job, NULL);
	/* Nobody listens there, but rank 1 may hope that rank 0 comes. */
	configure(&config, &job, 1);
	config.interrupt = &interrupted;
	interrupted = 0;
	ualarm(50000, 0);
	assert_int_equal(open_and_close(&config), -EINTR);
	/* Two stripes, so two threads that open. */
	snprintf(address, sizeof(address), "127.0.0.1:%d,127.0.0.1:%d", port, port);
	open_alone(&job, address);
	close(silent);
	/* The rank can join again, with the same name. A flag that is set later means nothing. */
	interrupted = 0;
	assert_int_equal(pthread_create(&thread, NULL, open_rank_1, &job), 0);
	configure(&config, &job, 0);
	config.interrupt = &interrupted;
	assert_int_equal(open_and_close(&config), 0);
	pthread_join(thread, &result);
	assert_int_equal((int)(intptr_t)result, 0);
	/* One that is set before ends it at once. */
	__atomic_store_n(&interrupted, 1, __ATOMIC_RELEASE);
	configure(&config, &job, 0);
	config.interrupt = &interrupted;
	assert_int_equal(open_and_close(&config), -EINTR);
}

/* ---- in place ---- */

static void gather_and_scatter_in_place(struct rank *rank)
{
	int32_t n = rank->n, me = rank->rank, part[1000];
	int32_t *data = calloc((size_t)n * 1000 + 1, sizeof(*data));

	/* All-gather: this rank's part is where it belongs. */
	fill(data + 1000 * me, 10 + me);
	data[1000 * n] = 42;
	CHECK(rank, sml_allgather(rank->context, data + 1000 * me, data, 1000, SML_INT32) == 0);
	for (int32_t r = 0; r < n; r++)
		CHECK(rank, all_are(data + 1000 * r, 10 + r));
	/* Reduce-scatter: the other parts keep this rank's own values. */
	for (int32_t r = 0; r < n; r++)
		fill(data + 1000 * r, 100 * me + r);
	CHECK(rank, sml_reduce_scatter(rank->context, data, data + 1000 * me, 1000, SML_INT32,
				       SML_SUM, NULL) == 0);
	for (int32_t r = 0; r < n; r++)
		CHECK(rank, all_are(data + 1000 * r,
				    r == me ? 100 * (n * (n - 1) / 2) + n * me : 100 * me + r));
	CHECK(rank, data[1000 * n] == 42);
	/* Every other overlap is refused, and harms nothing. */
	CHECK(rank,
	      sml_allgather(rank->context, data + 1000 * me + 1, data, 1000, SML_INT32) == -EINVAL);
	CHECK(rank, sml_allgather(rank->context, data + 1000 * ((me + 1) % n), data, 1000,
				  SML_INT32) == -EINVAL);
	CHECK(rank, sml_reduce_scatter(rank->context, data, data + 1000 * me + 1, 999, SML_INT32,
				       SML_SUM, NULL) == -EINVAL);
	CHECK(rank, sml_reduce_scatter(rank->context, data, data + 1000 * ((me + 1) % n), 1000,
				       SML_INT32, SML_SUM, NULL) == -EINVAL);
	fill(part, me);
	CHECK(rank, sml_allgather(rank->context, part, data, 1000, SML_INT32) == 0);
	free(data);
}

static void gathers_and_scatters_in_place_follow_the_rules(void **state)
{
	(void)state;
	run_job(&(struct job){.n_ranks = 3, .body = gather_and_scatter_in_place});
	run_job(&(struct job){
		.n_ranks = 3, .switch_address = "embedded", .body = gather_and_scatter_in_place});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_library_says_its_version),
		cmocka_unit_test(options_of_other_versions_are_understood_or_refused),
		cmocka_unit_test(a_limited_wait_ends_and_the_call_goes_on),
		cmocka_unit_test(wait_any_returns_each_request_once),
		cmocka_unit_test(wait_any_returns_each_request_of_a_failed_job),
		cmocka_unit_test(wait_any_refuses_requests_of_two_contexts),
		cmocka_unit_test(an_event_loop_hears_of_every_end),
		cmocka_unit_test(the_descriptor_is_silent_without_calls),
		cmocka_unit_test(the_contexts_timeout_limits_every_wait),
		cmocka_unit_test(an_event_loop_notices_a_failure),
		cmocka_unit_test(log_lines_go_where_the_program_says),
		cmocka_unit_test(a_signal_interrupts_open),
		cmocka_unit_test(gathers_and_scatters_in_place_follow_the_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
