/* SPDX-License-Identifier: BSD-3-Clause */
/* A real switch in this process, and workers that are only sockets: what they say to each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "integration/switch_client.h"
#include "switchml.h"

#define ABORT SML_CONTROL__ENVELOPE__BODY_ABORT
#define LEAVE SML_CONTROL__ENVELOPE__BODY_LEAVE
#define LEFT  SML_CONTROL__ENVELOPE__BODY_LEFT

static struct sml_switch *running;
static uint16_t port;

static void start_switch(uint32_t max_slots, uint32_t max_jobs)
{
	struct sml_switch_config config;

	sml_switch_config_init(&config);
	config.listen = ":0";
	config.max_slots = max_slots;
	config.max_jobs = max_jobs;
	running = client_open_switch(&config, &port);
}

static int set_up(void **state)
{
	(void)state;
	start_switch(4096, 64);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	sml_switch_close(running);
	running = NULL;
	return 0;
}

/* ---- joining ---- */

static void waiting_names_the_missing(void **state)
{
	struct client c;
	SmlControl__Join join = client_join_message("waiting", 1, 3);
	SmlControl__Envelope *message;

	(void)state;
	client_open(&c, "127.0.0.1", port);
	client_join(&c, &join);
	message = client_expect(&c, SML_CONTROL__ENVELOPE__BODY_WAITING);
	assert_int_equal(message->waiting->n_missing, 2);
	assert_int_equal(message->waiting->missing[0], 0);
	assert_int_equal(message->waiting->missing[1], 2);
	client_free(message);
	client_close(&c);
}

static void lanes_are_the_least_that_all_have(void **state)
{
	struct client c[2];

	(void)state;
	for (uint32_t rank = 0; rank < 2; rank++) {
		SmlControl__Join join = client_join_message("lanes", rank, 2);

		join.lanes = rank ? 500 : 2208;
		client_open(&c[rank], "127.0.0.1", port);
		client_join(&c[rank], &join);
	}
	for (uint32_t rank = 0; rank < 2; rank++) {
		client_admitted(&c[rank]);
		assert_int_equal(c[rank].lanes, 480);
		assert_true(c[rank].window_packets >= 16);
		client_probe(&c[rank], 0, 8);
		c[rank].lanes = rank ? 480 : 260;
		client_ready(&c[rank]);
	}
	for (uint32_t rank = 0; rank < 2; rank++) {
		client_started(&c[rank]);
		assert_int_equal(c[rank].lanes, 256);
	}
	clients_close(c, 2);
}

/* Two Joins of a job that cannot both be right fail it for both, in words. */
static void expect_disagreement(const SmlControl__Join *first, const SmlControl__Join *second,
				int error, const char *word, const char *one, const char *other)
{
	struct client c[2];

	client_open(&c[0], "127.0.0.1", port);
	client_join(&c[0], first);
	client_free(client_expect(&c[0], SML_CONTROL__ENVELOPE__BODY_WAITING));
	client_open(&c[1], "127.0.0.1", port);
	client_join(&c[1], second);
	for (unsigned i = 0; i < 2; i++) {
		client_expect_abort(&c[i], error, "rank 0", "rank 1", word, one, other, NULL);
		client_expect_end(&c[i]);
	}
	clients_close(c, 2);
}

static void disagreement_fails_the_job_for_all(void **state)
{
	SmlControl__Join a = client_join_message("differ", 0, 3), b;

	(void)state;
	b = client_join_message("differ", 1, 4);
	expect_disagreement(&a, &b, SML_ERROR_MISMATCH, "world_size", "says 4", "says 3");
	b = client_join_message("differ", 1, 3);
	b.shards = 2;
	expect_disagreement(&a, &b, SML_ERROR_MISMATCH, "threads", "says 2", "says 1");
	b = client_join_message("differ", 1, 3);
	b.data_slots = 99;
	expect_disagreement(&a, &b, SML_ERROR_MISMATCH, "data slots", "says 99", "says 16");
	b = client_join_message("differ", 1, 3);
	b.stripes = 2;
	expect_disagreement(&a, &b, SML_ERROR_MISMATCH, "stripes", "says 2", "says 1");
	b = client_join_message("differ", 1, 3);
	b.no_tickets = true;
	expect_disagreement(&a, &b, SML_ERROR_MISMATCH, "tickets", "says 1", "says 0");
	b = client_join_message("differ", 1, 3);
	b.library_version = (char *)(uintptr_t) "9.9.9";
	expect_disagreement(&a, &b, SML_ERROR_MISMATCH, "librar", "9.9.9", "0.1.0");
	b = client_join_message("differ", 1, 3);
	b.protocol = 77;
	expect_disagreement(&a, &b, SML_ERROR_VERSION, "protocol", "77", "1");
}

