/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of jobs at a switch, without sockets, and with a clock that the test moves. */
#include <string.h>

#include "support/jobs.h"
#include "support/test.h"

JOBS_TEST(a_job_begins_runs_and_ends)
{
	jobs_join_all(0, "a", 2);
	assert_non_null(jobs_admitted(0));
	assert_int_not_equal(jobs_admitted(0)->cookie, jobs_admitted(1)->cookie);
	jobs_ready(0);
	assert_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_START));
	jobs_ready(1);
	assert_int_equal(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_START)->start->lanes, 352);
	jobs_wait(100 * SML_SECOND_NS);
	jobs_leave(0);
	assert_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_LEFT));
	jobs_leave(1);
	assert_non_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_LEFT));
	assert_int_equal(world.jobs.n_jobs, 0);
	assert_int_equal(world.jobs.slots_in_use, 0);
}

static uint32_t fixed_40(struct sml_dataplane *dataplane)
{
	(void)dataplane;
	return 40;
}

static uint32_t fixed_256(struct sml_dataplane *dataplane)
{
	(void)dataplane;
	return 256;
}

JOBS_TEST(hardware_has_one_lane_count_and_takes_full_packets)
{
	jobs_join_all(0, "any", 2);
	assert_false(jobs_admitted(0)->full_packets);
	world.operations.fixed_lanes = fixed_256;
	jobs_join_all(2, "fixed", 2);
	assert_true(jobs_admitted(2)->full_packets);
	assert_int_equal(jobs_admitted(2)->lanes, 256);
	jobs_ready(2);
	jobs_ready(3);
	assert_int_equal(jobs_received(2, SML_CONTROL__ENVELOPE__BODY_START)->start->lanes, 256);
	world.operations.fixed_lanes = fixed_40;
	jobs_join_all(4, "few", 2);
	assert_int_equal(jobs_admitted(4)->lanes, 40);
}

JOBS_TEST(a_path_too_narrow_for_hardware_is_told)
{
	SmlControl__Join narrow = jobs_join_message("narrow", 1, 2);

	world.operations.fixed_lanes = fixed_256;
	narrow.lanes = 128;
	jobs_join(0, jobs_join_message("narrow", 0, 2));
	jobs_join(1, narrow);
	assert_null(jobs_admitted(0));
	jobs_assert_refused(0,
			    "only packets of 256 lanes, but the path of a rank carries only 128");
	assert_int_equal(world.jobs.n_jobs, 0);
}

JOBS_TEST(the_silence_of_a_member_ends_its_job)
{
	jobs_start(0, "a", 2);
	jobs_wait_silently(9 * SML_SECOND_NS);
	assert_int_equal(world.jobs.n_jobs, 1);
	jobs_wait_silently(1 * SML_SECOND_NS);
	assert_int_equal(world.jobs.n_jobs, 0);
	jobs_assert_refused(1, "rank 0 (host testhost, pid 1000) died");
	jobs_assert_refused(1, "it was silent");
}

JOBS_TEST(nothing_is_due_before_the_deadline)
{
	uint64_t due_ns, begun_ns;

	begun_ns = world.now_ns;
	assert_true(sml_jobs_deadline(&world.jobs) == UINT64_MAX);
	jobs_join(0, jobs_join_message("a", 0, 2));
	/* Between messages, the clock is read often enough to find pauses of the switch. */
	for (unsigned n = world.peers[0].n_said; n < 5; n = world.peers[0].n_said) {
		due_ns = sml_jobs_deadline(&world.jobs);
		assert_in_range(due_ns, world.now_ns + 1, world.now_ns + SML_BEAT_NS);
		sml_jobs_tick(&world.jobs, due_ns - 1);
		assert_int_equal(world.peers[0].n_said, n);
		sml_jobs_tick(&world.jobs, world.now_ns = due_ns);
		assert_in_range(world.peers[0].n_said, n, n + 1);
	}
	assert_in_range(world.now_ns, begun_ns + 3 * SML_SECOND_NS, begun_ns + 6 * SML_SECOND_NS);
}

/* ---- if ranks have the slots, they report what these wait for ---- */

static void ask_for_stalls(unsigned peer)
{
	jobs_say_empty(peer, SML_CONTROL__ENVELOPE__BODY_STALL_REQUEST);
}

static void report_stalls(unsigned peer)
{
	jobs_say_empty(peer, SML_CONTROL__ENVELOPE__BODY_STALL_REPORT);
}

