/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes that ask to be members of a job's next membership: who is heard, and who is refused. */
#include <string.h>

#include "job/join/join.h"
#include "support/applicants.h"
#include "support/test.h"
#include "support/tree.h"
#include "switchml.h"

JOBS_TEST(who_asks_brings_no_report_and_few_places)
{
	SmlControl__Join join = jobs_join_message("train", 0, 1);
	SmlControl__PastRank past = SML_CONTROL__PAST_RANK__INIT,
			     *past_ranks[] = {&past, &past, &past};
	SmlControl__Ask message = SML_CONTROL__ASK__INIT;

	join.ask = &message;
	jobs_join(2, join);
	jobs_assert_refused(2, "has a number");
	join.process = 1;
	jobs_resume(0, join, 7, 0, false);
	jobs_assert_refused(0, "no report");
	message.past_ranks = past_ranks;
	message.n_past_ranks = 3;
	jobs_join(1, join);
	jobs_assert_refused(1, "at most two places");
}

WORLD_TEST(who_may_not_ask_is_refused)
{
	char longest[SML_NAME_BYTES] = "";

	memset(longest, 'n', sizeof(longest) - 1);
	jobs_open(4096, 64, false);
	jobs_apply(0, (struct jobs_apply){.job = longest});
	jobs_assert_refused(0, "has at most 115 bytes");
	jobs_close();
	jobs_open(4096, 64, true);
	jobs_apply(0, (struct jobs_apply){.min_ranks = 1});
	assert_string_not_equal(jobs_refusal(0), "");
	assert_null(world.jobs.applicants);
}

WORLD_TEST(a_place_that_no_job_had_is_refused)
{
	uint64_t tag = jobs_open_running(2);

	jobs_apply(10, jobs_was(tag, 2, 2));
	jobs_apply(11, jobs_was(tag, 0, 3));
	jobs_apply(12, jobs_was(77, 0, SML_MAX_WORLD + 1));
	for (unsigned peer = 10; peer < 13; peer++)
		jobs_assert_refused(peer, "knows no such place");
}

/* Its message that it has left the job may be late, or lost. */
WORLD_TEST(a_job_ends_when_one_of_its_ranks_asks)
{
	uint64_t tag = jobs_open_running(2);

	jobs_apply(10, jobs_was(tag, 1, 2));
	jobs_assert_refused(0, "this is no failure: rank 1 goes on");
	assert_true(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_ABORT)->abort->planned);
	assert_int_equal(world.n_warnings, 0);
	assert_non_null(strstr(world.info, "job \"train\" has ended: this is no failure"));
	assert_int_equal(world.jobs.n_jobs, 0);
	jobs_apply(11, jobs_was(tag, 0, 2));
	jobs_assert_decided(10, 2, 1, 2);
	jobs_assert_decided(11, 2, 0, 2);
}

/* Neither they nor the job before are told of it: its ranks would end their job in vain. */
WORLD_TEST(a_new_process_that_does_not_fit_is_refused_at_once)
{
	SmlControl__Join other = jobs_join_message("train #9", 0, 2);
	struct jobs_apply ask = {.wire = SML_WIRE_INT16};

	(void)jobs_open_running(2);
	jobs_apply(20, ask);
	jobs_assert_refused(20, "disagree about the wire: rank 2 says int16, rank 0 says default");
	assert_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_PONG));
	assert_null(world.jobs.applicants);
	jobs_apply_as_new(21);
	assert_int_equal(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_PONG)->pong->waiting, 1);
	/* Another job has such a name. */
	other.wire = SML_WIRE_INT16;
	jobs_join(3, other);
	jobs_apply(22, ask);
	jobs_apply_as_new(23);
	for (unsigned peer = 21; peer < 24; peer++)
		assert_string_equal(jobs_refusal(peer), "");
}

WORLD_TEST(a_rank_that_asks_twice_is_there_once)
{
	uint64_t tag = jobs_open_running(2);

	jobs_apply(10, jobs_was(tag, 0, 2));
	jobs_apply(11, jobs_was(tag, 0, 2));
	jobs_assert_refused(10, "asked again, on another connection");
	/* On one connection, only the first counts. */
	jobs_apply(11, (struct jobs_apply){.min_ranks = 3});
	jobs_apply(12, jobs_was(tag, 1, 2));
	jobs_assert_decided(11, 2, 0, 2);
	jobs_assert_decided(12, 2, 1, 2);
}

