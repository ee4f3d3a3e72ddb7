/* SPDX-License-Identifier: BSD-3-Clause */
/* The switch decides who the members of the next membership are: when, who, and in which order. */
#include <string.h>

#include "control/envelope.h"
#include "support/applicants.h"
#include "support/test.h"
#include "switchml.h"

/* ---- who ---- */

WORLD_TEST(ranks_keep_their_order_and_the_new_ones_follow)
{
	static const uint32_t came[] = {3, 0, 2};
	const SmlControl__Decision *decision;
	uint64_t tag = jobs_open_running(4);

	jobs_hang_up(1);
	jobs_apply_as_new(21);
	jobs_apply_as_new(20);
	for (unsigned i = 0; i < 3; i++)
		jobs_apply(10 + i, jobs_was(tag, came[i], 4));
	jobs_assert_decided(11, 2, 0, 5);
	jobs_assert_decided(12, 2, 1, 5);
	jobs_assert_decided(10, 2, 2, 5);
	jobs_assert_decided(21, 2, 3, 5);
	jobs_assert_decided(20, 2, 4, 5);
	decision = jobs_decision(20);
	assert_string_equal(decision->job, "train #2");
	assert_true(decision->after == tag);
	assert_int_equal(decision->n_before, 5);
	assert_int_equal(decision->before[0], 1);
	assert_int_equal(decision->before[1], 3);
	assert_int_equal(decision->before[2], 4);
	assert_int_equal(decision->before[3] + decision->before[4], 0);
}

JOBS_TEST(a_joiner_that_does_not_fit_the_others_does_not_end_their_job)
{
	struct jobs_apply ask = {.shards = 1};
	uint64_t tag;

	/* They come before anyone can know what the others will have. */
	jobs_apply(20, ask);
	jobs_apply(22, (struct jobs_apply){.wire = SML_WIRE_EXACT});
	ask.shards = 2;
	jobs_apply(21, ask);
	tag = jobs_run(0, 2);
	for (uint32_t rank = 0; rank < 2; rank++) {
		ask.newest = (struct jobs_past_rank){tag, rank, 2, false};
		jobs_apply(10 + rank, ask);
	}
	jobs_assert_refused(20, "disagree about threads");
	jobs_assert_refused(22, "disagree about the wire");
	for (unsigned i = 0; i < 2; i++)
		jobs_assert_decided(10 + i, 2, i, 3);
	jobs_assert_decided(21, 2, 2, 3);
}

WORLD_TEST(joiners_of_another_job_go_on_waiting)
{
	uint64_t tag = jobs_open_running(1);

	jobs_apply(20, (struct jobs_apply){.job = "trainer"});
	jobs_apply(10, jobs_was(tag, 0, 1));
	jobs_assert_decided(10, 2, 0, 1);
	assert_non_null(world.jobs.applicants);
	assert_string_equal(jobs_refusal(20), "");
}

/* The least bound that one of them names. */
WORLD_TEST(joiners_are_added_up_to_the_bound)
{
	struct jobs_apply ask;
	uint64_t tag = jobs_open_running(2);

	for (unsigned i = 0; i < 3; i++)
		jobs_apply_as_new(20 + i);
	ask = jobs_was(tag, 0, 2);
	ask.max_ranks = 4;
	jobs_apply(10, ask);
	ask = jobs_was(tag, 1, 2);
	ask.max_ranks = 3;
	jobs_apply(11, ask);
	jobs_assert_decided(20, 2, 2, 3);
	assert_null(jobs_decision(21));
	assert_string_equal(jobs_refusal(21), "");
}

WORLD_TEST(ranks_are_members_beyond_the_bound)
{
	struct jobs_apply ask;
	uint64_t tag = jobs_open_running(2);

	jobs_apply_as_new(20);
	for (uint32_t rank = 0; rank < 2; rank++) {
		ask = jobs_was(tag, rank, 2);
		ask.max_ranks = 1;
		jobs_apply(10 + rank, ask);
	}
	jobs_assert_decided(11, 2, 1, 2);
	assert_null(jobs_decision(20));
}

/* ---- when ---- */

