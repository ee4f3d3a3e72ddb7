/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A real switch in this process, and workers that are only sockets: who may join, and as
 * which rank.
 */
#include <string.h>

#include "support/switch_client.h"
#include "support/test.h"
#include "switchml.h"

static uint16_t port;

static void start_switch(uint32_t max_slots, uint32_t max_jobs)
{
	struct sml_switch_config config;

	sml_switch_config_init(&config);
	config.listen = ":0";
	config.max_slots = max_slots;
	config.max_jobs = max_jobs;
	port = client_open_switch(&config);
}

static int set_up(void **state)
{
	(void)state;
	start_switch(4096, 64);
	return 0;
}

TEST_WITH(waiting_names_the_missing, set_up, client_close_switch)
{
	struct client c;
	SmlControl__Join join = client_join_message("waiting", 1, 3);
	SmlControl__Envelope *message;

	client_open(&c, "127.0.0.1", port);
	client_join(&c, &join);
	message = client_expect(&c, SML_CONTROL__ENVELOPE__BODY_WAITING);
	assert_int_equal(message->waiting->n_missing, 2);
	assert_int_equal(message->waiting->missing[0], 0);
	assert_int_equal(message->waiting->missing[1], 2);
	client_free(message);
	client_close(&c);
}

TEST_WITH(lanes_are_the_least_that_all_have, set_up, client_close_switch)
{
	struct client c[2];

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

/* Two conflicting Joins: the job ends for both ranks. */
static void expect_disagreement(const SmlControl__Join *first, const SmlControl__Join *second,
				int error, const char *word, const char *one, const char *other)
{
	struct client c[2];

	client_open(&c[0], "127.0.0.1", port);
	client_join(&c[0], first);
	client_free(client_expect(&c[0], SML_CONTROL__ENVELOPE__BODY_WAITING));
	client_open(&c[1], "127.0.0.1", port);
	client_join(&c[1], second);
	client_expect_abort(&c[1], error, "rank 0", "rank 1", word, one, other, NULL);
	client_expect_end(&c[1]);
	client_expect_abort(&c[0], error, "rank 0", "rank 1", word, one, other, NULL);
	client_expect_end(&c[0]);
	clients_close(c, 2);
}

TEST_WITH(a_disagreement_ends_the_job_for_both, set_up, client_close_switch)
{
	SmlControl__Join a = client_join_message("differ", 0, 3), b;

	b = client_join_message("differ", 1, 4);
	expect_disagreement(&a, &b, SML_ERROR_MISMATCH, "world_size", "says 4", "says 3");
	b = client_join_message("differ", 1, 3);
	b.shards = 2;
	b.shards_set = true;
	expect_disagreement(&a, &b, SML_ERROR_MISMATCH, "SWITCHML_THREADS", "says 2", "says 1");
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

TEST_WITH(own_mistake_is_refused_to_the_newcomer_alone, set_up, client_close_switch)
{
	static const struct {
		uint32_t rank, world_size, shards;
		const char *job, *word;
	} rows[] = {
		{2, 2, 1, "mistake", "not below world_size 2"},
		{0, 4097, 1, "mistake", "world_size 4097"},
		{0, 0, 1, "mistake", "world_size 0"},
		{0, 2, 0, "mistake", "shards"},
		{0, 2, 17, "mistake", "shards"},
		{0, 2, 1, "", "name"},
		{0, 2, 1, "two\nlines", "name"},
	};
	struct client first, c;
	SmlControl__Join join = client_join_message("mistake", 0, 2);

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
	client_expect_silence(&first);
	client_close(&first);
}

TEST_WITH(taken_rank_is_refused_to_the_newcomer_alone, set_up, client_close_switch)
{
	struct client c[2], newcomer;
	SmlControl__Join join = client_join_message("taken", 1, 2);

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

TEST_WITH(full_pool_says_who_has_it, set_up, client_close_switch)
{
	struct client c[2], late;
	SmlControl__Join join = client_join_message("late", 0, 2);

	client_close_switch(NULL);
	start_switch(24, 64);
	clients_start(c, 2, "127.0.0.1", port, "early");
	client_open(&late, "127.0.0.1", port);
	client_join(&late, &join);
	client_expect_abort(&late, SML_ERROR_REFUSED, "full", "\"early\" 20", "--slots", NULL);
	client_close(&late);
	/* The slots are free again after the job's end. */
	client_close(&c[0]);
	client_expect_abort(&c[1], SML_ERROR_RANK_DIED, "rank 0", NULL);
	client_close(&c[1]);
	clients_start(c, 2, "127.0.0.1", port, "late");
	clients_close(c, 2);
}

TEST_WITH(slots_shrink_to_what_the_pool_has, set_up, client_close_switch)
{
	struct client c;
	SmlControl__Join join = client_join_message("shrink", 0, 1);

	client_close_switch(NULL);
	start_switch(24, 64);
	join.head_slots = 100;
	join.data_slots = UINT32_MAX;
	client_open(&c, "127.0.0.1", port);
	client_join(&c, &join);
	client_admitted(&c);
	assert_int_equal(c.head_slots + c.data_slots, 24);
	client_close(&c);
}

TEST_WITH(no_job_has_more_slots_than_a_packet_can_name, set_up, client_close_switch)
{
	struct client c;
	SmlControl__Join join = client_join_message("huge", 0, 1);
	SmlControl__Envelope *message;

	client_close_switch(NULL);
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

TEST_WITH(too_many_jobs_are_refused, set_up, client_close_switch)
{
	struct client c[2], late;
	SmlControl__Join join = client_join_message("second", 0, 2);

	client_close_switch(NULL);
	start_switch(4096, 1);
	clients_start(c, 2, "127.0.0.1", port, "first");
	client_open(&late, "127.0.0.1", port);
	client_join(&late, &join);
	client_expect_abort(&late, SML_ERROR_REFUSED, "--jobs", NULL);
	client_close(&late);
	clients_close(c, 2);
}

TEST_WITH(ready_without_probe_fails_the_job, set_up, client_close_switch)
{
	struct client c[2];

	clients_join(c, 2, "127.0.0.1", port, "no probe");
	for (uint32_t rank = 0; rank < 2; rank++)
		client_admitted(&c[rank]);
	client_ready(&c[1]);
	for (uint32_t rank = 0; rank < 2; rank++)
		client_expect_abort(&c[rank], SML_ERROR_PROTOCOL, "rank 1", "probe", NULL);
	clients_close(c, 2);
}