static void own_mistake_is_refused_to_the_newcomer_alone(void **state)
{
	static const struct {
		uint32_t rank, world_size, shards;
		const char *job, *word;
	} rows[] = {
		{2, 2, 1, "mistake", "not below world_size 2"},
		{0, 65, 1, "mistake", "world_size 65"},
		{0, 0, 1, "mistake", "world_size 0"},
		{0, 2, 0, "mistake", "shards"},
		{0, 2, 17, "mistake", "shards"},
		{0, 2, 1, "", "name"},
		{0, 2, 1, "two\nlines", "name"},
	};
	struct client first, c;
	SmlControl__Join join = client_join_message("mistake", 0, 2);

	(void)state;
	client_open(&first, "127.0.0.1", port);
	client_join(&first, &join);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		join = client_join_message(rows[i].job, rows[i].rank, rows[i].world_size);
		join.shards = rows[i].shards;
		client_open(&c, "127.0.0.1", port);
		client_join(&c, &join);
		client_expect_abort(&c, SML_ERROR_REFUSED, rows[i].word, NULL);
		client_expect_end(&c);
		client_close(&c);
	}
	client_expect_silence(&first, 30);
	client_close(&first);
}

static void taken_rank_is_refused_to_the_newcomer_alone(void **state)
{
	struct client c[2], newcomer;
	SmlControl__Join join = client_join_message("taken", 1, 2);

	(void)state;
	clients_start(c, 2, "127.0.0.1", port, "taken");
	client_open(&newcomer, "127.0.0.1", port);
	client_join(&newcomer, &join);
	client_expect_abort(&newcomer, SML_ERROR_REFUSED, "rank 1 of job \"taken\" is taken",
			    "testhost", "pid 1001", NULL);
	client_close(&newcomer);
	client_contribute(&c[0], 4, 0, 8, 1);
	client_contribute(&c[1], 4, 0, 8, 1);
	client_expect_result(&c[0], 4, 0, 8, 2);
	clients_close(c, 2);
}

static void full_pool_says_who_has_it(void **state)
{
	struct client c[2], late;
	SmlControl__Join join = client_join_message("late", 0, 2);

	(void)state;
	tear_down(NULL);
	start_switch(24, 64);
	clients_start(c, 2, "127.0.0.1", port, "early");
	client_open(&late, "127.0.0.1", port);
	client_join(&late, &join);
	client_expect_abort(&late, SML_ERROR_REFUSED, "full", "\"early\" 20", "--slots", NULL);
	client_close(&late);
	/* The slots come back with the job's end. */
	client_close(&c[0]);
	client_expect_abort(&c[1], SML_ERROR_RANK_DIED, "rank 0", NULL);
	client_close(&c[1]);
	clients_start(c, 2, "127.0.0.1", port, "late");
	clients_close(c, 2);
}

static void slots_shrink_to_what_the_pool_has(void **state)
{
	struct client c;
	SmlControl__Join join = client_join_message("shrink", 0, 1);

	(void)state;
	tear_down(NULL);
	start_switch(24, 64);
	join.head_slots = 100;
	join.data_slots = UINT32_MAX;
	client_open(&c, "127.0.0.1", port);
	client_join(&c, &join);
	client_admitted(&c);
	assert_int_equal(c.head_slots + c.data_slots, 24);
	client_close(&c);
}