WORLD_TEST(who_does_not_ask_in_time_is_left_out)
{
	uint64_t tag = jobs_open_running(3);

	jobs_apply(12, jobs_was(tag, 2, 3));
	jobs_wait(SML_SECOND_NS / 2);
	jobs_apply(10, jobs_was(tag, 0, 3));
	assert_null(jobs_decision(12));
	/* From the first that asked. */
	jobs_wait(SML_SECOND_NS * 6 / 10);
	jobs_assert_decided(10, 2, 0, 2);
	jobs_assert_decided(12, 2, 1, 2);
}

WORLD_TEST(with_too_few_ranks_all_get_an_error_in_time)
{
	struct jobs_apply ask;
	uint64_t tag = jobs_open_running(2);

	jobs_hang_up(1);
	ask = jobs_was(tag, 0, 2);
	ask.min_ranks = 2;
	jobs_apply(10, ask);
	jobs_wait(SML_SECOND_NS * 9 / 10);
	assert_string_equal(jobs_refusal(10), "");
	jobs_wait(SML_SECOND_NS * 2 / 10);
	jobs_assert_refused(10, "too few ranks to go on: 1, of at least 2");
	/* It asks again, and this time one joins. */
	jobs_apply(11, ask);
	jobs_apply_as_new(20);
	jobs_assert_decided(11, 2, 0, 2);
	jobs_assert_decided(20, 2, 1, 2);
}

/* ---- never two ---- */

JOBS_TEST(a_job_that_ran_elsewhere_needs_all_of_its_ranks)
{
	for (uint32_t rank = 0; rank < 2; rank++)
		jobs_apply(rank, jobs_was(77, rank, 3));
	jobs_wait(2 * SML_SECOND_NS);
	for (unsigned peer = 0; peer < 2; peer++)
		jobs_assert_refused(peer, "only 2 of its 3 ranks");
	for (uint32_t rank = 0; rank < 3; rank++)
		jobs_apply(10 + rank, jobs_was(77, rank, 3));
	jobs_assert_decided(11, 2, 1, 3);
}

/* It could begin at another switch with all of its members, so one of them must be here. */
WORLD_TEST(after_a_membership_that_never_ran_one_of_its_members_is_needed)
{
	struct jobs_apply ask;
	uint64_t tags[2];

	jobs_form_in_vain(false, tags);
	jobs_apply(22, jobs_was(tags[0], 2, 3));
	jobs_wait(2 * SML_SECOND_NS);
	jobs_assert_refused(22, "asked too late");
	jobs_apply(32, jobs_was(tags[0], 2, 3));
	ask = jobs_was(tags[1], 1, 2);
	ask.newest.unseen = true;
	ask.older = (struct jobs_past_rank){tags[0], 1, 3, false};
	jobs_apply(31, ask);
	jobs_wait(2 * SML_SECOND_NS);
	jobs_assert_decided(31, 3, 0, 2);
	jobs_assert_decided(32, 3, 1, 2);
}

/* It was frozen, or its connection broke: without it, that membership cannot begin elsewhere. */
WORLD_TEST(a_member_that_was_not_told_so_can_go_on)
{
	uint64_t tags[2];

	jobs_form_in_vain(false, tags);
	jobs_apply(30, jobs_was(tags[0], 0, 3));
	jobs_wait(2 * SML_SECOND_NS);
	jobs_assert_decided(30, 3, 0, 1);
}

/* Of two that never ran, either may begin elsewhere. */
WORLD_TEST(who_was_in_the_last_membership_only_is_not_enough)
{
	uint64_t tags[2];

	jobs_form_in_vain(false, tags);
	jobs_apply(31, jobs_was(tags[0], 1, 3));
	jobs_apply(32, jobs_was(tags[0], 2, 3));
	jobs_wait(2 * SML_SECOND_NS);
	jobs_assert_decided(32, 3, 1, 2);
	jobs_hang_up(31);
	jobs_apply(42, jobs_was(tags[0], 2, 3));
	jobs_wait(2 * SML_SECOND_NS);
	jobs_assert_refused(42, "asked too late");
	jobs_apply(51, jobs_was(tags[0], 1, 3));
	jobs_wait(2 * SML_SECOND_NS);
	jobs_assert_decided(51, 4, 0, 1);
}

