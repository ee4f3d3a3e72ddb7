/* SPDX-License-Identifier: BSD-3-Clause */
/* What makes room at a switch that is full, and for whom (job/join/room.c). */
#include <stdio.h>

#include "support/test.h"
#include "support/tree.h"

static void resume(struct jobs_world *world, unsigned peer, const char *job, uint32_t rank,
		   uint64_t membership)
{
	jobs_resume(world, peer, jobs_join_message(job, rank, 2), membership, 0, false);
}

/* Half-joined jobs of other names, one for each peer from `first` on. */
static void squat(struct jobs_world *world, unsigned first, unsigned n)
{
	char name[16];

	for (unsigned i = first; i < first + n; i++) {
		snprintf(name, sizeof(name), "squat%u", i);
		jobs_join(world, i, jobs_join_message(name, 0, 2));
		jobs_wait(world, SML_TICK_NS);
	}
}

static void assert_goes_on(struct jobs_world *world, unsigned first)
{
	resume(world, first, "job", 0, 77);
	resume(world, first + 1, "job", 1, 77);
	assert_string_equal(jobs_refusal(world, first), "");
	assert_non_null(jobs_admitted(world, first));
	assert_non_null(jobs_admitted(world, first + 1));
}

static unsigned count_ended(const struct jobs_world *world, unsigned first, unsigned n)
{
	unsigned n_ended = 0;

	for (unsigned i = first; i < first + n; i++)
		n_ended += world->peers[i].ended;
	return n_ended;
}

WORLD_TEST(half_joined_jobs_make_room_for_one_that_resumes)
{
	jobs_open(world, 4096, 4, false);
	squat(world, 10, 4);
	assert_goes_on(world, 0);
	/* Only one has to go, and it is the one that has waited longest. */
	assert_int_equal(count_ended(world, 10, 4), 1);
	jobs_assert_refused(world, 10,
			    "another job \"job\", which has lost its switch, continues here");
}

WORLD_TEST(they_make_room_in_the_pool_too)
{
	/* Four jobs that gather hold ten slots each. */
	jobs_open(world, 40, 64, false);
	squat(world, 10, 4);
	assert_goes_on(world, 0);
	assert_true(count_ended(world, 10, 4) >= 1);
}

JOBS_TEST(they_make_room_for_its_connections_too)
{
	world->jobs.config.max_members = 4;
	squat(world, 10, 4);
	assert_goes_on(world, 0);
	assert_int_equal(count_ended(world, 10, 4), 2);
}

WORLD_TEST(a_job_that_begins_displaces_nobody)
{
	jobs_open(world, 4096, 4, false);
	squat(world, 10, 4);
	jobs_join(world, 0, jobs_join_message("new", 0, 2));
	jobs_assert_ended(world, 0, SML_ERROR_REFUSED,
			  "at its limit of 4 jobs: wait for one to end, or start the switch with "
			  "more --jobs");
	assert_int_equal(count_ended(world, 10, 4), 0);
}

WORLD_TEST(a_job_that_has_begun_makes_room_for_nobody)
{
	jobs_open(world, 4096, 1, false);
	jobs_start(world, 10, "runs", 2);
	resume(world, 0, "job", 0, 77);
	jobs_assert_refused(world, 0, "at its limit of 1 job");
	assert_int_equal(count_ended(world, 10, 2), 0);
}

/* A report proves nothing: strangers may say that they resume, too. */
WORLD_TEST(who_only_says_that_it_resumes_makes_room_after_a_second)
{
	jobs_open(world, 4096, 2, false);
	resume(world, 10, "fake", 0, 1001);
	resume(world, 11, "fake", 0, 1002);
	resume(world, 0, "job", 0, 77);
	jobs_assert_refused(world, 0, "at its limit of 2 jobs");
	jobs_wait(world, SML_SECOND_NS);
	assert_goes_on(world, 1);
	assert_int_equal(count_ended(world, 10, 2), 1);
	/* It may have been honest: then it looks for a switch again. */
	assert_null(jobs_received(world, 10, SML_CONTROL__ENVELOPE__BODY_ABORT));
}

WORLD_TEST(a_job_that_resumes_does_not_displace_itself)
{
	jobs_open(world, 4096, 1, false);
	resume(world, 0, "job", 0, 77);
	jobs_wait(world, 2 * SML_SECOND_NS);
	resume(world, 1, "job", 1, 77);
	assert_non_null(jobs_admitted(world, 0));
	assert_non_null(jobs_admitted(world, 1));
}

/* ---- leaves ---- */

JOBS_TEST(leaves_without_ranks_make_room_for_ranks)
{
	world->jobs.config.max_members = 4;
	for (unsigned i = 0; i < 4; i++)
		tree_attach(world, 10 + i, 4096);
	jobs_join_all(world, 0, "job", 2);
	assert_non_null(jobs_admitted(world, 1));
	assert_true(world->peers[10].ended && world->peers[11].ended);
	assert_false(world->peers[12].ended || world->peers[13].ended);
}

JOBS_TEST(a_leaf_with_ranks_stays)
{
	world->jobs.config.max_members = 1;
	tree_attach(world, 10, 4096);
	tree_relay_join(world, 10, 70, 0, 3);
	jobs_join(world, 0, jobs_join_message("tree", 1, 3));
	jobs_assert_refused(world, 0, "at its limit of 1 rank");
	assert_false(world->peers[10].ended);
}

/* It has died after it had asked to leave, and the job goes on with the leaf's slots. */
JOBS_TEST(a_leaf_stays_while_a_job_that_has_begun_has_slots_there)
{
	world->jobs.config.max_members = 2;
	tree_attach(world, 10, 4096);
	tree_relay_join(world, 10, 70, 0, 2);
	jobs_join(world, 0, jobs_join_message("tree", 1, 2));
	tree_relay_ready(world, 10, 70);
	jobs_ready(world, 0);
	tree_leaf_ready(world, 10, 352);
	tree_relay_empty(world, 10, 70, SML_CONTROL__ENVELOPE__BODY_LEAVE);
	tree_relay_end(world, 10, 70, false);
	jobs_join(world, 1, jobs_join_message("new", 0, 2));
	tree_attach(world, 11, 4096);
	jobs_assert_refused(world, 1, "at its limit of 2 ranks");
	jobs_assert_refused(world, 11, "at its limit of 2 ranks");
	assert_false(world->peers[10].ended || world->peers[0].ended);
}

JOBS_TEST(a_leaf_without_ranks_makes_room_for_another_leaf)
{
	world->jobs.config.max_members = 2;
	for (unsigned i = 0; i < 3; i++)
		tree_attach(world, 10 + i, 4096);
	assert_true(world->peers[10].ended);
	assert_non_null(jobs_received(world, 12, SML_CONTROL__ENVELOPE__BODY_ATTACHED));
}

/*
 * Who says that it is a leaf and then nothing more has a limit of time. A real leaf has nothing to
 * say either, but it says so, as long as it has a parent.
 */
JOBS_TEST(a_leaf_without_ranks_stays_only_as_long_as_it_is_heard)
{
	tree_attach(world, 10, 4096);
	tree_attach(world, 11, 4096);
	for (unsigned i = 0; i < 30; i++) {
		jobs_wait_silently(world, SML_SECOND_NS);
		if (i == 8)
			assert_false(world->peers[10].ended);
		jobs_say_empty(world, 11, SML_CONTROL__ENVELOPE__BODY_PING);
	}
	assert_true(world->peers[10].ended);
	assert_false(world->peers[11].ended);
}