static void no_job_has_more_slots_than_a_packet_can_name(void **state)
{
	struct client c;
	SmlControl__Join join = client_join_message("huge", 0, 1);
	SmlControl__Envelope *message;

	(void)state;
	tear_down(NULL);
	start_switch(1u << 20, 64);
	join.head_slots = 70000;
	join.data_slots = 70000;
	join.lanes = 32;
	client_open(&c, "127.0.0.1", port);
	client_join(&c, &join);
	client_admitted(&c);
	assert_true(c.head_slots + c.data_slots <= SML_MAX_SLOTS);
	message = client_status("127.0.0.1", port);
	assert_int_equal(message->status->slots_in_use, c.head_slots + c.data_slots);
	client_free(message);
	client_close(&c);
}

static void too_many_jobs_are_refused(void **state)
{
	struct client c[2], late;
	SmlControl__Join join = client_join_message("second", 0, 2);

	(void)state;
	tear_down(NULL);
	start_switch(4096, 1);
	clients_start(c, 2, "127.0.0.1", port, "first");
	client_open(&late, "127.0.0.1", port);
	client_join(&late, &join);
	client_expect_abort(&late, SML_ERROR_REFUSED, "--jobs", NULL);
	client_close(&late);
	clients_close(c, 2);
}

static void ready_without_probe_fails_the_job(void **state)
{
	struct client c[2];

	(void)state;
	for (uint32_t rank = 0; rank < 2; rank++) {
		SmlControl__Join join = client_join_message("no probe", rank, 2);

		client_open(&c[rank], "127.0.0.1", port);
		client_join(&c[rank], &join);
	}
	for (uint32_t rank = 0; rank < 2; rank++)
		client_admitted(&c[rank]);
	client_ready(&c[1]);
	for (uint32_t rank = 0; rank < 2; rank++)
		client_expect_abort(&c[rank], SML_ERROR_PROTOCOL, "rank 1", "probe", NULL);
	clients_close(c, 2);
}

/* ---- leaving and dying ---- */

static void leaving_is_a_barrier(void **state)
{
	struct client c[3];

	(void)state;
	clients_start(c, 3, "127.0.0.1", port, "leave");
	client_send_empty(&c[0], LEAVE);
	client_send_empty(&c[1], LEAVE);
	client_expect_silence(&c[0], 30);
	/* One that has asked may go: it is not dead, and the others' barrier goes on. */
	client_close(&c[1]);
	client_expect_silence(&c[2], 30);
	client_contribute(&c[2], 4, 0, 8, 1);
	client_send_empty(&c[2], LEAVE);
	client_free(client_expect(&c[0], LEFT));
	client_free(client_expect(&c[2], LEFT));
	clients_close(c, 3);
	clients_start(c, 3, "127.0.0.1", port, "leave");
	clients_close(c, 3);
}

/* Regression: its place stayed taken, and whoever came next crashed the switch. */
static void leaving_before_the_start_gives_the_place_back(void **state)
{
	struct client c[2];
	SmlControl__Join join = client_join_message("early", 0, 2);
	SmlControl__Envelope *message;

	(void)state;
	client_open(&c[0], "127.0.0.1", port);
	client_join(&c[0], &join);
	client_send_empty(&c[0], LEAVE);
	client_free(client_expect(&c[0], LEFT));
	client_close(&c[0]);
	message = client_status("127.0.0.1", port);
	assert_int_equal(message->status->n_jobs, 0);
	assert_int_equal(message->status->slots_in_use, 0);
	client_free(message);
	clients_start(c, 2, "127.0.0.1", port, "early");
	clients_close(c, 2);
}

static void leaving_between_admission_and_start_is_told_to_all(void **state)
{
	struct client c[2];

	(void)state;
	for (uint32_t rank = 0; rank < 2; rank++) {
		SmlControl__Join join = client_join_message("half", rank, 2);

		client_open(&c[rank], "127.0.0.1", port);
		client_join(&c[rank], &join);
	}
	for (uint32_t rank = 0; rank < 2; rank++)
		client_admitted(&c[rank]);
	client_send_empty(&c[0], LEAVE);
	client_expect_abort(&c[1], SML_ERROR_ABORTED, "rank 0", "left", NULL);
	clients_close(c, 2);
}

