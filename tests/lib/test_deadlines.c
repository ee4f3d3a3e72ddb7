/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks and switches that are missing: each call and each sml_open() ends at its deadline or
 * before, with a clear text.
 *
 * If only one process takes part, a deadline begins short and grows until the text is the expected
 * one: on a busy machine, a short one may pass before anything is known.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/host/meet.h"
#include "support/fake_switch.h"
#include "support/ranks.h"
#include "support/test.h"

/* For deadlines of whole jobs: longer than a busy machine stalls while ranks open. */
#define DEADLINE_MS 4000
/* For those that grow. */
#define FIRST_DEADLINE_MS 250
#define LAST_DEADLINE_MS  16000
/* All are told within this time. */
#define SOON_MS 30000

/* Assert that the text of the last failed sml_open() has this part. */
static void expect_open_text(const char *part)
{
	if (!strstr(sml_error_text(NULL), part))
		fail_msg("\"%s\" should say \"%s\"", sml_error_text(NULL), part);
}

/* ---- deadlines ---- */

static void wait_in_vain(struct rank *rank)
{
	float data[5000] = {0};
	uint64_t began = now_ms();
	int error;

	if (rank->rank == 1) {
		wait_until_told(rank);
		CHECK_ERROR(rank, sml_barrier(rank->context, NULL, NULL), SML_ERROR_TIMEOUT,
			    "rank 0");
		return;
	}
	error = sml_allreduce(rank->context, data, data, 5000, SML_FLOAT32, SML_SUM, NULL, NULL);
	CHECK_ERROR(rank, error, SML_ERROR_TIMEOUT, "all-reduce 0: 5000 float32");
	CHECK_ERROR(rank, error, SML_ERROR_TIMEOUT, "first for one of call 0, sent");
	CHECK(rank, now_ms() - began >= DEADLINE_MS && now_ms() - began < DEADLINE_MS + SOON_MS);
	began = now_ms();
	CHECK_ERROR(rank, sml_barrier(rank->context, NULL, NULL), SML_ERROR_TIMEOUT,
		    "all-reduce 0");
	/* Without waiting for another deadline. */
	CHECK(rank, now_ms() - began < DEADLINE_MS);
}

static void look_in_vain(struct rank *rank)
{
	struct sml_request *request;
	int32_t data = 1;
	int result;

	if (rank->rank == 1) {
		wait_until_told(rank);
		return;
	}
	CHECK(rank, sml_allreduce(rank->context, &data, &data, 1, SML_INT32, SML_SUM, NULL,
				  &request) == 0);
	do
		result = sml_wait(&request, 1, 0, NULL);
	while (request);
	CHECK_ERROR(rank, result, SML_ERROR_TIMEOUT, "all-reduce 0: 1 int32");
}

/* Whether a rank waits for a call or only looks at it. Both at once. */
TEST(a_call_that_others_do_not_make_ends_at_the_deadline)
{
	struct job jobs[] = {
		{.n_ranks = 2, .timeout_ms = DEADLINE_MS, .body = wait_in_vain},
		{.n_ranks = 2, .timeout_ms = DEADLINE_MS, .body = look_in_vain},
		{.n_ranks = 2, .host_group = true, .timeout_ms = DEADLINE_MS, .body = wait_in_vain},
		{.n_ranks = 2, .host_group = true, .timeout_ms = DEADLINE_MS, .body = look_in_vain},
	};
	struct job behind[] = {
		{.n_ranks = 2, .name = "a", .body = wait_in_vain},
		{.n_ranks = 2, .name = "b", .body = look_in_vain},
		{.n_ranks = 2, .name = "c", .body = wait_in_vain},
	};
	char addresses[2][64], both[130];

	serve_two(addresses, both);
	run_jobs(jobs, 4);
	for (unsigned i = 0; i < 3; i++) {
		behind[i].host_group = true;
		behind[i].switch_address = i < 2 ? addresses[1] : both;
		behind[i].timeout_ms = DEADLINE_MS;
	}
	run_jobs(behind, 3);
}

/* ---- missing ranks ---- */

/* Its error. */
static int fail_to_open(const struct job *job, int rank)
{
	struct sml_context *context;
	struct sml_config config;
	int error;

	configure(&config, job, rank);
	error = sml_open(&context, &config);
	assert_null(context);
	return error;
}