WORLD_TEST(after_a_membership_that_ran_the_job_before_it_is_over)
{
	uint64_t tag = jobs_open_running(2);

	jobs_apply(10, jobs_was(tag, 0, 2));
	jobs_wait(2 * SML_SECOND_NS);
	jobs_ready(10);
	assert_non_null(jobs_received(10, SML_CONTROL__ENVELOPE__BODY_START));
	jobs_hang_up(10);
	jobs_apply(11, jobs_was(tag, 1, 2));
	jobs_assert_refused(11, "asked too late");
}

/* ---- names ---- */

WORLD_TEST(each_membership_has_a_name_and_a_number_of_its_own)
{
	struct jobs_apply ask;
	uint64_t tag = jobs_open_running(1);

	/* Another program has that name. */
	jobs_join(1, jobs_join_message("train #6", 0, 2));
	ask = jobs_was(tag, 0, 1);
	/* As an earlier switch has told it. */
	ask.number = 5;
	jobs_apply(10, ask);
	jobs_assert_decided(10, 7, 0, 1);
	assert_string_equal(jobs_decision(10)->job, "train #7");
}

/* Before the decision, and while the job waits for slots. */
WORLD_TEST(a_stranger_with_the_name_of_the_next_membership_does_not_end_it)
{
	SmlControl__Join stranger = jobs_join_message("train #2", 0, 2);
	uint64_t tag;

	stranger.protocol++;
	tag = jobs_open_running(2);
	jobs_join(20, stranger);
	world.plane.has_no_room_yet = true;
	for (uint32_t rank = 0; rank < 2; rank++)
		jobs_apply(10 + rank, jobs_was(tag, rank, 2));
	jobs_join(21, stranger);
	for (unsigned peer = 20; peer < 22; peer++)
		jobs_assert_refused(peer, "control protocol");
	world.plane.has_no_room_yet = false;
	jobs_wait(SML_SECOND_NS);
	for (uint32_t rank = 0; rank < 2; rank++)
		jobs_assert_decided(10 + rank, 2, rank, 2);
}

/* Also while the job waits for slots: the others learn it at once, and do not wait for it again. */
TEST(a_member_that_dies_before_the_job_has_begun_is_not_waited_for)
{
	uint64_t tag;

	for (unsigned waits = 0; waits < 2; waits++) {
		tag = jobs_open_running(3);
		world.plane.has_no_room_yet = waits;
		for (uint32_t rank = 0; rank < 3; rank++)
			jobs_apply(10 + rank, jobs_was(tag, rank, 3));
		jobs_hang_up(12);
		world.plane.has_no_room_yet = false;
		for (uint32_t rank = 0; rank < 2; rank++) {
			jobs_assert_refused(10 + rank, "rank 2");
			jobs_apply(20 + rank, jobs_was(tag, rank, 3));
		}
		for (uint32_t rank = 0; rank < 2; rank++)
			jobs_assert_decided(20 + rank, 3, rank, 2);
		jobs_close();
	}
}

/* told: another stripe's switch has said that the members change. */
static void say_planned(unsigned peer, bool told)
{
	SmlControl__Abort word = SML_CONTROL__ABORT__INIT;

	word.error = SML_ERROR_ABORTED;
	word.planned = true;
	word.told = told;
	jobs_say(peer, sml_envelope(ABORT, abort, &word));
}

/*
 * The job has failed, and its ranks are still connected. Who goes on says so before it hangs up;
 * who has died, or closes its context, does not.
 */