/* As jobs_was(), asked at this time by the rank's clock. */
static struct jobs_apply asked_at(uint64_t time_ns, uint64_t tag, uint32_t rank, uint32_t n)
{
	struct jobs_apply ask = jobs_was(tag, rank, n);

	ask.time_ns = time_ns;
	return ask;
}

/* Two connections have no order: the switch may read the one that the rank gave up last. */
WORLD_TEST(what_a_rank_asked_first_does_not_count_though_it_is_read_last)
{
	uint64_t tag = jobs_open_running(3);

	jobs_apply(10, asked_at(6, tag, 0, 3));
	jobs_apply(20, asked_at(5, tag, 0, 3));
	assert_string_equal(jobs_refusal(10), "");
	jobs_assert_refused(20, "asked again, on another connection");
	/* Its end says nothing about the rank. */
	jobs_hang_up(20);
	jobs_apply(11, jobs_was(tag, 1, 3));
	jobs_apply(12, jobs_was(tag, 2, 3));
	for (unsigned rank = 0; rank < 3; rank++)
		jobs_assert_decided(10 + rank, 2, rank, 3);
}

WORLD_TEST(what_a_rank_asked_first_does_not_end_what_the_second_one_has_led_to)
{
	uint64_t tag = jobs_open_running(2);

	jobs_apply(10, asked_at(6, tag, 0, 2));
	jobs_apply(11, jobs_was(tag, 1, 2));
	jobs_assert_decided(10, 2, 0, 2);
	jobs_apply(20, asked_at(5, tag, 0, 2));
	assert_string_not_equal(jobs_refusal(20), "");
	for (unsigned peer = 10; peer < 12; peer++) {
		assert_string_equal(jobs_refusal(peer), "");
		jobs_ready(peer);
	}
	assert_non_null(jobs_received(10, SML_CONTROL__ENVELOPE__BODY_START));
}

/* It was not told of the decision, and this switch does not know yet that it has lost it. */
WORLD_TEST(a_member_whose_connection_breaks_at_the_decision_can_ask_again)
{
	uint64_t tag = jobs_open_running(3);

	for (uint32_t rank = 1; rank < 3; rank++)
		jobs_apply(10 + rank, jobs_was(tag, rank, 3));
	jobs_apply_as_new(20);
	jobs_wait(2 * SML_SECOND_NS);
	jobs_assert_decided(12, 2, 1, 3);
	jobs_ready(11);
	jobs_ready(20);
	jobs_apply(22, jobs_was(tag, 2, 3));
	assert_string_equal(jobs_refusal(22), "");
	jobs_assert_refused(11, "rank 1 asks again");
	jobs_assert_refused(20, "rank 1 asks again");
	/* So does who was new, and waits again. */
	jobs_apply_as_new(30);
	jobs_apply(21, jobs_was(tag, 1, 3));
	jobs_wait(2 * SML_SECOND_NS);
	jobs_assert_decided(21, 3, 0, 3);
	jobs_assert_decided(22, 3, 1, 3);
	jobs_assert_decided(30, 3, 2, 3);
}

/* All of its ranks had to ask, and all are members. */
JOBS_TEST(a_member_of_a_job_that_ran_elsewhere_can_ask_again_at_the_decision)
{
	struct jobs_apply ask = jobs_was(77, 1, 2);

	for (uint32_t rank = 0; rank < 2; rank++)
		jobs_apply(rank, jobs_was(77, rank, 2));
	jobs_assert_decided(1, 2, 1, 2);
	jobs_apply(10, jobs_was(77, 0, 2));
	jobs_assert_refused(1, "rank 0 asks again");
	assert_int_equal(world.jobs.n_jobs, 0);
	/* Only this one was told of the last number. */
	ask.number = 2;
	jobs_apply(11, ask);
	jobs_assert_decided(10, 3, 0, 2);
	jobs_assert_decided(11, 3, 1, 2);
}

/* Another rank does not end what was decided without it. */
WORLD_TEST(who_was_left_out_does_not_end_the_membership_of_the_others)
{
	uint64_t tag = jobs_open_running(3);

	for (uint32_t rank = 1; rank < 3; rank++)
		jobs_apply(10 + rank, jobs_was(tag, rank, 3));
	jobs_wait(2 * SML_SECOND_NS);
	jobs_apply(20, jobs_was(tag, 0, 3));
	jobs_assert_refused(20, "asked too late");
	for (unsigned peer = 11; peer < 13; peer++)
		jobs_ready(peer);
	assert_non_null(jobs_received(12, SML_CONTROL__ENVELOPE__BODY_START));
}