/* A rank fails to open, with growing deadlines. */
static void expect_open_timeout(const struct job *job, int rank, int error, const char *part)
{
	struct job now = *job;
	uint64_t began;

	for (now.timeout_ms = FIRST_DEADLINE_MS;; now.timeout_ms *= 4) {
		int rc;

		began = now_ms();
		rc = fail_to_open(&now, rank);
		if (rc == error && strstr(sml_error_text(NULL), part))
			break;
		if (now.timeout_ms >= LAST_DEADLINE_MS)
			fail_msg("%d, \"%s\" should be %d, \"%s\"", rc, sml_error_text(NULL), error,
				 part);
	}
	assert_true(now_ms() - began >= (uint64_t)now.timeout_ms);
	assert_true(now_ms() - began < (uint64_t)now.timeout_ms + SOON_MS);
}

TEST(missing_ranks_are_named)
{
	struct job job = {.n_ranks = 4, .port = free_port()};
	char address[64], text[160];

	expect_open_timeout(&job, 0, SML_ERROR_TIMEOUT, "ranks 1, 2 and 3 of 4");
	serve_udp(address);
	job.switch_address = address;
	snprintf(text, sizeof(text),
		 "ranks 1, 2 and 3 of 4 did not join job \"test\" (the switch at %s) within ",
		 address);
	expect_open_timeout(&job, 0, SML_ERROR_TIMEOUT, text);
}

/* Rank 0 waits no more. */
static atomic_bool rank_0_is_done;

/* Again and again: the switch may refuse the first try before rank 0 has joined and can be told. */
static void *open_with_three(void *argument)
{
	struct job job = *(struct job *)argument;
	void *told = NULL;

	job.n_ranks = 3;
	/* The last try finds no switch any more. */
	job.timeout_ms = FIRST_DEADLINE_MS;
	do {
		int error = fail_to_open(&job, 1);

		if (error == SML_ERROR_MISMATCH && strstr(sml_error_text(NULL), "3"))
			told = (void *)(intptr_t)error;
		usleep(10000);
	} while (!atomic_load(&rank_0_is_done));
	return told;
}

/* Waiting would not help: neither waits for its deadline. */
TEST(different_world_sizes_end_both)
{
	struct job job = {.n_ranks = 2, .timeout_ms = LAST_DEADLINE_MS, .port = free_port()};
	pthread_t thread;
	void *other;
	int error;

	atomic_store(&rank_0_is_done, false);
	pthread_create(&thread, NULL, open_with_three, &job);
	error = fail_to_open(&job, 0);
	atomic_store(&rank_0_is_done, true);
	pthread_join(thread, &other);
	assert_int_equal(error, SML_ERROR_MISMATCH);
	expect_open_text("rank 1 says 3, rank 0 says 2");
	assert_int_equal((intptr_t)other, SML_ERROR_MISMATCH);
}

/* ---- a missing switch ---- */

/* heartbeat_ms: 0, or the heartbeat that causes the failure. */
static void expect_open_to_fail(const char *address, int heartbeat_ms, int error, const char *part)
{
	const struct job job = {.n_ranks = 2,
				.heartbeat_ms = heartbeat_ms,
				.switch_address = address,
				.port = free_port()};

	assert_int_equal(fail_to_open(&job, 1), error);
	expect_open_text(part);
}

TEST(a_rank_0_that_listens_no_longer_is_not_awaited)
{
	const struct job job = {.n_ranks = 2, .port = free_port(), .timeout_ms = 2 * SOON_MS};
	const char *const forms[] = {NULL, "embedded"};
	const uint64_t began = now_ms();

	for (int i = 0; i < 4; i++) {
		struct sml_context *context;
		struct sml_config config;

		configure(&config, &job, 1);
		config.switch_address = forms[i % 2];
		config.shared_memory = i / 2;
		config.master_listens = 1;
		assert_int_equal(sml_open(&context, &config), SML_ERROR_UNREACHABLE);
		expect_open_text("rank 0 has listened there, so it has ended");
	}
	assert_true(now_ms() - began < SOON_MS);
}

/* A listener that is no switch: it sends its words to every peer, or nothing. */
static void serve_words(struct fake_switch *fake, int fd)
{
	const char *words = fake->self;
	char ignored[64];

	if (words)
		send(fd, words, strlen(words), MSG_NOSIGNAL);
	while (recv(fd, ignored, sizeof(ignored), 0) > 0)
		;
}