/* 12 MB of reports that nobody had requested took 590 MB in a training process. */
WORLD_TEST(a_report_is_passed_once_for_each_question)
{
	jobs_start_embedded();
	report_stalls(0);
	assert_int_equal(jobs_count(1, SML_CONTROL__ENVELOPE__BODY_STALL_REPORT), 0);
	ask_for_stalls(1);
	for (unsigned i = 0; i < 20; i++)
		report_stalls(0);
	assert_int_equal(jobs_count(1, SML_CONTROL__ENVELOPE__BODY_STALL_REPORT), 1);
	/* The other stripe's report is passed on, too. */
	report_stalls(1);
	assert_int_equal(jobs_count(1, SML_CONTROL__ENVELOPE__BODY_STALL_REPORT), 2);
	/* The peer may ask again. */
	jobs_wait(SML_SECOND_NS);
	ask_for_stalls(1);
	report_stalls(0);
	assert_int_equal(jobs_count(1, SML_CONTROL__ENVELOPE__BODY_STALL_REPORT), 3);
}

/* A rank that has not answered the last question is not asked again. */
WORLD_TEST(a_rank_is_asked_once_at_a_time)
{
	jobs_start_embedded();
	for (unsigned i = 0; i < 5; i++) {
		ask_for_stalls(1);
		jobs_wait(SML_SECOND_NS);
	}
	assert_int_equal(jobs_count(0, SML_CONTROL__ENVELOPE__BODY_STALL_REQUEST), 1);
	report_stalls(0);
	ask_for_stalls(1);
	assert_int_equal(jobs_count(0, SML_CONTROL__ENVELOPE__BODY_STALL_REQUEST), 2);
}

WORLD_TEST(a_peer_that_does_not_read_is_told_only_what_it_must_know)
{
	static const SmlControl__Envelope__BodyCase optional[] = {
		SML_CONTROL__ENVELOPE__BODY_STALL_REPORT, SML_CONTROL__ENVELOPE__BODY_STALL_REQUEST,
		SML_CONTROL__ENVELOPE__BODY_PONG};

	jobs_start_embedded();
	world.peers[1].deaf = true;
	for (unsigned i = 0; i < 5; i++) {
		ask_for_stalls(0);
		ask_for_stalls(1);
		report_stalls(0);
		jobs_wait(SML_SECOND_NS);
	}
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(jobs_count(1, optional[i]), 0);
	jobs_leave(0);
	jobs_leave(1);
	assert_int_equal(jobs_count(1, SML_CONTROL__ENVELOPE__BODY_LEFT), 1);
}

JOBS_TEST(stopping_the_switch_is_told_to_all)
{
	jobs_start(0, "a", 2);
	sml_jobs_stop(&world.jobs, world.now_ns);
	for (unsigned rank = 0; rank < 2; rank++)
		jobs_assert_ended(rank, SML_ERROR_SWITCH_DIED, "the switch was stopped");
}

/* ---- what the operator reads ---- */

JOBS_TEST(a_job_that_fails_is_in_the_log_with_the_rank_and_the_reason)
{
	jobs_join_all(0, "dies", 2);
	jobs_hang_up(1);
	assert_string_equal(world.warning, "job \"dies\" failed: rank 1 (host testhost, pid 1001) "
					   "died: its connection ended");
	jobs_start(2, "ends", 2);
	jobs_leave(2);
	jobs_leave(3);
	assert_int_equal(world.n_warnings, 1);
}

JOBS_TEST(a_planned_change_of_the_members_is_no_warning)
{
	jobs_join_all(0, "changes", 2);
	jobs_say(0, message_abort(SML_ERROR_ABORTED, "its members change", true));
	assert_true(jobs_received(1, SML_CONTROL__ENVELOPE__BODY_ABORT)->abort->planned);
	assert_int_equal(world.n_warnings, 0);
	assert_int_equal(world.jobs.n_jobs, 0);
}

JOBS_TEST(ranks_that_made_different_calls_are_in_the_log)
{
	struct sml_mismatch mismatch = {.ranks = {0, 1}};
	SmlControl__Description described = SML_CONTROL__DESCRIPTION__INIT;

	described.text = (char *)(uintptr_t) "barrier 3";
	jobs_start(0, "differs", 2);
	mismatch.job = world.jobs.jobs[0]->pool.rules.job;
	sml_jobs_mismatch(&world.jobs, &mismatch, world.now_ns);
	jobs_say(0, sml_envelope(DESCRIPTION, description, &described));
	assert_int_equal(world.n_warnings, 0);
	jobs_wait(3 * SML_SECOND_NS);
	assert_int_equal(world.n_warnings, 1);
	assert_non_null(
		strstr(world.warning,
		       "job \"differs\" failed: ranks of job \"differs\" made "
		       "different calls: rank 0 (host testhost, pid 1000) called barrier 3; "
		       "rank 1 (host testhost, pid 1001) called (no answer)"));
}