static void death_by_a_closed_connection_names_the_rank(void **state)
{
	struct client c[3];

	(void)state;
	clients_start(c, 3, "127.0.0.1", port, "death");
	client_close(&c[2]);
	for (unsigned i = 0; i < 2; i++) {
		client_expect_abort(&c[i], SML_ERROR_RANK_DIED,
				    "rank 2 (host testhost, pid 1002) died", "its connection ended",
				    NULL);
		client_expect_end(&c[i]);
	}
	clients_close(c, 3);
	clients_start(c, 3, "127.0.0.1", port, "death");
	clients_close(c, 3);
}

static void death_by_silence_names_the_rank(void **state)
{
	struct client c[2];

	(void)state;
	for (uint32_t rank = 0; rank < 2; rank++) {
		SmlControl__Join join = client_join_message("silence", rank, 2);

		join.heartbeat_ms = rank ? 500 : 60000;
		client_open(&c[rank], "127.0.0.1", port);
		client_join(&c[rank], &join);
	}
	for (uint32_t rank = 0; rank < 2; rank++)
		client_admitted(&c[rank]);
	client_expect_abort(&c[0], SML_ERROR_RANK_DIED, "rank 1 (host testhost, pid 1001) died",
			    "nothing was heard", NULL);
	clients_close(c, 2);
}

/* What a peer has sent and we have not read must not destroy what we have told it. */
static void abort_arrives_even_while_the_peer_is_talking(void **state)
{
	struct client c[2];

	(void)state;
	clients_start(c, 2, "127.0.0.1", port, "talk");
	client_close(&c[0]);
	for (unsigned i = 0; i < 30; i++) {
		client_send_empty(&c[1], SML_CONTROL__ENVELOPE__BODY_PING);
		usleep(10000);
	}
	client_expect_abort(&c[1], SML_ERROR_RANK_DIED, "rank 0", NULL);
	client_expect_end(&c[1]);
	client_close(&c[1]);
}

static void abort_is_passed_on_with_its_reason(void **state)
{
	struct client c[2];
	SmlControl__Envelope message = SML_CONTROL__ENVELOPE__INIT;
	SmlControl__Abort reason = SML_CONTROL__ABORT__INIT;

	(void)state;
	clients_start(c, 2, "127.0.0.1", port, "abort");
	reason.error = SML_ERROR_ABORTED;
	reason.text = (char *)(uintptr_t) "loss is NaN\x1b[31m";
	message.body_case = ABORT;
	message.abort = &reason;
	client_send(&c[1], &message);
	client_expect_abort(&c[0], SML_ERROR_ABORTED, "rank 1", "loss is NaN?[31m", NULL);
	clients_close(c, 2);
}

static void stopping_the_switch_is_told_to_all(void **state)
{
	struct client c[2];

	(void)state;
	clients_start(c, 2, "127.0.0.1", port, "stop");
	tear_down(NULL);
	for (unsigned i = 0; i < 2; i++) {
		client_expect_abort(&c[i], SML_ERROR_SWITCH_DIED, "stopped", NULL);
		client_expect_end(&c[i]);
	}
	clients_close(c, 2);
}

/* ---- mismatch ---- */

static void disagree_about_a_call(struct client *c)
{
	struct packet packet;
	uint32_t length = client_packet(&c[1], 0, 0, 0, 0, &packet);

	client_contribute(&c[0], 0, 0, 0, 0);
	client_contribute(&c[2], 0, 0, 0, 0);
	/* Before rank 1 says otherwise, both others have to be in. */
	client_contribute(&c[2], 0, 0, 0, 0);
	while (client_counter(port, "duplicate") == 0)
		usleep(1000);
	packet.header.digest_be ^= 1;
	client_send_packet(&c[1], &packet, length);
	client_send_packet(&c[1], &packet, length);
}

