/* SPDX-License-Identifier: BSD-3-Clause */
/* What a switch says about a job that does not progress: who has not contributed to which slot. */
#include <inttypes.h>

#include "support/switch_client.h"
#include "support/test.h"
#include "switchml.h"

#define ABORT	      SML_CONTROL__ENVELOPE__BODY_ABORT
#define STALL_REQUEST SML_CONTROL__ENVELOPE__BODY_STALL_REQUEST
#define STALL_REPORT  SML_CONTROL__ENVELOPE__BODY_STALL_REPORT

static uint16_t port;

static void set_up(void)
{
	struct sml_switch_config config;

	sml_switch_config_init(&config);
	config.listen = "127.0.0.1:0";
	config.threads = 2;
	port = client_open_switch(&config);
}

/* Ranks with slots for `shards` sockets, started. */
static void start(struct client *c, uint32_t n, uint32_t shards)
{
	SmlControl__Join join = client_join_message("stall", 0, n);

	join.shards = shards;
	clients_join_as(c, n, "127.0.0.1", port, &join);
	clients_begin(c, n);
}

/* Of a set of the report: bits of ranks, all below 8. */
static uint64_t ranks_of(const SmlControl__StallReport *report, uint32_t set)
{
	assert_true(set <= report->n_sets);
	if (set == 0)
		return 0;
	assert_int_equal(report->sets[set - 1].len, 1);
	return report->sets[set - 1].data[0];
}

/* Assert that the report has this slot at this use, lacking these ranks. */
static void expect_slot(const SmlControl__StallReport *report, uint32_t slot, uint32_t use,
			uint64_t missing)
{
	for (size_t i = 0; i < report->n_slots; i++) {
		if (report->slots[i]->slot != slot)
			continue;
		assert_int_equal(report->slots[i]->use, use);
		assert_int_equal(ranks_of(report, report->slots[i]->set), missing);
		return;
	}
	fail_msg("slot %" PRIu32 " is not in the report", slot);
}

TEST_WITH(every_slot_names_the_ranks_that_it_lacks, set_up, client_close_switch)
{
	int64_t began_ms = client_now_ms();
	SmlControl__Envelope *message;
	struct client c[3];

	start(c, 3, 2);
	/*
	 * Slot 4: one use is complete, the next has begun. Slot 5: only rank 1 contributed. Slot
	 * 7: complete.
	 */
	for (uint32_t rank = 0; rank < 3; rank++) {
		client_contribute(&c[rank], 4, 0, 8, 1);
		client_contribute(&c[rank], 7, 0, 8, 1);
	}
	for (uint32_t rank = 0; rank < 3; rank++) {
		struct packet packet;

		assert_true(client_receive(&c[rank], &packet, CLIENT_WAIT_MS) > 0);
		assert_true(client_receive(&c[rank], &packet, CLIENT_WAIT_MS) > 0);
	}
	client_contribute(&c[0], 4, 1, 8, 1);
	client_contribute(&c[2], 4, 1, 8, 1);
	client_contribute(&c[1], 5, 0, 8, 1);
	client_wait_for_counter(port, "absorbed", 7);

	client_send_empty(&c[2], STALL_REQUEST);
	message = client_expect(&c[2], STALL_REPORT);
	assert_int_equal(message->stall_report->n_slots, 3);
	expect_slot(message->stall_report, 4, 1, 1 << 1);
	expect_slot(message->stall_report, 5, 0, 1 << 0 | 1 << 2);
	expect_slot(message->stall_report, 7, 0, 0);
	assert_int_equal(message->stall_report->n_ranks, 3);
	for (uint32_t rank = 0; rank < 3; rank++) {
		const SmlControl__RankState *about = message->stall_report->ranks[rank];

		assert_int_equal(about->rank, rank);
		assert_string_equal(about->host, "testhost");
		assert_int_equal(about->pid, 1000 + rank);
		assert_true(about->connected);
		assert_in_range(about->last_heard_ms, 0, client_now_ms() - began_ms);
	}
	client_free(message);
	clients_close(c, 3);
}

TEST_WITH(the_news_of_a_death_comes_with_what_was_missing, set_up, client_close_switch)
{
	SmlControl__Envelope *message;
	struct client c[3];

	start(c, 3, 1);
	client_contribute(&c[0], 9, 0, 8, 1);
	client_contribute(&c[1], 9, 0, 8, 1);
	client_wait_for_counter(port, "absorbed", 2);
	client_close(&c[2]);
	for (uint32_t rank = 0; rank < 2; rank++) {
		message = client_expect(&c[rank], ABORT);
		assert_int_equal(message->abort->error, SML_ERROR_RANK_DIED);
		assert_non_null(message->abort->stalls);
		expect_slot(message->abort->stalls, 9, 0, 1 << 2);
		/* The one that has gone comes first. */
		assert_int_equal(message->abort->stalls->ranks[0]->rank, 2);
		assert_false(message->abort->stalls->ranks[0]->connected);
		assert_int_equal(message->abort->stalls->ranks[2]->rank, 1);
		assert_true(message->abort->stalls->ranks[2]->connected);
		client_free(message);
	}
	clients_close(c, 2);
}

TEST_WITH(who_asks_too_often_is_answered_now_and_then, set_up, client_close_switch)
{
	SmlControl__Envelope *message;
	struct client c[2];
	int64_t began_ms;
	int answers = 0;

	start(c, 2, 1);
	client_send_empty(&c[0], STALL_REQUEST);
	client_free(client_expect(&c[0], STALL_REPORT));
	began_ms = client_now_ms();
	for (int i = 0; i < 50; i++)
		client_send_empty(&c[0], STALL_REQUEST);
	/* The job's end comes after all answers. */
	client_send_empty(&c[0], SML_CONTROL__ENVELOPE__BODY_LEAVE);
	client_send_empty(&c[1], SML_CONTROL__ENVELOPE__BODY_LEAVE);
	for (;;) {
		message = client_next(&c[0]);
		assert_non_null(message);
		if (message->body_case == SML_CONTROL__ENVELOPE__BODY_LEFT)
			break;
		answers += message->body_case == STALL_REPORT;
		client_free(message);
	}
	client_free(message);
	/* One per 0.1 s. */
	assert_in_range(answers, 0, 1 + (client_now_ms() - began_ms) / 100);
	clients_close(c, 2);
}

TEST_WITH(strangers_and_jobs_that_have_not_begun_get_no_report, set_up, client_close_switch)
{
	SmlControl__Join join = client_join_message("half", 0, 2);
	struct client stranger, waiting;

	client_open(&stranger, "127.0.0.1", port);
	client_send_empty(&stranger, STALL_REQUEST);
	client_open(&waiting, "127.0.0.1", port);
	client_join(&waiting, &join);
	client_send_empty(&waiting, STALL_REQUEST);
	client_expect_end(&stranger);
	client_expect_silence(&waiting);
	client_close(&stranger);
	client_close(&waiting);
}