TEST(a_rank_that_ends_without_asking_is_not_waited_for)
{
	uint64_t tag;

	for (unsigned goes_on = 0; goes_on < 2; goes_on++) {
		tag = jobs_open_running(4);
		jobs_hang_up(3);
		jobs_apply(10, jobs_was(tag, 0, 4));
		jobs_apply(11, jobs_was(tag, 1, 4));
		/* What it said before it knew. */
		jobs_leave(2);
		assert_string_not_equal(jobs_refusal(2), "");
		say_planned(2, true);
		assert_int_equal(world.peers[2].ended, 0);
		if (goes_on)
			say_planned(2, false);
		assert_int_equal(world.peers[2].ended, goes_on);
		jobs_hang_up(2);
		assert_int_equal(jobs_decision(11) != NULL, !goes_on);
		if (goes_on)
			jobs_apply(12, jobs_was(tag, 2, 4));
		jobs_assert_decided(11, 2, 1, 2 + goes_on);
		jobs_close();
	}
}

/* They are counted for as long as others wait for them, and give way to those who join. */
WORLD_TEST(ranks_of_a_failed_job_stay_connected_for_a_time)
{
	uint64_t tag = jobs_open_running(4);

	jobs_hang_up(3);
	assert_int_equal(world.jobs.n_members, 3);
	world.jobs.config.max_members = 3;
	jobs_join(20, jobs_join_message("other", 0, 2));
	assert_string_equal(jobs_refusal(20), "");
	assert_true(world.peers[0].ended);
	assert_false(world.peers[1].ended);
	/* The heartbeat of these ranks is ten seconds. */
	jobs_wait(11 * SML_SECOND_NS);
	assert_true(world.peers[1].ended && world.peers[2].ended);
	jobs_apply(10, jobs_was(tag, 0, 4));
	jobs_hang_up(1);
	assert_null(jobs_decision(10));
}

/* Ranks that have given a silent switch up have not died. */
WORLD_TEST(after_an_absence_of_the_switch_the_end_of_a_connection_proves_nothing)
{
	uint64_t tag = jobs_open_running(3);

	jobs_apply(10, jobs_was(tag, 0, 3));
	jobs_apply(11, jobs_was(tag, 1, 3));
	/* After half of their heartbeat, they may have. */
	jobs_pause(5 * SML_SECOND_NS);
	jobs_hang_up(2);
	assert_null(jobs_decision(10));
	jobs_wait(SML_SECOND_NS);
	jobs_assert_decided(10, 2, 0, 2);
}

WORLD_TEST(after_a_short_absence_of_the_switch_the_end_of_a_connection_is_a_death)
{
	uint64_t tag = jobs_open_running(3);

	jobs_apply(10, jobs_was(tag, 0, 3));
	jobs_apply(11, jobs_was(tag, 1, 3));
	jobs_pause(SML_SECOND_NS);
	jobs_hang_up(2);
	jobs_assert_decided(10, 2, 0, 2);
}

WORLD_TEST(where_there_is_no_room_for_the_job_nobody_waits_for_it)
{
	uint64_t tag = jobs_open_running(2);

	jobs_apply(10, jobs_was(tag, 0, 2));
	/* There is no room for any job by the time that the second one asks. */
	world.jobs.config.max_jobs = 0;
	jobs_apply(11, jobs_was(tag, 1, 2));
	for (unsigned peer = 10; peer < 12; peer++) {
		assert_null(jobs_decision(peer));
		assert_string_not_equal(jobs_refusal(peer), "");
	}
	assert_null(world.jobs.applicants);
	/* They ask again when there is room. */
	world.jobs.config.max_jobs = 1;
	for (uint32_t rank = 0; rank < 2; rank++)
		jobs_apply(30 + rank, jobs_was(tag, rank, 2));
	jobs_assert_decided(30, 3, 0, 2);
}

/* ---- its place among the switch's jobs, and its slots ---- */

/* Of a switch that has room for one job, with three ranks, of which the last has died. */
static uint64_t open_full(void)
{
	uint64_t tag;

	jobs_open(16, 1, false);
	tag = jobs_run(0, 3);
	jobs_hang_up(2);
	return tag;
}

static void go_on(unsigned peer)
{
	say_planned(peer, false);
	jobs_hang_up(peer);
}

static void join_named(unsigned peer, const char *job, uint32_t rank, uint64_t tag)
{
	SmlControl__Join join = jobs_join_message(job, rank, 2);

	join.follows_tag = tag;
	jobs_join(peer, join);
}

