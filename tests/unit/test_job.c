/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of jobs at a switch, without sockets and with a clock that the test moves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "control/envelope.h"
#include "support/jobs.h"

static void a_job_begins_runs_and_ends(void **state)
{
	struct jobs_world world;

	(void)state;
	jobs_open(&world, 4096, 64, false);
	jobs_join_all(&world, 0, "a", 2);
	assert_non_null(jobs_admitted(&world, 0));
	assert_int_not_equal(jobs_admitted(&world, 0)->cookie, jobs_admitted(&world, 1)->cookie);
	jobs_ready(&world, 0);
	assert_null(jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_START));
	jobs_ready(&world, 1);
	assert_int_equal(jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_START)->start->lanes,
			 352);
	jobs_wait(&world, 100 * SML_SECOND_NS);
	jobs_leave(&world, 0);
	assert_null(jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_LEFT));
	jobs_leave(&world, 1);
	assert_non_null(jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_LEFT));
	assert_int_equal(world.jobs.n_jobs, 0);
	assert_int_equal(world.jobs.slots_in_use, 0);
	jobs_close(&world);
}

static void the_silence_of_a_member_ends_its_job(void **state)
{
	struct jobs_world world;

	(void)state;
	jobs_open(&world, 4096, 64, false);
	jobs_join_all(&world, 0, "a", 2);
	jobs_ready(&world, 0);
	jobs_ready(&world, 1);
	jobs_wait_silently(&world, 9 * SML_SECOND_NS);
	assert_int_equal(world.jobs.n_jobs, 1);
	jobs_wait_silently(&world, 1 * SML_SECOND_NS);
	assert_int_equal(world.jobs.n_jobs, 0);
	assert_non_null(strstr(jobs_refusal(&world, 1), "rank 0 (host host, pid 100) died"));
	jobs_close(&world);
}

static void nothing_is_due_before_the_deadline(void **state)
{
	struct jobs_world world;
	uint64_t due_ns;

	(void)state;
	jobs_open(&world, 4096, 64, false);
	assert_true(sml_jobs_deadline(&world.jobs) == UINT64_MAX);
	jobs_join(&world, 0, jobs_join_message("a", 0, 2));
	for (unsigned i = 0; i < 5; i++) {
		unsigned before = world.peers[0].n_said;

		due_ns = sml_jobs_deadline(&world.jobs);
		assert_true(due_ns > world.now_ns);
		sml_jobs_tick(&world.jobs, due_ns - 1);
		assert_int_equal(world.peers[0].n_said, before);
		sml_jobs_tick(&world.jobs, world.now_ns = due_ns);
		assert_int_equal(world.peers[0].n_said, before + 1);
	}
	jobs_close(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_begins_runs_and_ends),
		cmocka_unit_test(the_silence_of_a_member_ends_its_job),
		cmocka_unit_test(nothing_is_due_before_the_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