/* With the same rank there. */
JOBS_TEST(a_member_of_another_job_does_not_end_a_membership_that_begins)
{
	for (uint32_t rank = 0; rank < 2; rank++)
		jobs_apply(rank, jobs_was(77, rank, 2));
	jobs_assert_decided(1, 2, 1, 2);
	jobs_apply(10, jobs_was(78, 0, 2));
	assert_string_equal(jobs_refusal(10), "");
	for (unsigned peer = 0; peer < 2; peer++) {
		assert_string_equal(jobs_refusal(peer), "");
		jobs_ready(peer);
	}
	assert_non_null(jobs_received(1, SML_CONTROL__ENVELOPE__BODY_START));
}

WORLD_TEST(who_asks_after_the_decision_is_too_late)
{
	uint64_t tag = jobs_open_running(2);

	jobs_apply(10, jobs_was(tag, 0, 2));
	jobs_wait(2 * SML_SECOND_NS);
	jobs_assert_decided(10, 2, 0, 1);
	jobs_apply(11, jobs_was(tag, 1, 2));
	jobs_assert_refused(11, "asked too late");
	/* As a new process, it waits for the next one. */
	jobs_apply(12, (struct jobs_apply){.min_ranks = 1});
	assert_string_equal(jobs_refusal(12), "");
}

/* The others may have seen it begin, at another switch, and decide there. */
JOBS_TEST(where_nobody_knows_whether_the_last_membership_began_the_program_decides)
{
	struct jobs_apply ask = jobs_was(77, 0, 2);

	ask.newest.unseen = true;
	ask.older = (struct jobs_past_rank){66, 1, 3, false};
	jobs_apply(0, ask);
	jobs_assert_refused(0, "your program must decide");
}

/* Its place in the job before counts, and that job's other ranks can be in the next one, too. */
WORLD_TEST(a_membership_that_never_ran_does_not_count)
{
	struct jobs_apply ask;
	uint64_t tags[2];

	jobs_form_in_vain(true, tags);
	ask = jobs_was(tags[1], 1, 2);
	ask.newest.unseen = true;
	ask.older = (struct jobs_past_rank){tags[0], 1, 3, false};
	jobs_apply(21, jobs_was(tags[0], 2, 3));
	jobs_apply(20, ask);
	jobs_assert_decided(20, 3, 0, 2);
	jobs_assert_decided(21, 3, 1, 2);
	assert_int_equal(jobs_decision(20)->before[0], 2);
	assert_int_equal(jobs_decision(20)->before[1], 3);
}

WORLD_TEST(who_was_new_in_a_membership_that_never_ran_is_new_again)
{
	struct jobs_apply ask;
	uint64_t tags[2];

	jobs_form_in_vain(true, tags);
	ask = jobs_was(tags[1], 1, 2);
	ask.newest.unseen = true;
	jobs_apply(20, ask);
	assert_int_equal(world.jobs.applicants->tag, 0);
}

/*
 * It ran elsewhere, and a rank that was not told of its epoch here may be there again. So it is not
 * a job that never ran, whose ranks would wait as if they were new.
 */
JOBS_TEST(a_job_that_did_not_go_on_here_is_not_this_switchs_to_judge)
{
	uint64_t tag;

	for (uint32_t rank = 0; rank < 2; rank++)
		jobs_resume(rank, jobs_join_message("train", rank, 2), 7, 66, false);
	tag = jobs_admitted(1)->report_tag;
	/* It has given up before the job went on. */
	jobs_apply(10, jobs_was(tag, 1, 2));
	jobs_assert_refused(0, "rank 1 goes on");
	assert_true(world.jobs.applicants->tag == tag);
	jobs_wait(2 * SML_SECOND_NS);
	jobs_assert_refused(10, "your program must decide");
	/* All of them: then nobody is elsewhere. */
	jobs_apply(11, jobs_was(tag, 1, 2));
	jobs_apply(12, jobs_was(tag, 0, 2));
	jobs_assert_decided(11, 2, 1, 2);
}

