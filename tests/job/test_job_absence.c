/* SPDX-License-Identifier: BSD-3-Clause */
/* A switch that did not run for a while must not blame ranks for that (job/input/jobs.c). */
#include <string.h>

#include "support/test.h"
#include "support/tree.h"

/* Ranks have a heartbeat of ten seconds, so they give up a switch after that. */
#define LONG_NS	 (12 * SML_SECOND_NS)
#define SHORT_NS (4 * SML_SECOND_NS)

static void run_job(void)
{
	jobs_open(4096, 64, false);
	jobs_start(0, "a", 2);
	jobs_wait(SML_SECOND_NS);
}

/* Also get what its ranks need to resume. */
static void run_resumable_job(uint64_t *membership, uint64_t *tag)
{
	run_job();
	*membership = jobs_admitted(0)->membership;
	*tag = jobs_admitted(0)->report_tag;
}

static void resume(unsigned peer, uint32_t rank, uint64_t membership, uint64_t tag)
{
	jobs_resume(peer, jobs_join_message("a", rank, 2), membership, tag, false);
}

/* Its ranks have been released without an error, and meet again. */
static void assert_may_resume(uint64_t membership, uint64_t tag)
{
	resume(4, 0, membership, tag);
	resume(5, 1, membership, tag);
	assert_string_equal(jobs_refusal(4), "");
	assert_non_null(jobs_admitted(4));
	assert_non_null(jobs_admitted(5));
	assert_int_equal(jobs_admitted(5)->epoch, 2);
}

WORLD_TEST(ranks_that_gave_up_a_paused_switch_resume_there)
{
	uint64_t membership, tag;

	run_resumable_job(&membership, &tag);
	jobs_pause(LONG_NS);
	/* What it sent before it closed the connection is read first. */
	jobs_say_empty(0, SML_CONTROL__ENVELOPE__BODY_PING);
	jobs_hang_up(0);
	assert_true(world.peers[1].ended);
	assert_null(jobs_received(1, SML_CONTROL__ENVELOPE__BODY_ABORT));
	assert_int_equal(world.jobs.n_jobs, 0);
	assert_may_resume(membership, tag);
}

/* Its new connection is accepted before the end of the old one arrives, on a lossy link. */
WORLD_TEST(who_resumes_before_its_old_connection_has_ended_is_let_in)
{
	uint64_t membership, tag;

	run_resumable_job(&membership, &tag);
	jobs_pause(LONG_NS);
	assert_may_resume(membership, tag);
	assert_true(world.peers[0].ended && world.peers[1].ended);
	assert_null(jobs_received(1, SML_CONTROL__ENVELOPE__BODY_ABORT));
}

WORLD_TEST(without_a_pause_a_rank_is_not_let_in_twice)
{
	run_job();
	resume(4, 0, jobs_admitted(0)->membership, jobs_admitted(0)->report_tag);
	jobs_assert_refused(4, "rank 0 of job \"a\" is taken");
	assert_int_equal(world.jobs.n_jobs, 1);
}

static void assert_died(void)
{
	jobs_hang_up(0);
	assert_int_equal(jobs_received(1, SML_CONTROL__ENVELOPE__BODY_ABORT)->abort->error,
			 SML_ERROR_RANK_DIED);
	jobs_assert_refused(1, "rank 0 (host testhost, pid 1000) died");
}

WORLD_TEST(a_pause_that_no_rank_gives_up_for_excuses_no_death)
{
	run_job();
	jobs_pause(SHORT_NS);
	assert_died();
}

/* Twice, because the first message may have been sent while the switch did not run. */
WORLD_TEST(a_rank_that_was_heard_again_is_as_mortal_as_before)
{
	run_job();
	jobs_pause(LONG_NS);
	jobs_wait(SML_SECOND_NS);
	assert_died();
}

WORLD_TEST(a_pause_is_no_silence_of_ranks)
{
	run_job();
	jobs_pause(3 * LONG_NS);
	jobs_wait(LONG_NS);
	assert_int_equal(world.jobs.n_jobs, 1);
	/* Silence after it counts, but a rank that was not heard again may have given up. */
	jobs_pause(LONG_NS);
	jobs_wait_silently(LONG_NS);
	assert_int_equal(world.jobs.n_jobs, 0);
	assert_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_ABORT));
	assert_null(jobs_received(1, SML_CONTROL__ENVELOPE__BODY_ABORT));
}

WORLD_TEST(a_rank_that_left_is_not_dead_either)
{
	uint64_t membership, tag;

	run_resumable_job(&membership, &tag);
	jobs_leave(0);
	jobs_pause(LONG_NS);
	jobs_hang_up(0);
	assert_may_resume(membership, tag);
}

/* Whether rank 0 only closes its connection, or says first that it gives this switch up. */
static void give_up_opening(void (*give_up)(unsigned))
{
	assert_non_null(jobs_admitted(0));
	give_up(0);
	assert_true(world.peers[1].ended);
	assert_null(jobs_received(1, SML_CONTROL__ENVELOPE__BODY_ABORT));
}

static void open_paused(void (*give_up)(unsigned))
{
	jobs_join_all(0, "a", 2);
	jobs_pause(LONG_NS);
	give_up_opening(give_up);
}

JOBS_TEST(an_opening_job_is_released_too)
{
	open_paused(jobs_hang_up);
}

JOBS_TEST(an_opening_job_whose_rank_says_that_it_gives_up_is_released_too)
{
	open_paused(jobs_leave);
}

/* All that it said is read when the switch goes on, and its Join was the last. */
JOBS_TEST(who_came_while_the_switch_did_not_run_and_left_ends_no_job)
{
	jobs_join(1, jobs_join_message("a", 1, 2));
	jobs_pause(LONG_NS);
	jobs_join(0, jobs_join_message("a", 0, 2));
	give_up_opening(jobs_leave);
}

/* It says nothing, because the job may have started; and here it has, with its late Ready. */
JOBS_TEST(who_was_ready_at_a_paused_switch_and_went_has_not_died)
{
	jobs_join_all(0, "a", 2);
	jobs_ready(1);
	jobs_pause(LONG_NS);
	jobs_ready(0);
	assert_non_null(jobs_received(1, SML_CONTROL__ENVELOPE__BODY_START));
	give_up_opening(jobs_hang_up);
}

/* No other process can take over rank 0's port, so the job ends; but rank 0 is named. */
WORLD_TEST(a_paused_rank_0_blames_itself)
{
	jobs_start_embedded();
	jobs_wait(SML_SECOND_NS);
	jobs_pause(LONG_NS);
	jobs_hang_up(1);
	jobs_assert_refused(0, "rank 0, whose process has the job's control port, did not run");
	assert_null(strstr(jobs_refusal(0), "died"));
}

/* The root was paused, and so was the leaf, which goes on first and says that a rank has gone. */
JOBS_TEST(a_paused_root_does_not_believe_a_leaf_that_a_rank_has_died)
{
	tree_run_two(0, 1);
	jobs_wait(SML_SECOND_NS);
	jobs_pause(LONG_NS);
	tree_relay_end(0, 70, false);
	assert_true(world.peers[1].ended);
	assert_null(jobs_received(1, SML_CONTROL__ENVELOPE__BODY_ABORT));
}