static void join_next(unsigned peer, uint32_t rank, uint64_t tag)
{
	join_named(peer, "next", rank, tag);
}

static void assert_full(unsigned peer)
{
	const SmlControl__Envelope *told;

	jobs_join(peer, jobs_join_message("other", 0, 2));
	told = jobs_received(peer, SML_CONTROL__ENVELOPE__BODY_ABORT);
	assert_non_null(told);
	assert_non_null(strstr(told->abort->text, "at its limit of 1 job"));
	assert_true(told->abort->again);
}

TEST(a_job_whose_members_change_keeps_its_place)
{
	uint64_t tag;

	for (unsigned decides = 0; decides < 2; decides++) {
		tag = open_full();
		assert_full(20);
		/* No name is enough. */
		join_next(21, 0, tag + 1);
		assert_string_not_equal(jobs_refusal(21), "");
		go_on(0);
		go_on(1);
		assert_full(22);
		for (uint32_t rank = 0; rank < 2; rank++) {
			if (decides)
				jobs_apply(10 + rank, jobs_was(tag, rank, 3));
			else
				join_next(10 + rank, rank, tag);
			assert_full(23 + rank);
		}
		assert_non_null(jobs_admitted(10));
		assert_non_null(jobs_admitted(11));
		assert_int_equal(world.jobs.n_kept, 0);
		assert_int_equal(world.jobs.slots_in_use, 16);
		jobs_close();
	}
}

TEST(its_place_is_free_when_its_ranks_have_gone_or_do_not_come)
{
	for (unsigned die = 0; die < 2; die++) {
		(void)open_full();
		for (unsigned peer = 0; peer < 2; peer++) {
			if (die)
				jobs_hang_up(peer);
			else
				go_on(peer);
		}
		if (!die)
			assert_full(20);
		/* Their heartbeat. */
		if (!die)
			jobs_wait(10 * SML_SECOND_NS);
		assert_int_equal(world.jobs.n_kept + world.jobs.slots_in_use, 0);
		jobs_join(21, jobs_join_message("other", 0, 2));
		assert_string_equal(jobs_refusal(21), "");
		jobs_close();
	}
}

WORLD_TEST(a_change_that_fails_keeps_the_place_for_the_next_one)
{
	uint64_t tag = open_full();

	go_on(0);
	join_next(10, 0, tag);
	jobs_leave(10);
	assert_int_equal(world.jobs.n_jobs, 0);
	assert_full(20);
	join_next(11, 0, tag);
	assert_string_equal(jobs_refusal(11), "");
}

/* Whoever of the next job comes first, and though the word of the last one's ranks is late. */
static void join_after_another(bool late)
{
	uint64_t tag, older = jobs_open_running(2);

	for (unsigned peer = 0; peer < 2; peer++)
		go_on(peer);
	jobs_wait(11 * SML_SECOND_NS);
	tag = jobs_run(3, 3);
	for (unsigned peer = 3; !late && peer < 6; peer++)
		go_on(peer);
	/* New, or of an older job. */
	join_next(10, 0, late ? older : 0);
	join_next(11, 1, tag);
	for (unsigned peer = 3; late && peer < 6; peer++)
		go_on(peer);
	assert_non_null(jobs_admitted(11));
	assert_int_equal(world.jobs.n_jobs, 1);
	assert_int_equal(world.jobs.n_kept, 0);
}

WORLD_TEST(a_job_that_begins_with_a_new_process_has_one_place)
{
	join_after_another(false);
}

WORLD_TEST(a_job_that_begins_before_the_last_one_has_ended_has_one_place)
{
	join_after_another(true);
}

/* The place of the last job had become free before its rank came to one that another rank began. */
WORLD_TEST(who_comes_late_to_a_lost_change_keeps_no_place_for_a_job_that_goes_on)
{
	uint64_t older = jobs_open_running(2), tag;

	for (unsigned peer = 0; peer < 2; peer++)
		go_on(peer);
	tag = jobs_run(3, 2);
	for (unsigned peer = 3; peer < 5; peer++)
		go_on(peer);
	join_next(10, 0, older);
	jobs_wait(11 * SML_SECOND_NS);
	assert_int_equal(world.jobs.n_kept, 0);
	join_next(11, 1, tag);
	join_named(12, "lost", 1, tag);
	jobs_leave(12);
	assert_non_null(jobs_admitted(11));
	assert_int_equal(world.jobs.n_jobs, 1);
	assert_int_equal(world.jobs.n_kept, 0);
}