/* words is NULL if nothing is said. */
static void meet_stranger(char *words, int error, const char *part)
{
	struct fake_switch stranger = {.serve = serve_words, .self = words};

	fake_switch_open(&stranger);
	expect_open_to_fail(stranger.address, words ? 0 : 200, error, part);
	fake_switch_close(&stranger);
}

TEST(an_unreachable_switch_is_told_with_what_to_do)
{
	const struct job without = {.n_ranks = 2, .port = free_port()};
	char nobody[64];

	/* Rank 0's switch is looked for until the deadline. */
	expect_open_timeout(&without, 1, SML_ERROR_UNREACHABLE, "has rank 0 one");
	snprintf(nobody, sizeof(nobody), "127.0.0.1:%d", free_port());
	expect_open_to_fail(nobody, 0, SML_ERROR_UNREACHABLE, "start `switchml switch`");
	expect_open_to_fail("no.such.host.invalid", 0, SML_ERROR_UNREACHABLE, "cannot be resolved");
	expect_open_to_fail("a:b:c", 0, SML_ERROR_UNREACHABLE, "cannot be resolved");
	expect_open_to_fail("127.0.0.1,", 0, SML_ERROR_CONFIG, "not a switch's address");
	expect_open_to_fail("127.0.0.1|", 0, SML_ERROR_CONFIG, "not a switch's address");
	expect_open_to_fail("a,b|c", 0, SML_ERROR_CONFIG, "\"c\" names 1");
	expect_open_to_fail("host:99999", 0, SML_ERROR_CONFIG, "not a switch's address");
	meet_stranger("SSH-2.0-OpenSSH_9.2p1\r\n", SML_ERROR_PROTOCOL, "SwitchML protocol");
	meet_stranger(NULL, SML_ERROR_UNREACHABLE, "silent for 200 ms");
}

/* ---- a switch that lies ---- */

static void say(int fd, const SmlControl__Envelope *message)
{
	struct evbuffer *out = evbuffer_new();

	sml_frame_write(out, message);
	(void)evbuffer_write(out, fd);
	evbuffer_free(out);
}

/* Ranks 0 and 1 are of one host. Nobody listens where rank 0 is said to be found. */
static void say_admitted(int fd, const SmlControl__Join *join)
{
	uint8_t nowhere[SML_HOST_TOKEN_BYTES] = {0};
	SmlControl__HostGroup group = SML_CONTROL__HOST_GROUP__INIT;
	SmlControl__Admitted admitted = SML_CONTROL__ADMITTED__INIT;
	ProtobufCBinaryData tokens[] = {{sizeof(nowhere), nowhere}, join->host_token};
	uint32_t ranks[] = {0, 1};

	group.ranks = ranks;
	group.tokens = tokens;
	group.n_ranks = group.n_tokens = 2;
	admitted.host_group = &group;
	admitted.job_number = 256;
	admitted.lanes = 32;
	admitted.head_slots = admitted.data_slots = 8;
	admitted.shards = 1;
	admitted.data_port = 9;
	admitted.dataplane = (char *)(uintptr_t) "udp";
	say(fd, sml_envelope(ADMITTED, admitted, &admitted));
}

/* What it told of: the rank is ready, and shares no memory. */
struct liar {
	bool was_ready, shared;
};

static void lie(void *self, int fd, const SmlControl__Envelope *message)
{
	struct liar *liar = self;
	SmlControl__Start start = SML_CONTROL__START__INIT;

	if (message->body_case == SML_CONTROL__ENVELOPE__BODY_JOIN)
		say_admitted(fd, message->join);
	if (message->body_case != SML_CONTROL__ENVELOPE__BODY_READY)
		return;
	liar->was_ready = true;
	liar->shared = message->ready->shares_memory;
	start.lanes = 32;
	say(fd, sml_envelope(START, start, &start));
}

TEST(a_job_that_needs_memory_which_is_not_shared_does_not_start)
{
	struct liar liar = {.was_ready = false};
	struct fake_switch fake = {.serve = fake_switch_read, .hear = lie, .self = &liar};
	struct job job = {.n_ranks = 2, .host_group = true, .switch_address = fake.address};

	fake_switch_open(&fake);
	assert_int_equal(fail_to_open(&job, 1), SML_ERROR_PROTOCOL);
	expect_open_text("starts the job as if this rank shared memory with others: install the "
			 "same release on it and on all ranks, or set SWITCHML_SHARED_MEMORY=0");
	fake_switch_close(&fake);
	assert_true(liar.was_ready);
	assert_false(liar.shared);
}