JOBS_TEST(a_job_that_nobody_waits_for_any_more_is_in_the_log)
{
	jobs_join(0, jobs_join_message("late", 0, 3));
	jobs_join(1, jobs_join_message("late", 2, 3));
	jobs_hang_up(0);
	assert_int_equal(world.n_warnings, 0);
	jobs_wait(70 * SML_SECOND_NS);
	assert_int_equal(world.n_warnings, 1);
	assert_non_null(strstr(world.warning,
			       "job \"late\" did not begin: ranks 0 and 2 of 3 came; rank 2 (host "
			       "testhost, pid 1002) has gone: it did not wait any longer"));
}

JOBS_TEST(jobs_that_one_wrong_name_keeps_apart_are_in_the_log_with_each_other)
{
	jobs_join(0, jobs_join_message("alpha", 0, 3));
	jobs_join(1, jobs_join_message("alpha", 1, 3));
	jobs_join(2, jobs_join_message("other", 0, 2));
	jobs_join(3, jobs_join_message("alpa", 2, 3));
	jobs_leave(1);
	assert_int_equal(world.n_warnings, 0);
	jobs_leave(0);
	assert_string_equal(
		world.warning,
		"job \"alpha\" did not begin: ranks 0 and 1 of 3 came; rank 0 (host "
		"testhost, pid 1000) has gone: it left; job \"alpa\" waits for 3 ranks, "
		"too: rank 2 came there");
	/* No other job waits for as many. */
	jobs_leave(3);
	assert_string_equal(world.warning, "job \"alpa\" did not begin: rank 2 of 3 came; rank 2 "
					   "(host testhost, pid 1002) has gone: it left");
	jobs_join(4, jobs_join_message("other", 1, 2));
	assert_int_equal(world.n_warnings, 2);
}

JOBS_TEST(ranks_that_miss_each_other_are_in_the_log)
{
	jobs_join(0, jobs_join_message("late", 0, 3));
	jobs_join(1, jobs_join_message("late", 1, 3));
	jobs_leave(0);
	jobs_join(2, jobs_join_message("late", 2, 3));
	jobs_leave(1);
	jobs_leave(2);
	assert_non_null(strstr(world.warning, "ranks 0, 1 and 2 of 3 came, but not at the same "
					      "time; rank 2 "));
}

WORLD_TEST(a_refused_rank_is_in_the_log_once_however_often_it_tries)
{
	jobs_open(4096, 1, false);
	jobs_join(0, jobs_join_message("first", 0, 2));
	for (unsigned i = 1; i < 9; i++)
		jobs_join(i, jobs_join_message("second", 0, 2));
	assert_int_equal(world.n_warnings, 1);
	assert_non_null(strstr(world.warning, "rank 0 (host testhost, pid 1000) may not join job "
					      "\"second\": the switch is at its limit of 1 job"));
	jobs_wait(50 * SML_SECOND_NS);
	jobs_join(10, jobs_join_message("second", 0, 2));
	assert_int_equal(world.n_warnings, 1);
}

JOBS_TEST(a_job_that_does_not_continue_here_is_in_the_log_with_the_missing_ranks)
{
	jobs_resume(0, jobs_join_message("lost", 0, 4), 7, 7, false);
	jobs_resume(1, jobs_join_message("lost", 2, 4), 7, 7, false);
	jobs_wait(6 * SML_SECOND_NS);
	assert_string_equal(
		world.warning,
		"job \"lost\" does not continue here: ranks 1 and 3 did not come within 5 s");
}

/*
 * All jobs that a switch may have can fail together, and each is in the log. But anybody can make
 * jobs fail, which must not fill the operator's disk.
 */
JOBS_TEST(failures_cannot_fill_the_log)
{
	for (unsigned i = 0; i < SML_MAX_JOBS + 44; i++) {
		jobs_join_all(0, "again", 2);
		jobs_hang_up(0);
		jobs_hang_up(1);
	}
	assert_int_equal(world.n_warnings, SML_MAX_JOBS);
	jobs_wait(SML_SECOND_NS);
	jobs_join_all(0, "later", 2);
	jobs_hang_up(0);
	assert_int_equal(world.n_warnings, SML_MAX_JOBS + 1);
	assert_non_null(strstr(world.warning, "job \"later\" failed: rank 0"));
	assert_non_null(strstr(world.warning, "(44 more before)"));
}

/* Rank 0 has the control port, and its process tells its user itself. */
WORLD_TEST(rank_0s_own_switch_has_no_log)
{
	jobs_start_embedded();
	jobs_hang_up(1);
	assert_int_equal(world.jobs.n_jobs, 0);
	assert_int_equal(world.n_warnings, 0);
}