/* Of two that become one, whichever has ended first. */
WORLD_TEST(who_comes_late_to_a_lost_change_keeps_no_place_for_jobs_that_become_one)
{
	uint64_t first, second;

	jobs_open(4096, 64, false);
	first = jobs_run(0, 2);
	jobs_start(2, "other", 2);
	second = jobs_admitted(2)->report_tag;
	for (unsigned peer = 0; peer < 4; peer++)
		go_on(peer);
	join_named(12, "lost", 1, first);
	join_next(10, 0, first);
	join_next(11, 1, second);
	jobs_leave(12);
	assert_int_equal(world.jobs.n_jobs, 1);
	assert_int_equal(world.jobs.n_kept, 0);
}

WORLD_TEST(a_change_that_is_given_up_for_another_leaves_it_the_place)
{
	uint64_t tag = jobs_open_running(2);

	for (unsigned peer = 0; peer < 2; peer++)
		go_on(peer);
	join_next(10, 0, tag);
	jobs_join(20, jobs_join_message("another", 0, 2));
	join_named(21, "another", 1, tag);
	jobs_hang_up(10);
	assert_int_equal(world.jobs.n_jobs, 1);
	assert_int_equal(world.jobs.n_kept, 0);
}

/* It has more shards than the job before, and the switch has no slots for them. */
WORLD_TEST(a_change_that_finds_no_room_holds_the_place_once)
{
	SmlControl__Join join = jobs_join_message("next", 0, 2);
	SmlControl__Status *status;
	uint64_t tag = open_full();

	join.follows_tag = tag;
	join.shards = SML_MAX_SHARDS;
	for (unsigned peer = 10; peer < 13; peer++) {
		jobs_join(peer, join);
		jobs_assert_refused(peer, "the switch's pool is full");
		assert_int_equal(world.jobs.n_kept, 1);
		assert_int_equal(world.jobs.slots_in_use, 2 + 8);
	}
	status = jobs_status();
	assert_int_equal(status->kept_jobs, 1);
	join_next(13, 0, tag);
	assert_string_equal(jobs_refusal(13), "");
	assert_int_equal(world.jobs.n_kept, 0);
	assert_int_equal(world.jobs.slots_in_use, 2 + 8);
}

/* "train" with two ranks of this heartbeat; both say that they go on. */
static uint64_t open_left(uint32_t heartbeat_ms)
{
	uint64_t tag;

	jobs_open(4096, 64, false);
	for (uint32_t rank = 0; rank < 2; rank++) {
		SmlControl__Join join = jobs_join_message("train", rank, 2);

		join.heartbeat_ms = heartbeat_ms;
		jobs_join(rank, join);
	}
	for (unsigned peer = 0; peer < 2; peer++)
		jobs_ready(peer);
	tag = jobs_admitted(0)->report_tag;
	for (unsigned peer = 0; peer < 2; peer++)
		go_on(peer);
	assert_int_equal(world.jobs.n_kept, 1);
	return tag;
}

/* Nothing that a rank says keeps others out for longer than a minute without it. */
WORLD_TEST(a_place_is_not_kept_for_longer_than_a_heartbeat_can_be)
{
	uint64_t tag;

	(void)open_left(UINT32_MAX);
	jobs_wait(61 * SML_SECOND_NS);
	assert_int_equal(world.jobs.n_kept, 0);
	jobs_close();
	/* A rank that asks waits for a second. It does not. */
	tag = open_left(500);
	jobs_apply(10, jobs_was(tag, 0, 2));
	jobs_hang_up(10);
	assert_int_equal(world.jobs.n_kept, 1);
	jobs_wait(6 * SML_TICK_NS);
	assert_int_equal(world.jobs.n_kept, 0);
}