/* ---- waiting ---- */

WORLD_TEST(an_applicant_is_told_who_is_missing)
{
	const SmlControl__Waiting *waiting;
	uint64_t tag = jobs_open_running(4);

	jobs_apply(10, jobs_was(tag, 2, 4));
	waiting = jobs_received(10, SML_CONTROL__ENVELOPE__BODY_WAITING)->waiting;
	assert_int_equal(waiting->n_missing, 3);
	assert_int_equal(waiting->missing[0], 0);
	assert_int_equal(waiting->missing[1], 1);
	assert_int_equal(waiting->missing[2], 3);
	/* A new process waits for nobody in particular. */
	jobs_apply(11, (struct jobs_apply){.min_ranks = 1});
	waiting = jobs_received(11, SML_CONTROL__ENVELOPE__BODY_WAITING)->waiting;
	assert_int_equal(waiting->n_missing, 0);
}

static uint32_t told_to_wait(unsigned peer)
{
	const SmlControl__Envelope *pong = jobs_received(peer, SML_CONTROL__ENVELOPE__BODY_PONG);

	return pong ? pong->pong->waiting : 0;
}

WORLD_TEST(ranks_that_run_are_told_at_once_of_who_waits)
{
	jobs_open_running(2);
	jobs_apply(10, (struct jobs_apply){.job = "another"});
	assert_int_equal(told_to_wait(0), 0);
	jobs_apply(11, (struct jobs_apply){.min_ranks = 1});
	jobs_apply(12, (struct jobs_apply){.min_ranks = 1});
	for (unsigned rank = 0; rank < 2; rank++)
		assert_int_equal(told_to_wait(rank), 2);
}

/*
 * As one that had a rank: on whatever connection it asks, at the root or behind a leaf whose
 * connection is gone, it is one process.
 */
static void ask_twice(uint32_t behind)
{
	struct jobs_apply ask = {.process = 7, .time_ns = 5, .behind = behind};
	uint64_t tag = jobs_open_running(2);

	tree_attach(5, 4096);
	jobs_apply(behind ? 5 : 20, ask);
	ask = (struct jobs_apply){.process = 7, .time_ns = 6};
	jobs_apply(21, ask);
	assert_int_equal(told_to_wait(0), 1);
	/* What it asked first is read last. */
	ask.time_ns = 4;
	jobs_apply(22, ask);
	jobs_assert_refused(22, "asked again");
	for (uint32_t rank = 0; rank < 2; rank++)
		jobs_apply(10 + rank, jobs_was(tag, rank, 2));
	jobs_assert_decided(21, 2, 2, 3);
	/* It was not told: the others need not wait for a connection that is gone. */
	ask.time_ns = 7;
	jobs_apply(23, ask);
	assert_string_equal(jobs_refusal(23), "");
	jobs_assert_refused(10, "rank 2 asks again");
}

WORLD_TEST(a_new_process_that_asks_twice_is_there_once)
{
	ask_twice(0);
}

WORLD_TEST(a_new_process_that_asks_again_when_its_leaf_has_gone_is_there_once)
{
	ask_twice(70);
}

JOBS_TEST(who_waits_to_join_waits_as_long_as_it_said)
{
	jobs_apply(0, (struct jobs_apply){.min_ranks = 1});
	jobs_wait(59 * SML_SECOND_NS);
	assert_string_equal(jobs_refusal(0), "");
	jobs_wait(2 * SML_SECOND_NS);
	jobs_assert_refused(0, "formed no membership within");
	assert_int_equal(world.jobs.n_members, 0);
}

TEST(nobody_waits_for_an_applicant_that_has_gone_or_is_silent)
{
	for (unsigned silent = 0; silent < 2; silent++) {
		uint64_t tag;

		tag = jobs_open_running(3);
		jobs_apply(10, jobs_was(tag, 0, 3));
		if (silent) {
			/* Longer than its heartbeat, and the others ask only then. */
			world.jobs.applicants->join->ask->wait_ms = 3600 * 1000;
			jobs_wait_silently(11 * SML_SECOND_NS);
			jobs_assert_refused(10, "heard nothing");
		} else {
			jobs_hang_up(10);
		}
		jobs_apply(11, jobs_was(tag, 1, 3));
		assert_null(jobs_decision(11));
		jobs_apply(12, jobs_was(tag, 2, 3));
		jobs_assert_decided(11, 2, 0, 2);
		jobs_assert_decided(12, 2, 1, 2);
		jobs_close();
	}
}

