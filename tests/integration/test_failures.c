/* SPDX-License-Identifier: BSD-3-Clause */
/* Failures, and what each rank is told: the right error, soon, with a clear text. */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/ranks.h"

/* For deadlines that pass on purpose: longer than a busy machine stalls while ranks open. */
#define DEADLINE_MS 4000
/* All ranks are told within this time. Any other way of telling them would take a minute. */
#define SOON_MS 30000
/* The heartbeat of a rank that freezes. It may stall this long before it is meant to freeze. */
#define FROZEN_HEARTBEAT_MS 4000
#define LIVING_HEARTBEAT_MS 60000

/* Assert that this is the last error, and that its text has this part. */
#define CHECK_ERROR(rank, result, error, part)                                                     \
	do {                                                                                       \
		int got = (result);                                                                \
		if (got != (error) || !strstr(sml_error_text((rank)->context), part)) {            \
			complain(rank, "%s:%d: %d, not %d; \"%s\" should say \"%s\"", __FILE__,    \
				 __LINE__, got, (int)(error), sml_error_text((rank)->context),     \
				 part);                                                            \
			return;                                                                    \
		}                                                                                  \
	} while (0)

/* Assert that the text of the last failed sml_open() has this part. */
static void expect_open_text(const char *part)
{
	if (!strstr(sml_error_text(NULL), part))
		fail_msg("\"%s\" should say \"%s\"", sml_error_text(NULL), part);
}

/* ---- ranks that disagree ---- */

struct version {
	enum { ALLREDUCE, BROADCAST, ALLGATHER, BARRIER } collective;
	size_t count;
	enum sml_type type;
	enum sml_op op;
	enum sml_wire wire;
	int root;
};

static int make_call(struct sml_context *context, const struct version *version, void *buffer)
{
	const struct sml_options options = {sizeof(options), version->wire, 0};

	switch (version->collective) {
	case ALLREDUCE:
		return sml_allreduce(context, buffer, buffer, version->count, version->type,
				     version->op, &options);
	case BROADCAST:
		return sml_broadcast(context, buffer, version->count, version->type, version->root);
	case ALLGATHER:
		return sml_allgather(context, (char *)buffer + 1000000, buffer, version->count,
				     version->type);
	case BARRIER:
		break;
	}
	return sml_barrier(context);
}

/* The call of most ranks, the call of the last one, and the error text of each. */
static const struct disagreement {
	struct version all, last;
	const char *text_all, *text_last;
} disagreements[] = {
	{{.count = 1000}, {.count = 1001}, "1000 float32, sum", "1001 float32, sum"},
	{{.count = 10}, {.count = 11}, "10 float32, sum", "11 float32, sum"},
	{{.count = 100000}, {.count = 50000}, "100000 float32", "50000 float32"},
	{{.count = 1000}, {.count = 1000, .type = SML_INT32}, "1000 float32", "1000 int32"},
	{{.count = 1000}, {.count = 1000, .op = SML_MAX}, "sum, int32 wire", "max"},
	{{.count = 1000}, {.count = 1000, .wire = SML_WIRE_INT16}, "int32 wire", "int16 wire"},
	{{.count = 1000}, {.count = 1000, .wire = SML_WIRE_EXACT}, "int32 wire", "exact wire"},
	{{.count = 10}, {.count = 10, .wire = SML_WIRE_EXACT}, "int32 wire", "exact wire"},
	{{.count = 1000}, {.collective = BARRIER}, "all-reduce 1: 1000", "barrier 1"},
	{{.collective = BROADCAST, .count = 1000, .root = 0},
	 {.collective = BROADCAST, .count = 1000, .root = 1},
	 "from rank 0",
	 "from rank 1"},
	{{.collective = BROADCAST, .count = 2000},
	 {.collective = ALLGATHER, .count = 1000},
	 "broadcast 1: 2000",
	 "all-gather 1: 1000 float32 a rank"},
};

static void disagree(struct rank *rank)
{
	const struct disagreement *what = rank->job->argument;
	bool last = rank->rank == rank->n - 1;
	void *buffer = calloc(1, 2000000);
	int error;

	error = sml_barrier(rank->context);
	if (error == 0)
		error = make_call(rank->context, last ? &what->last : &what->all, buffer);
	free(buffer);
	CHECK_ERROR(rank, error, SML_ERROR_MISMATCH, what->text_all);
	CHECK_ERROR(rank, error, SML_ERROR_MISMATCH, what->text_last);
	CHECK_ERROR(rank, error, SML_ERROR_MISMATCH, "rank 1");
	/* All later calls fail in the same way. */
	CHECK_ERROR(rank, sml_barrier(rank->context), SML_ERROR_MISMATCH, what->text_all);
}

