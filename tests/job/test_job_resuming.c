/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that go on at another switch: which of them meet in one job there, and which do not. */

#include "support/jobs.h"
#include "support/test.h"
#include "switchml.h"

/* ---- resuming ---- */

static void resume_after(unsigned peer, uint32_t rank, uint64_t membership, uint64_t tag,
			 bool leaving)
{
	jobs_resume(peer, jobs_join_message("a", rank, 2), membership, tag, leaving);
}

static void resume(unsigned peer, uint32_t rank, uint64_t membership, bool leaving)
{
	resume_after(peer, rank, membership, 0, leaving);
}

JOBS_TEST(all_ranks_have_one_membership_in_all_epochs)
{
	uint64_t membership;

	jobs_join_all(0, "a", 2);
	membership = jobs_admitted(0)->membership;
	assert_true(membership != 0);
	assert_true(jobs_admitted(1)->membership == membership);
	jobs_join_all(2, "b", 1);
	assert_true(jobs_admitted(2)->membership != membership);
	jobs_hang_up(0);
	resume(4, 0, membership, false);
	resume(5, 1, membership, false);
	assert_true(jobs_admitted(4)->membership == membership);
}

/* The switch, of integers, or whose leaves round parts, died when it had told only rank 1 to start.
 */
JOBS_TEST(ranks_resume_with_what_one_of_them_has_given_up)
{
	SmlControl__Resume report = SML_CONTROL__RESUME__INIT;

	world.operations.floats = true;
	report.membership = 77;
	for (uint32_t given_up = 0; given_up < 2; given_up++) {
		for (uint32_t rank = 0; rank < 2; rank++) {
			report.only_integers = report.adds_parts = given_up && rank == 1;
			jobs_resume_with(2 * given_up + rank, jobs_join_message("a", rank, 2),
					 report);
		}
		for (uint32_t rank = 0; rank < 2; rank++) {
			assert_int_equal(jobs_admitted(2 * given_up + rank)->floats, !given_up);
			assert_int_equal(jobs_admitted(2 * given_up + rank)->adds_parts, given_up);
		}
		report.membership++;
	}
}

JOBS_TEST(strangers_under_its_name_do_not_stop_a_job_that_goes_on)
{
	/* One rank waits for the job to begin, and the other resumes it. Both stay. */
	jobs_join(0, jobs_join_message("a", 0, 2));
	resume(1, 0, 666, false);
	resume(2, 0, 77, false);
	resume(3, 1, 77, false);
	assert_non_null(jobs_admitted(2));
	assert_non_null(jobs_admitted(3));
	assert_null(jobs_admitted(1));
	/* A rank without a membership cannot resume a job. */
	resume(4, 0, 0, false);
	jobs_assert_refused(4, "membership");
}

WORLD_TEST(where_there_is_no_room_for_both_the_job_that_goes_on_stays)
{
	jobs_open(4096, 1, false);
	jobs_join(0, jobs_join_message("a", 0, 2));
	resume(1, 0, 77, false);
	jobs_assert_refused(0, "continues here");
	assert_string_equal(jobs_refusal(1), "");
}

/* It was out of reach when its job failed, and names the rank that the others name. */
JOBS_TEST(who_comes_to_resume_a_failed_job_learns_why_it_failed)
{
	uint64_t membership, tag;

	jobs_join_all(0, "a", 2);
	membership = jobs_admitted(0)->membership;
	tag = world.jobs.jobs[0]->report_tag;
	jobs_ready(0);
	jobs_ready(1);
	jobs_hang_up(0);
	resume_after(2, 1, membership, tag, false);
	jobs_assert_refused(2, "rank 0 (host");
	jobs_assert_refused(2, "died: its connection ended");
	/* To the rank that counted as dead, this would be wrong. */
	resume_after(3, 0, membership, tag, false);
	jobs_assert_refused(3, "lost the connection of rank 0");
}

/* One of those that wait for the others does not want to any more. */
JOBS_TEST(who_comes_to_resume_a_job_that_a_rank_has_given_up_learns_that)
{
	jobs_resume(0, jobs_join_message("a", 0, 3), 77, 7, false);
	jobs_resume(1, jobs_join_message("a", 1, 3), 77, 7, false);
	jobs_say(0, message_abort(SML_ERROR_ABORTED, "it has seen enough", false));
	jobs_assert_refused(1, "aborted the job: it has seen enough");
	jobs_resume(2, jobs_join_message("a", 2, 3), 77, 7, false);
	jobs_assert_refused(2, "aborted the job: it has seen enough");
}