static void describe(struct client *client, const char *text)
{
	SmlControl__Envelope *question =
		client_expect(client, SML_CONTROL__ENVELOPE__BODY_DESCRIBE);
	SmlControl__Envelope message = SML_CONTROL__ENVELOPE__INIT;
	SmlControl__Description description = SML_CONTROL__DESCRIPTION__INIT;

	assert_int_equal(question->describe->slot, 0);
	assert_int_equal(question->describe->use, 0);
	description.slot = question->describe->slot;
	description.use = question->describe->use;
	description.text = (char *)(uintptr_t)text;
	message.body_case = SML_CONTROL__ENVELOPE__BODY_DESCRIPTION;
	message.description = &description;
	client_send(client, &message);
	client_free(question);
}

static void mismatch_is_told_with_both_versions(void **state)
{
	struct client c[3];

	(void)state;
	clients_start(c, 3, "127.0.0.1", port, "mismatch");
	disagree_about_a_call(c);
	describe(&c[0], "all-reduce 17 of 100 float32");
	describe(&c[1], "all-reduce 17 of 200 float32");
	for (unsigned i = 0; i < 3; i++)
		client_expect_abort(&c[i], SML_ERROR_MISMATCH,
				    "rank 0 called all-reduce 17 of 100 float32",
				    "rank 1 called all-reduce 17 of 200 float32", NULL);
	clients_close(c, 3);
}

static void mismatch_does_not_wait_for_ever_for_an_answer(void **state)
{
	struct client c[3];

	(void)state;
	clients_start(c, 3, "127.0.0.1", port, "no answer");
	disagree_about_a_call(c);
	describe(&c[0], "barrier 3");
	client_free(client_expect(&c[1], SML_CONTROL__ENVELOPE__BODY_DESCRIBE));
	for (unsigned i = 0; i < 3; i++)
		client_expect_abort(&c[i], SML_ERROR_MISMATCH, "rank 0 called barrier 3",
				    "rank 1 called (no answer)", NULL);
	clients_close(c, 3);
}

/* ---- status ---- */

static void status_shows_jobs_workers_and_counters(void **state)
{
	struct client c[2];
	SmlControl__Envelope *message;
	const SmlControl__JobStatus *job;

	(void)state;
	clients_start(c, 2, "127.0.0.1", port, "status");
	client_contribute(&c[0], 4, 0, 8, 1);
	client_contribute(&c[1], 4, 0, 8, 1);
	client_expect_result(&c[1], 4, 0, 8, 2);
	client_contribute(&c[1], 4, 0, 8, 1);
	client_expect_result(&c[1], 4, 0, 8, 2);
	message = client_status("::1", port);
	assert_string_equal(message->status->dataplane, "udp");
	assert_int_equal(message->status->slots_in_use, 20);
	assert_int_equal(message->status->n_jobs, 1);
	job = message->status->jobs[0];
	assert_string_equal(job->job, "status");
	assert_string_equal(job->state, "running");
	assert_int_equal(job->world_size, 2);
	assert_int_equal(job->n_workers, 2);
	assert_string_equal(job->workers[1]->host, "testhost");
	assert_int_equal(job->workers[0]->contributions, 1);
	assert_int_equal(job->workers[1]->contributions, 1);
	assert_int_equal(job->workers[1]->resends, 1);
	client_free(message);
	clients_close(c, 2);
}

/* ---- hostile control connections ---- */