static void ranks_that_disagree_are_told_both_versions(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(disagreements) / sizeof(disagreements[0]); i++)
		run_job(&(struct job){.n_ranks = 2,
				      .switch_address = i & 1 ? "embedded" : NULL,
				      .body = disagree,
				      .argument = (void *)(uintptr_t)&disagreements[i]});
}

/* ---- death ---- */

static void reduce_until_it_fails(struct rank *rank)
{
	const size_t count = 100000;
	const char *who = rank->job->argument;
	float *data = calloc(count, sizeof(*data));
	uint64_t began = now_ms(), last;
	int error;

	do {
		last = now_ms();
		error = sml_allreduce(rank->context, data, data, count, SML_FLOAT32, SML_SUM, NULL);
	} while (error == 0 && now_ms() - began < 60000);
	if (error == 0 || now_ms() - last > SOON_MS)
		complain(rank, "told after %d ms", (int)(now_ms() - last));
	/* From now on, the buffer stays the same. */
	memset(data, 7, count * sizeof(*data));
	usleep(2000);
	for (size_t i = 0; i < count * sizeof(*data); i++)
		if (((char *)data)[i] != 7)
			complain(rank, "a buffer was written after the error");
	free(data);
	CHECK_ERROR(rank, error, SML_ERROR_RANK_DIED, who);
}

/*
 * Rank `dying` is a child process, created before this process has threads. Each rank has
 * its own heartbeat, so no other rank can be taken for dead. A rank that is not frozen is
 * known dead only by its connection's end.
 */