/* The others may find it at another switch. */
JOBS_TEST(who_leaves_a_job_that_is_about_to_go_on_does_not_end_it)
{
	resume(0, 0, 77, false);
	resume(1, 1, 77, false);
	assert_non_null(jobs_admitted(1));
	jobs_leave(0);
	assert_string_equal(jobs_refusal(1), "");
	assert_true(world.peers[1].ended);
	assert_int_equal(world.jobs.n_jobs, 0);
}

/* The others would wait for it without knowing why. */
JOBS_TEST(those_that_resume_are_told_why_another_one_may_not)
{
	SmlControl__Join join = jobs_join_message("a", 1, 2);
	const SmlControl__Envelope *waiting;

	resume(0, 0, 77, false);
	join.wire = SML_WIRE_INT8;
	jobs_resume(1, join, 77, 1, false);
	jobs_assert_refused(1, "int8");
	jobs_wait(2 * SML_SECOND_NS);
	waiting = jobs_received(0, SML_CONTROL__ENVELOPE__BODY_WAITING);
	assert_string_equal(waiting->waiting->refused, jobs_refusal(1));
}

/* Its switch told the other rank that all have left, and died before it told this one. */
JOBS_TEST(who_looks_for_ranks_that_have_left_may_leave)
{
	resume(0, 1, 77, true);
	jobs_wait(6 * SML_SECOND_NS);
	assert_non_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_LEFT));
	/* Not while another rank is here that does not ask for this. */
	resume(1, 1, 77, false);
	jobs_wait(6 * SML_SECOND_NS);
	assert_null(jobs_received(1, SML_CONTROL__ENVELOPE__BODY_LEFT));
	assert_true(world.peers[1].ended);
}

/* Nothing is left to do, so there are no slots and no probes. */
JOBS_TEST(where_all_come_only_to_leave_they_leave_at_once)
{
	resume(0, 0, 77, true);
	assert_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_LEFT));
	resume(1, 1, 77, true);
	assert_non_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_LEFT));
	assert_non_null(jobs_received(1, SML_CONTROL__ENVELOPE__BODY_LEFT));
	assert_int_equal(world.jobs.n_jobs, 0);
	/* One of them has calls to make, so the job continues. */
	resume(2, 0, 78, true);
	resume(3, 1, 78, false);
	assert_null(jobs_received(2, SML_CONTROL__ENVELOPE__BODY_LEFT));
	assert_non_null(jobs_admitted(3));
}

/* ---- ranks that were ready when their switch died ---- */

static unsigned maps_told(unsigned peer)
{
	const SmlControl__Envelope *admitted =
		jobs_received(peer, SML_CONTROL__ENVELOPE__BODY_ADMITTED);

	assert_non_null(admitted);
	return (unsigned)admitted->admitted->n_maps;
}

/* In whatever order they come; and a stranger's job, in which one of them has come, goes on. */
TEST(those_that_were_told_to_start_go_on_with_those_that_were_not)
{
	for (unsigned begun = 0; begun < 3; begun++) {
		jobs_open(4096, 64, false);
		if (begun < 2)
			jobs_join(9, jobs_join_message("half", begun, 3));
		for (unsigned rank = 0; rank < 3; rank++) {
			SmlControl__Join join = jobs_join_message("half", rank, 3);

			if (rank == begun)
				jobs_resume(rank, join, 7, 0, false);
			else
				jobs_begin_again(rank, join, 7);
		}
		for (unsigned rank = 0; rank < 3; rank++)
			assert_int_equal(maps_told(rank), SML_STREAMS);
		assert_int_equal(world.jobs.n_jobs, begun < 2 ? 2 : 1);
		jobs_close();
	}
}

JOBS_TEST(if_no_rank_was_told_to_start_they_begin_anew)
{
	jobs_begin_again(0, jobs_join_message("none", 0, 3), 7);
	jobs_join(1, jobs_join_message("none", 1, 3));
	jobs_begin_again(2, jobs_join_message("none", 2, 3), 7);
	for (unsigned rank = 0; rank < 3; rank++)
		assert_int_equal(maps_told(rank), 0);
	assert_int_not_equal(world.jobs.jobs[0]->membership, 7);
}

/* The secret is another one: a rank of another run. */
JOBS_TEST(a_rank_that_was_ready_for_another_job_is_not_taken_along)
{
	jobs_begin_again(0, jobs_join_message("other", 0, 2), 8);
	jobs_resume(1, jobs_join_message("other", 1, 2), 7, 0, false);
	assert_int_equal(world.jobs.n_jobs, 2);
	assert_null(jobs_received(1, SML_CONTROL__ENVELOPE__BODY_ADMITTED));
}