static void garbage_ends_only_its_own_connection(void **state)
{
	static const unsigned char too_long[] = {0x7f, 0xff, 0xff, 0xff, 1};
	static const unsigned char long_one[] = {0x00, 0x0f, 0xff, 0xff, 1};
	static const unsigned char no_message[] = {0, 0, 0, 3, 0xff, 0xff, 0xff};
	static const unsigned char empty[] = {0, 0, 0, 0};
	static const struct {
		const void *bytes;
		size_t n;
	} rows[] = {{too_long, sizeof(too_long)},
		    {long_one, sizeof(long_one)},
		    {no_message, sizeof(no_message)},
		    {empty, sizeof(empty)}};
	struct client c[2], odd;

	(void)state;
	clients_start(c, 2, "127.0.0.1", port, "garbage");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		client_open(&odd, "127.0.0.1", port);
		client_send_bytes(&odd, rows[i].bytes, rows[i].n);
		client_expect_end(&odd);
		client_close(&odd);
	}
	client_contribute(&c[0], 4, 0, 8, 1);
	client_contribute(&c[1], 4, 0, 8, 1);
	client_expect_result(&c[0], 4, 0, 8, 2);
	clients_close(c, 2);
}

/* Answers that nobody reads must not fill the memory: 120,000 would be over 60 MB. */
static void questions_without_reading_are_not_answered_for_ever(void **state)
{
	unsigned char questions[600 * 6], answers[65536];
	struct client flood, other[2];
	size_t total = 0;
	ssize_t got;

	(void)state;
	for (size_t i = 0; i < sizeof(questions); i += 6)
		memcpy(questions + i, "\0\0\0\2\x6a\0", 6);
	client_open(&flood, "127.0.0.1", port);
	for (unsigned i = 0; i < 200; i++)
		client_send_bytes(&flood, questions, sizeof(questions));
	/* Others are served meanwhile. */
	clients_start(other, 2, "127.0.0.1", port, "flooded");
	clients_close(other, 2);
	shutdown(flood.tcp, SHUT_WR);
	while ((got = recv(flood.tcp, answers, sizeof(answers), 0)) > 0)
		total += (size_t)got;
	assert_true(total > 0 && total < 30000000);
	client_close(&flood);
}

static void many_connections_do_no_harm(void **state)
{
	struct client many[200], c[2];

	(void)state;
	for (unsigned i = 0; i < 200; i++)
		client_open(&many[i], "127.0.0.1", port);
	clients_start(c, 2, "127.0.0.1", port, "crowd");
	clients_close(c, 2);
	clients_close(many, 200);
}

static void second_join_on_a_connection_is_ignored(void **state)
{
	struct client c[2];
	SmlControl__Join join = client_join_message("other", 0, 2);

	(void)state;
	clients_start(c, 2, "127.0.0.1", port, "once");
	client_join(&c[0], &join);
	client_expect_silence(&c[0], 30);
	client_contribute(&c[0], 4, 0, 8, 1);
	client_contribute(&c[1], 4, 0, 8, 1);
	client_expect_result(&c[0], 4, 0, 8, 2);
	clients_close(c, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(waiting_names_the_missing),
		TEST(lanes_are_the_least_that_all_have),
		TEST(disagreement_fails_the_job_for_all),
		TEST(own_mistake_is_refused_to_the_newcomer_alone),
		TEST(taken_rank_is_refused_to_the_newcomer_alone),
		TEST(full_pool_says_who_has_it),
		TEST(slots_shrink_to_what_the_pool_has),
		TEST(no_job_has_more_slots_than_a_packet_can_name),
		TEST(too_many_jobs_are_refused),
		TEST(ready_without_probe_fails_the_job),
		TEST(leaving_is_a_barrier),
		TEST(leaving_before_the_start_gives_the_place_back),
		TEST(leaving_between_admission_and_start_is_told_to_all),
		TEST(death_by_a_closed_connection_names_the_rank),
		TEST(death_by_silence_names_the_rank),
		TEST(abort_arrives_even_while_the_peer_is_talking),
		TEST(abort_is_passed_on_with_its_reason),
		TEST(stopping_the_switch_is_told_to_all),
		TEST(mismatch_is_told_with_both_versions),
		TEST(mismatch_does_not_wait_for_ever_for_an_answer),
		TEST(status_shows_jobs_workers_and_counters),
		TEST(garbage_ends_only_its_own_connection),
		TEST(questions_without_reading_are_not_answered_for_ever),
		TEST(many_connections_do_no_harm),
		TEST(second_join_on_a_connection_is_ignored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
