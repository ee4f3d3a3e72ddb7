/* SPDX-License-Identifier: BSD-3-Clause */
/* What makes room at a switch that is full, and for whom (job/join/room.c). */
#include <stdio.h>

#include "support/test.h"
#include "support/tree.h"

static void resume(unsigned peer, const char *job, uint32_t rank, uint64_t membership)
{
	jobs_resume(peer, jobs_join_message(job, rank, 2), membership, 0, false);
}

/* Half-joined jobs of other names, one for each peer from `first` on. */
static void squat(unsigned first, unsigned n)
{
	char name[16];

	for (unsigned i = first; i < first + n; i++) {
		snprintf(name, sizeof(name), "squat%u", i);
		jobs_join(i, jobs_join_message(name, 0, 2));
		jobs_wait(SML_TICK_NS);
	}
}

static void assert_goes_on(unsigned first)
{
	resume(first, "job", 0, 77);
	resume(first + 1, "job", 1, 77);
	assert_string_equal(jobs_refusal(first), "");
	assert_non_null(jobs_admitted(first));
	assert_non_null(jobs_admitted(first + 1));
}

static unsigned count_ended(unsigned first, unsigned n)
{
	unsigned n_ended = 0;

	for (unsigned i = first; i < first + n; i++)
		n_ended += world.peers[i].ended;
	return n_ended;
}

WORLD_TEST(half_joined_jobs_make_room_for_one_that_resumes)
{
	jobs_open(4096, 4, false);
	squat(10, 4);
	assert_goes_on(0);
	/* Only one has to go, and it is the one that has waited longest. */
	assert_int_equal(count_ended(10, 4), 1);
	jobs_assert_refused(10, "another job \"job\", which has lost its switch, continues here");
}

WORLD_TEST(they_make_room_in_the_pool_too)
{
	/* Four jobs that gather hold ten slots each. */
	jobs_open(40, 64, false);
	squat(10, 4);
	assert_goes_on(0);
	assert_true(count_ended(10, 4) >= 1);
}

JOBS_TEST(they_make_room_for_its_connections_too)
{
	world.jobs.config.max_members = 4;
	squat(10, 4);
	assert_goes_on(0);
	assert_int_equal(count_ended(10, 4), 2);
}

WORLD_TEST(a_job_that_begins_displaces_nobody)
{
	jobs_open(4096, 4, false);
	squat(10, 4);
	jobs_join(0, jobs_join_message("new", 0, 2));
	jobs_assert_ended(0, SML_ERROR_REFUSED,
			  "at its limit of 4 jobs: wait for one to end, or start the switch with "
			  "more --jobs");
	assert_int_equal(count_ended(10, 4), 0);
}

WORLD_TEST(a_job_that_has_begun_makes_room_for_nobody)
{
	jobs_open(4096, 1, false);
	jobs_start(10, "runs", 2);
	resume(0, "job", 0, 77);
	jobs_assert_refused(0, "at its limit of 1 job");
	assert_int_equal(count_ended(10, 2), 0);
}

/* A report proves nothing: strangers may say that they resume, too. */
WORLD_TEST(who_only_says_that_it_resumes_makes_room_after_a_second)
{
	jobs_open(4096, 2, false);
	resume(10, "fake", 0, 1001);
	resume(11, "fake", 0, 1002);
	resume(0, "job", 0, 77);
	jobs_assert_refused(0, "at its limit of 2 jobs");
	jobs_wait(SML_SECOND_NS);
	assert_goes_on(1);
	assert_int_equal(count_ended(10, 2), 1);
	/* It may have been honest: then it looks for a switch again. */
	assert_null(jobs_received(10, SML_CONTROL__ENVELOPE__BODY_ABORT));
}

WORLD_TEST(a_job_that_resumes_does_not_displace_itself)
{
	jobs_open(4096, 1, false);
	resume(0, "job", 0, 77);
	jobs_wait(2 * SML_SECOND_NS);
	resume(1, "job", 1, 77);
	assert_non_null(jobs_admitted(0));
	assert_non_null(jobs_admitted(1));
}

/* ---- leaves ---- */

JOBS_TEST(leaves_without_ranks_make_room_for_ranks)
{
	world.jobs.config.max_members = 4;
	for (unsigned i = 0; i < 4; i++)
		tree_attach(10 + i, 4096);
	jobs_join_all(0, "job", 2);
	assert_non_null(jobs_admitted(1));
	assert_true(world.peers[10].ended && world.peers[11].ended);
	assert_false(world.peers[12].ended || world.peers[13].ended);
}

JOBS_TEST(a_leaf_with_ranks_stays)
{
	world.jobs.config.max_members = 1;
	tree_attach(10, 4096);
	tree_relay_join(10, 70, 0, 3);
	jobs_join(0, jobs_join_message("tree", 1, 3));
	jobs_assert_refused(0, "at its limit of 1 rank");
	assert_false(world.peers[10].ended);
}

/* It has died after it had asked to leave, and the job goes on with the leaf's slots. */
JOBS_TEST(a_leaf_stays_while_a_job_that_has_begun_has_slots_there)
{
	world.jobs.config.max_members = 2;
	tree_run_two(10, 0);
	tree_relay_empty(10, 70, SML_CONTROL__ENVELOPE__BODY_LEAVE);
	tree_relay_end(10, 70, false);
	jobs_join(1, jobs_join_message("new", 0, 2));
	tree_attach(11, 4096);
	jobs_assert_refused(1, "at its limit of 2 ranks");
	jobs_assert_refused(11, "at its limit of 2 ranks");
	assert_false(world.peers[10].ended || world.peers[0].ended);
}

JOBS_TEST(a_leaf_without_ranks_makes_room_for_another_leaf)
{
	world.jobs.config.max_members = 2;
	for (unsigned i = 0; i < 3; i++)
		tree_attach(10 + i, 4096);
	assert_true(world.peers[10].ended);
	assert_non_null(jobs_received(12, SML_CONTROL__ENVELOPE__BODY_ATTACHED));
}

/*
 * Who says that it is a leaf and then nothing more has a limit of time. A real leaf has nothing to
 * say either, but it says so, as long as it has a parent.
 */
JOBS_TEST(a_leaf_without_ranks_stays_only_as_long_as_it_is_heard)
{
	tree_attach(10, 4096);
	tree_attach(11, 4096);
	for (unsigned i = 0; i < 30; i++) {
		jobs_wait_silently(SML_SECOND_NS);
		if (i == 8)
			assert_false(world.peers[10].ended);
		jobs_say_empty(11, SML_CONTROL__ENVELOPE__BODY_PING);
	}
	assert_true(world.peers[10].ended);
	assert_false(world.peers[11].ended);
}