static void let_die(int dying, const char *switch_address, void (*body)(struct rank *),
		    int heartbeat_ms, const char *who)
{
	struct job job = {.n_ranks = 3,
			  .switch_address = switch_address,
			  .port = free_port(),
			  .elsewhere = 1 << dying,
			  .heartbeat_ms = LIVING_HEARTBEAT_MS,
			  .body = reduce_until_it_fails,
			  .argument = (void *)(uintptr_t)who};
	struct job childs = job;
	pid_t child;

	childs.body = body;
	childs.heartbeat_ms = heartbeat_ms;
	child = fork();
	if (child == 0) {
		/* The child must not outlive a failed test. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(run_rank(&childs, dying));
	}
	run_job(&job);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void half_a_reduction_and_die(struct rank *rank)
{
	struct sml_request *request;
	static float data[100000];

	for (int i = 0; i < 20; i++)
		CHECK(rank, sml_allreduce(rank->context, data, data, 100000, SML_FLOAT32, SML_SUM,
					  NULL) == 0);
	sml_allreduce_async(rank->context, data, data, 100000, SML_FLOAT32, SML_SUM, NULL,
			    &request);
	_exit(0);
}

static void the_death_of_a_rank_is_told_with_its_name(void **state)
{
	(void)state;
	let_die(2, NULL, half_a_reduction_and_die, LIVING_HEARTBEAT_MS, "rank 2");
}

static void the_death_of_rank_0_and_its_switch_is_told(void **state)
{
	(void)state;
	let_die(0, NULL, half_a_reduction_and_die, LIVING_HEARTBEAT_MS, "rank 0");
}

static void freeze(struct rank *rank)
{
	(void)rank;
	usleep(100000);
	kill(getpid(), SIGSTOP);
}

static void a_frozen_rank_is_dead_after_the_heartbeat(void **state)
{
	(void)state;
	let_die(1, NULL, freeze, FROZEN_HEARTBEAT_MS, "rank 1");
}

static void a_dead_rank_takes_its_stripe_along(void **state)
{
	(void)state;
	let_die(2, "embedded", half_a_reduction_and_die, LIVING_HEARTBEAT_MS,
		"and stripe 2 of the job with it");
	let_die(1, "embedded", freeze, FROZEN_HEARTBEAT_MS, "and stripe 1 of the job with it");
}

/* ---- deadlines ---- */

static void wait_in_vain(struct rank *rank)
{
	float data[5000] = {0};
	uint64_t began = now_ms();
	int error;

	if (rank->rank == 1) {
		wait_until_told(rank);
		CHECK_ERROR(rank, sml_barrier(rank->context), SML_ERROR_TIMEOUT, "rank 0");
		return;
	}
	error = sml_allreduce(rank->context, data, data, 5000, SML_FLOAT32, SML_SUM, NULL);
	CHECK_ERROR(rank, error, SML_ERROR_TIMEOUT, "all-reduce 0: 5000 float32");
	CHECK_ERROR(rank, error, SML_ERROR_TIMEOUT, "head stream (call 0)");
	CHECK(rank, now_ms() - began >= DEADLINE_MS && now_ms() - began < DEADLINE_MS + SOON_MS);
	began = now_ms();
	CHECK_ERROR(rank, sml_barrier(rank->context), SML_ERROR_TIMEOUT, "all-reduce 0");
	/* Without waiting for another deadline. */
	CHECK(rank, now_ms() - began < DEADLINE_MS);
}

static void a_call_that_others_do_not_make_ends_at_the_deadline(void **state)
{
	(void)state;
	run_job(&(struct job){.n_ranks = 2, .timeout_ms = DEADLINE_MS, .body = wait_in_vain});
}

static void missing_ranks_are_named(void **state)
{
	struct job job = {.n_ranks = 4, .timeout_ms = DEADLINE_MS, .port = free_port()};
	struct sml_context *context;
	struct sml_config config;
	uint64_t began = now_ms();

	(void)state;
	configure(&config, &job, 0);
	assert_int_equal(sml_open(&context, &config), SML_ERROR_TIMEOUT);
	assert_null(context);
	expect_open_text("ranks 1, 2 and 3 of 4");
	assert_true(now_ms() - began < DEADLINE_MS + SOON_MS);
}

/* Rank 0 waits no more. */
static atomic_bool rank_0_is_done;

/* Again and again: the switch may refuse the first try before rank 0 has joined and can be told. */
static void *open_with_three(void *argument)
{
	struct job *job = argument;
	struct sml_context *context;
	struct sml_config config;
	void *told = NULL;

	configure(&config, job, 1);
	config.world_size = 3;
	config.timeout_ms = DEADLINE_MS;
	do {
		int error = sml_open(&context, &config);

		if (error == SML_ERROR_MISMATCH && strstr(sml_error_text(NULL), "3"))
			told = (void *)(intptr_t)error;
	} while (!atomic_load(&rank_0_is_done));
	return told;
}

static void different_world_sizes_are_told_to_both(void **state)
{
	struct job job = {.n_ranks = 2, .port = free_port()};
	struct sml_context *context;
	struct sml_config config;
	pthread_t thread;
	void *other;
	int error;

	(void)state;
	atomic_store(&rank_0_is_done, false);
	pthread_create(&thread, NULL, open_with_three, &job);
	configure(&config, &job, 0);
	config.timeout_ms = DEADLINE_MS;
	/* It keeps waiting for a matching rank 1, because any peer could have sent this. */
	error = sml_open(&context, &config);
	atomic_store(&rank_0_is_done, true);
	pthread_join(thread, &other);
	assert_int_equal(error, SML_ERROR_TIMEOUT);
	expect_open_text("rank 1 says 3, rank 0 says 2");
	assert_int_equal((intptr_t)other, SML_ERROR_MISMATCH);
}

/* ---- tests without waiting ---- */

static void look_in_vain(struct rank *rank)
{
	struct sml_request *request;
	int32_t data = 1;
	int done, result;

	if (rank->rank == 1) {
		wait_until_told(rank);
		return;
	}
	CHECK(rank, sml_allreduce_async(rank->context, &data, &data, 1, SML_INT32, SML_SUM, NULL,
					&request) == 0);
	do
		result = sml_test(request, &done);
	while (!done);
	CHECK_ERROR(rank, result, SML_ERROR_TIMEOUT, "all-reduce 0: 1 int32");
}

static void a_deadline_passes_for_those_who_only_look(void **state)
{
	(void)state;
	run_job(&(struct job){.n_ranks = 2, .timeout_ms = DEADLINE_MS, .body = look_in_vain});
}

/* ---- abort ---- */

static void abort_from_elsewhere(struct rank *rank)
{
	int32_t data[10] = {0};

	CHECK(rank, sml_barrier(rank->context) == 0);
	if (rank->rank == 1) {
		usleep(50000);
		CHECK(rank, sml_abort(rank->context, "the loss is NaN") == 0);
		CHECK_ERROR(rank, sml_barrier(rank->context), SML_ERROR_ABORTED, "the loss is NaN");
		return;
	}
	CHECK_ERROR(rank, sml_allreduce(rank->context, data, data, 10, SML_INT32, SML_SUM, NULL),
		    SML_ERROR_ABORTED, "the loss is NaN");
	CHECK_ERROR(rank, sml_barrier(rank->context), SML_ERROR_ABORTED, "rank 1");
}

static void an_abort_ends_everybodys_calls_with_its_reason(void **state)
{
	(void)state;
	run_job(&(struct job){.n_ranks = 3, .body = abort_from_elsewhere});
}

/* ---- a missing switch ---- */

/* heartbeat_ms: 0, or the heartbeat that causes the failure. */
static void expect_open_to_fail(const char *address, int heartbeat_ms, int error, const char *part)
{
	/* Rank 0's switch is looked for until the deadline. */
	struct job job = {.n_ranks = 2,
			  .timeout_ms = address ? 0 : DEADLINE_MS,
			  .heartbeat_ms = heartbeat_ms,
			  .switch_address = address};
	struct sml_context *context;
	struct sml_config config;

	configure(&config, &job, 1);
	config.master_port = free_port();
	assert_int_equal(sml_open(&context, &config), error);
	expect_open_text(part);
}

/* A listener that is no switch: it sends `words` to every peer, or nothing. */
struct stranger {
	int fd;
	const char *words;
};

static void *stranger_main(void *argument)
{
	struct stranger *stranger = argument;
	int fd = accept(stranger->fd, NULL, NULL);
	char ignored[64];

	if (stranger->words)
		send(fd, stranger->words, strlen(stranger->words), MSG_NOSIGNAL);
	while (recv(fd, ignored, sizeof(ignored), 0) > 0)
		;
	close(fd);
	return NULL;
}

static void meet_stranger(const char *words, int error, const char *part)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct stranger stranger = {socket(AF_INET, SOCK_STREAM, 0), words};
	socklen_t length = sizeof(address);
	char text[64];
	pthread_t thread;

	assert_int_equal(bind(stranger.fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(stranger.fd, 5), 0);
	getsockname(stranger.fd, (struct sockaddr *)&address, &length);
	snprintf(text, sizeof(text), "127.0.0.1:%u", ntohs(address.sin_port));
	pthread_create(&thread, NULL, stranger_main, &stranger);
	expect_open_to_fail(text, words ? 0 : 200, error, part);
	pthread_join(thread, NULL);
	close(stranger.fd);
}

static void an_unreachable_switch_is_told_with_what_to_do(void **state)
{
	char nobody[64];

	(void)state;
	snprintf(nobody, sizeof(nobody), "127.0.0.1:%d", free_port());
	expect_open_to_fail(nobody, 0, SML_ERROR_UNREACHABLE, "start `switchml switch`");
	expect_open_to_fail(NULL, 0, SML_ERROR_UNREACHABLE, "has rank 0 been started");
	expect_open_to_fail("no.such.host.invalid", 0, SML_ERROR_UNREACHABLE, "cannot be resolved");
	expect_open_to_fail("a:b:c", 0, SML_ERROR_UNREACHABLE, "cannot be resolved");
	expect_open_to_fail("127.0.0.1,", 0, SML_ERROR_CONFIG, "not a switch's address");
	expect_open_to_fail("127.0.0.1|", 0, SML_ERROR_CONFIG, "not a switch's address");
	expect_open_to_fail("a,b|c", 0, SML_ERROR_CONFIG, "\"c\" names 1");
	expect_open_to_fail("host:99999", 0, SML_ERROR_CONFIG, "not a switch's address");
	meet_stranger("SSH-2.0-OpenSSH_9.2p1\r\n", SML_ERROR_PROTOCOL, "SwitchML protocol");
	meet_stranger(NULL, SML_ERROR_UNREACHABLE, "silent for 200 ms");
}

/* ---- arguments ---- */

static void make_mistakes(struct rank *rank)
{
	struct sml_context *c = rank->context;
	float data[64] = {0};

	CHECK_ERROR(rank, sml_allreduce(c, NULL, data, 1, SML_FLOAT32, SML_SUM, NULL), -EINVAL,
		    "send is NULL");
	CHECK_ERROR(rank, sml_allreduce(c, data, NULL, 1, SML_FLOAT32, SML_SUM, NULL), -EINVAL,
		    "recv is NULL");
	CHECK_ERROR(rank, sml_allreduce(c, data, data + 1, 9, SML_FLOAT32, SML_SUM, NULL), -EINVAL,
		    "overlap");
	CHECK_ERROR(rank, sml_allreduce(c, data, data, 1, (enum sml_type)11, SML_SUM, NULL),
		    -EINVAL, "type 11");
	CHECK_ERROR(rank, sml_allreduce(c, data, data, 1, SML_BYTE, SML_SUM, NULL), -EINVAL,
		    "SML_BYTE");
	CHECK_ERROR(rank, sml_allreduce(c, data, data, 1, SML_INT32, (enum sml_op)4, NULL), -EINVAL,
		    "operation 4");
	CHECK_ERROR(rank,
		    sml_allreduce(
			    c, data, data, 1, SML_FLOAT32, SML_SUM,
			    &(struct sml_options){sizeof(struct sml_options), (enum sml_wire)7, 0}),
		    -EINVAL, "wire 7");
	CHECK_ERROR(rank, sml_allreduce(c, (char *)data + 1, data, 1, SML_FLOAT32, SML_SUM, NULL),
		    -EINVAL, "not aligned");
	CHECK_ERROR(rank, sml_allreduce(c, data, data, SIZE_MAX / 2, SML_INT32, SML_SUM, NULL),
		    -EINVAL, "too many");
	CHECK_ERROR(rank, sml_allreduce(c, data, data, SIZE_MAX / 16, SML_INT32, SML_SUM, NULL),
		    -EINVAL, "too many");
	CHECK_ERROR(rank, sml_broadcast(c, data, 1, SML_FLOAT32, 2), -EINVAL, "root 2");
	CHECK_ERROR(rank, sml_reduce_scatter(c, data, data + 1, 9, SML_FLOAT32, SML_SUM, NULL),
		    -EINVAL, "overlap");
	/* None of these errors has harmed the job. */
	CHECK(rank, sml_allreduce(c, data, data, 64, SML_FLOAT32, SML_SUM, NULL) == 0);
}

static void a_wrong_argument_is_named_and_harms_nothing(void **state)
{
	(void)state;
	run_job(&(struct job){.n_ranks = 2, .body = make_mistakes});
}

/* ---- fork ---- */

static void fork_and_use(struct rank *rank)
{
	struct sml_request *request = NULL;
	float data[4] = {0};
	int status = -1;
	pid_t child;

	CHECK(rank, sml_allreduce_async(rank->context, data, data, 4, SML_FLOAT32, SML_SUM, NULL,
					&request) == 0);
	child = fork();
	if (child == 0) {
		int wrong = sml_barrier(rank->context) != SML_ERROR_FORKED;

		wrong |= sml_wait(request) != SML_ERROR_FORKED;
		wrong |= strstr(sml_error_text(rank->context), "fork") == NULL;
		wrong |= sml_close(rank->context) != SML_ERROR_FORKED;
		_exit(wrong);
	}
	waitpid(child, &status, 0);
	CHECK(rank, status == 0);
	CHECK(rank, sml_wait(request) == 0);
}

static void a_forked_child_may_not_use_the_context(void **state)
{
	(void)state;
	run_job(&(struct job){.n_ranks = 2, .body = fork_and_use});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_that_disagree_are_told_both_versions),
		cmocka_unit_test(the_death_of_a_rank_is_told_with_its_name),
		cmocka_unit_test(a_dead_rank_takes_its_stripe_along),
		cmocka_unit_test(the_death_of_rank_0_and_its_switch_is_told),
		cmocka_unit_test(a_frozen_rank_is_dead_after_the_heartbeat),
		cmocka_unit_test(a_call_that_others_do_not_make_ends_at_the_deadline),
		cmocka_unit_test(missing_ranks_are_named),
		cmocka_unit_test(different_world_sizes_are_told_to_both),
		cmocka_unit_test(a_deadline_passes_for_those_who_only_look),
		cmocka_unit_test(an_abort_ends_everybodys_calls_with_its_reason),
		cmocka_unit_test(an_unreachable_switch_is_told_with_what_to_do),
		cmocka_unit_test(a_wrong_argument_is_named_and_harms_nothing),
		cmocka_unit_test(a_forked_child_may_not_use_the_context),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
