/* SPDX-License-Identifier: BSD-3-Clause */
/* How a job ends for its ranks: an error that is passed on, and ranks that die as they leave. */
#include <string.h>

#include "control/envelope.h"
#include "support/jobs.h"
#include "support/test.h"
#include "switchml.h"

static void begin(uint32_t n)
{
	jobs_open(4096, 64, false);
	jobs_start(0, "a", n);
}

WORLD_TEST(leaving_is_a_barrier)
{
	begin(3);
	jobs_leave(0);
	jobs_leave(1);
	assert_null(jobs_received(1, SML_CONTROL__ENVELOPE__BODY_LEFT));
	/* A rank that has asked to leave may go: it is not dead, and the others' barrier goes on.
	 */
	jobs_hang_up(1);
	assert_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_LEFT));
	assert_string_equal(jobs_refusal(2), "");
	jobs_leave(2);
	assert_non_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_LEFT));
	assert_non_null(jobs_received(2, SML_CONTROL__ENVELOPE__BODY_LEFT));
	jobs_join_all(3, "a", 3);
	assert_non_null(jobs_admitted(3));
}

WORLD_TEST(death_by_a_closed_connection_names_the_rank)
{
	begin(3);
	jobs_hang_up(2);
	for (unsigned i = 0; i < 2; i++) {
		const SmlControl__Abort *abort =
			jobs_received(i, SML_CONTROL__ENVELOPE__BODY_ABORT)->abort;

		assert_int_equal(abort->error, SML_ERROR_RANK_DIED);
		assert_non_null(strstr(abort->text, "rank 2 (host testhost, pid 1002) died"));
		assert_non_null(strstr(abort->text, "its connection ended"));
		/* It may go on in a next membership. */
		assert_false(world.peers[i].ended);
	}
	jobs_join_all(3, "a", 3);
	assert_non_null(jobs_admitted(3));
}

static const SmlControl__Abort *told_of_abort(int error, bool told, const char *text)
{
	SmlControl__Abort message = SML_CONTROL__ABORT__INIT;

	begin(3);
	message.error = error;
	message.text = (char *)(uintptr_t)text;
	message.told = told;
	jobs_say(1, sml_envelope(ABORT, abort, &message));
	jobs_hang_up(1);
	return jobs_received(0, SML_CONTROL__ENVELOPE__BODY_ABORT)->abort;
}

WORLD_TEST(what_another_switch_has_told_is_passed_on_unchanged)
{
	const SmlControl__Abort *abort =
		told_of_abort(SML_ERROR_RANK_DIED, true, "rank 2 is frozen");

	assert_int_equal(abort->error, SML_ERROR_RANK_DIED);
	assert_string_equal(abort->text, "rank 2 is frozen");
	jobs_close();
	abort = told_of_abort(SML_ERROR_RANK_DIED, false, "loss is NaN\x1b[31m");
	assert_int_equal(abort->error, SML_ERROR_ABORTED);
	assert_non_null(strstr(abort->text, "rank 1 (host testhost, pid 1001) aborted the job"));
	assert_non_null(strstr(abort->text, "loss is NaN?[31m"));
	jobs_close();
	/* No error at all is not one of a switch. */
	abort = told_of_abort(0, true, "rank 2 is frozen");
	assert_int_equal(abort->error, SML_ERROR_ABORTED);
}

WORLD_TEST(who_waits_for_a_rank_that_died_as_it_left_is_told)
{
	begin(3);
	jobs_leave(1);
	jobs_hang_up(1);
	/* The others finish, as long as no slot waits for this rank. */
	world.plane.slots_lack = 1 << 2;
	jobs_wait(3 * SML_SECOND_NS);
	assert_int_equal(world.jobs.n_jobs, 1);
	world.plane.slots_lack = 1 << 1;
	jobs_wait(SML_SECOND_NS);
	jobs_assert_refused(0, "rank 1 (host testhost, pid 1001) died after");
	jobs_assert_refused(2, "a call that it did not make");
}

WORLD_TEST(the_others_leave_without_a_rank_that_died_as_it_left)
{
	begin(2);
	jobs_leave(1);
	jobs_hang_up(1);
	jobs_wait(3 * SML_SECOND_NS);
	jobs_leave(0);
	assert_non_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_LEFT));
}

/*
 * Its last words may still be on the way: an answer about stalls, or a Leave because it waited for
 * too long. A stranger may not say them, so the connection ends with Left.
 */
static void assert_has_left(unsigned peer)
{
	assert_non_null(jobs_received(peer, SML_CONTROL__ENVELOPE__BODY_LEFT));
	assert_true(world.peers[peer].ended);
}

WORLD_TEST(the_connection_of_a_rank_that_has_left_is_over)
{
	begin(2);
	jobs_leave(0);
	jobs_leave(1);
	assert_has_left(0);
	assert_has_left(1);
	/* Others have not come, or nothing goes on. */
	jobs_join(2, jobs_join_message("b", 0, 2));
	jobs_leave(2);
	assert_has_left(2);
	jobs_resume(3, jobs_join_message("c", 1, 2), 1, 77, false);
	jobs_leave(3);
	assert_has_left(3);
	jobs_resume(4, jobs_join_message("d", 1, 2), 1, 78, true);
	jobs_wait(6 * SML_SECOND_NS);
	assert_has_left(4);
}

/* The last results of its stripe disappear with it. */
WORLD_TEST(a_stripe_that_dies_as_its_rank_leaves_is_told)
{
	jobs_start_embedded();
	jobs_leave(1);
	jobs_hang_up(1);
	jobs_assert_refused(0, "rank 1 (host testhost, pid 1001) died as it left, and stripe 1");
}

/* Its process lives, and does not want to be in this job any more. */
JOBS_TEST(a_rank_that_leaves_before_the_job_has_begun_has_not_died)
{
	jobs_join(0, jobs_join_message("a", 0, 2));
	jobs_leave(0);
	assert_non_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_LEFT));
	jobs_hang_up(0);
	assert_int_equal(world.jobs.n_jobs, 0);
	assert_int_equal(world.jobs.slots_in_use, 0);
	/* All have come in the meantime. */
	jobs_join_all(1, "a", 2);
	jobs_leave(2);
	jobs_hang_up(2);
	jobs_assert_refused(1, "rank 1 (host testhost, pid 1001) left");
	assert_int_equal(jobs_received(1, SML_CONTROL__ENVELOPE__BODY_ABORT)->abort->error,
			 SML_ERROR_ABORTED);
}