static void leaf_says_it_died(void)
{
	tree_relay_end(5, 70, false);
}

static void leaf_sends_it_away(void)
{
	tree_relay_end(5, 70, true);
}

static void leaf_dies(void)
{
	jobs_hang_up(5);
}

/* More than half of its heartbeat, in which the switch did not run. */
static void ends_after_a_pause(void)
{
	world.jobs.applicants->join->ask->wait_ms = 3600 * 1000;
	jobs_pause(6 * SML_SECOND_NS);
	jobs_hang_up(12);
}

static void leaves_after_a_pause(void)
{
	world.jobs.applicants->join->ask->wait_ms = 3600 * 1000;
	jobs_pause(6 * SML_SECOND_NS);
	jobs_leave(12);
}

static void is_silent_after_a_pause(void)
{
	world.jobs.applicants->join->ask->wait_ms = 3600 * 1000;
	jobs_pause(6 * SML_SECOND_NS);
	jobs_wait_silently(11 * SML_SECOND_NS);
}

/* How the connection of rank 2 ends, which has asked as peer 12, or behind the leaf 5. */
static const struct {
	bool behind_leaf, may_ask_again;
	void (*end)(void);
} ends[] = {
	{true, false, leaf_says_it_died},
	{true, true, leaf_sends_it_away},
	{true, true, leaf_dies},
	{false, true, ends_after_a_pause},
	{false, true, leaves_after_a_pause},
	{false, true, is_silent_after_a_pause},
};

TEST(an_applicant_that_may_ask_again_is_waited_for)
{
	for (unsigned i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct jobs_apply ask;
		uint64_t tag;

		tag = jobs_open_running(3);
		tree_attach(5, 4096);
		ask = jobs_was(tag, 2, 3);
		ask.behind = ends[i].behind_leaf ? 70 : 0;
		jobs_apply(ask.behind ? 5 : 12, ask);
		ends[i].end();
		assert_null(world.jobs.applicants);
		for (uint32_t rank = 0; rank < 2; rank++)
			jobs_apply(20 + rank, jobs_was(tag, rank, 3));
		assert_int_equal(jobs_decision(20) == NULL, ends[i].may_ask_again);
		if (ends[i].may_ask_again)
			jobs_apply(22, jobs_was(tag, 2, 3));
		jobs_assert_decided(21, 2, 1, 2 + ends[i].may_ask_again);
		jobs_close();
	}
}

/* It is there. So the next time, which the others may ask for, it is waited for again. */
TEST(a_rank_that_had_gone_and_asks_again_is_waited_for)
{
	for (unsigned died = 0; died < 2; died++) {
		struct jobs_apply asks[3];
		uint64_t tag;

		tag = jobs_open_running(3);
		for (uint32_t rank = 0; rank < 3; rank++) {
			asks[rank] = jobs_was(tag, rank, 3);
			asks[rank].min_ranks = 4;
		}
		/* The switch takes it for dead; or it has asked, and its connection breaks. */
		if (died) {
			jobs_hang_up(2);
		} else {
			jobs_apply(10, asks[2]);
			jobs_hang_up(10);
		}
		for (unsigned rank = 0; rank < 3; rank++)
			jobs_apply(20 + rank, asks[rank]);
		jobs_wait(2 * SML_SECOND_NS);
		for (unsigned rank = 0; rank < 3; rank++) {
			jobs_assert_refused(20 + rank, "too few ranks");
			asks[rank].min_ranks = 2;
		}
		jobs_apply(30, asks[0]);
		jobs_apply(31, asks[1]);
		assert_null(jobs_decision(31));
		jobs_apply(32, asks[2]);
		for (unsigned rank = 0; rank < 3; rank++)
			jobs_assert_decided(30 + rank, 2, rank, 3);
		jobs_close();
	}
}

WORLD_TEST(a_switch_that_ends_tells_those_that_ask)
{
	uint64_t tag = jobs_open_running(2);

	jobs_apply(10, jobs_was(tag, 0, 2));
	sml_jobs_stop(&world.jobs, world.now_ns);
	jobs_assert_refused(10, "the switch was stopped");
	assert_int_equal(world.jobs.n_members, 0);
}
