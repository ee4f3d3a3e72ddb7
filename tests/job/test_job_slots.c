/* SPDX-License-Identifier: BSD-3-Clause */
/* How jobs share a switch's slots. */
#include <stdio.h>
#include <string.h>

#include "support/jobs.h"
#include "support/test.h"

static uint32_t slots_of(unsigned peer)
{
	const SmlControl__Admitted *admitted = jobs_admitted(peer);

	return admitted ? admitted->head_slots + admitted->data_slots : 0;
}

JOBS_TEST(jobs_that_gather_hold_few_slots)
{
	char name[8];

	/*
	 * 14 jobs of three ranks: first all first ranks, then all second ranks, then all third
	 * ranks.
	 */
	for (uint32_t rank = 0; rank < 3; rank++)
		for (unsigned job = 0; job < 14; job++) {
			snprintf(name, sizeof(name), "job%u", job);
			jobs_join(3 * job + rank, jobs_join_message(name, rank, 3));
			assert_string_equal(jobs_refusal(3 * job + rank), "");
		}
	for (unsigned job = 0; job < 14; job++) {
		/* Every job has at least half of an equal share. */
		assert_true(slots_of(3 * job) >= 4096 / 14 / 2);
		assert_int_equal(slots_of(3 * job), slots_of(3 * job + 2));
	}
	assert_true(world.jobs.slots_in_use <= 4096);
}

JOBS_TEST(a_job_alone_gets_all_that_it_wants)
{
	SmlControl__Join join = jobs_join_message("wide", 0, 1);

	jobs_join(0, jobs_join_message("a", 0, 1));
	assert_int_equal(slots_of(0), 64 + 256);
	join.lanes = 832;
	jobs_join(1, join);
	/* 384 KiB of longer packets, and no fewer than 64. */
	assert_int_equal(slots_of(1), 64 + (384 << 10) / (40 + 4 * 832));
	join = jobs_join_message("jumbo", 0, 1);
	join.lanes = 2208;
	jobs_join(2, join);
	assert_int_equal(slots_of(2), 64 + 64);
}

/* The only rank of a job of this number joins. */
static void join_alone(unsigned job)
{
	char name[8];

	snprintf(name, sizeof(name), "job%u", job);
	jobs_join(job, jobs_join_message(name, 0, 1));
}

JOBS_TEST(eleven_jobs_get_all_that_they_want)
{
	for (unsigned job = 0; job < 12; job++) {
		join_alone(job);
		if (job < 11)
			assert_int_equal(slots_of(job), 64 + 256);
		else
			assert_in_range(slots_of(job), 10, 64 + 255);
	}
}

JOBS_TEST(jobs_that_came_early_leave_room_for_more)
{
	for (unsigned job = 0; job < 50; job++) {
		join_alone(job);
		assert_true(slots_of(job) >= 10);
	}
}

JOBS_TEST(slots_in_pieces_are_taken_in_pieces)
{
	world.plane.most_slots = 100;
	jobs_join(0, jobs_join_message("a", 0, 1));
	assert_in_range(slots_of(0), 51, 100);
	assert_int_equal(world.jobs.slots_in_use, slots_of(0));
	jobs_leave(0);
	world.plane.most_slots = 5;
	jobs_join(1, jobs_join_message("b", 0, 1));
	jobs_assert_refused(1, "in pieces");
	assert_int_equal(world.jobs.slots_in_use, 0);
}

/* Of four head slots and sixteen data slots. */
static SmlControl__Join join_of_20(const char *job, uint32_t rank)
{
	SmlControl__Join join = jobs_join_message(job, rank, 2);

	join.head_slots = 4;
	join.data_slots = 16;
	return join;
}

WORLD_TEST(full_pool_says_who_has_it)
{
	jobs_open(24, 64, false);
	for (uint32_t rank = 0; rank < 2; rank++)
		jobs_join(rank, join_of_20("early", rank));
	jobs_join(2, join_of_20("late", 0));
	jobs_assert_ended(2, SML_ERROR_REFUSED, "pool is full: job \"late\" needs at least ");
	jobs_assert_refused(2, "\"early\" 20");
	jobs_assert_refused(2, "--slots");
	/* The slots are free again after the job's end, and so is its name. */
	jobs_hang_up(0);
	jobs_assert_ended(1, SML_ERROR_RANK_DIED, "rank 0");
	for (uint32_t rank = 0; rank < 2; rank++)
		jobs_join(3 + rank, join_of_20("early", rank));
	assert_int_equal(slots_of(4), 20);
	jobs_ready(3);
	jobs_ready(4);
	assert_non_null(jobs_received(4, SML_CONTROL__ENVELOPE__BODY_START));
}

WORLD_TEST(slots_shrink_to_what_the_pool_has)
{
	SmlControl__Join join = jobs_join_message("shrink", 0, 1);

	jobs_open(24, 64, false);
	join.head_slots = 100;
	join.data_slots = UINT32_MAX;
	jobs_join(0, join);
	assert_int_equal(slots_of(0), 24);
}

WORLD_TEST(no_job_has_more_slots_than_a_packet_can_name)
{
	SmlControl__Join join = jobs_join_message("huge", 0, 1);

	jobs_open(1u << 20, 64, false);
	join.head_slots = 70000;
	join.data_slots = 70000;
	join.lanes = 32;
	jobs_join(0, join);
	assert_true(slots_of(0) <= SML_MAX_SLOTS);
	assert_int_equal(world.jobs.slots_in_use, slots_of(0));
}

WORLD_TEST(want_of_room_is_not_the_end_of_a_job_that_resumes)
{
	const SmlControl__Envelope *told;

	jobs_open(16, 64, false);
	jobs_join(0, jobs_join_message("first", 0, 1));
	assert_int_equal(slots_of(0), 16);
	jobs_resume(1, jobs_join_message("second", 0, 1), 77, 0, false);
	told = jobs_received(1, SML_CONTROL__ENVELOPE__BODY_ABORT);
	assert_non_null(told);
	assert_non_null(strstr(told->abort->text, "pool is full"));
	assert_true(told->abort->again);
	/* There is room again, and the job may come again. */
	jobs_hang_up(0);
	jobs_resume(2, jobs_join_message("second", 0, 1), 77, 0, false);
	assert_int_equal(slots_of(2), 16);
	/* A job that got few slots gets more in its next epoch. */
	jobs_hang_up(2);
	world.jobs.config.max_slots = 4096;
	jobs_resume(3, jobs_join_message("second", 0, 1), 77, 0, false);
	assert_int_equal(slots_of(3), 64 + 256);
}

/* The slots of ended jobs are free in a moment: no job is refused, and none is served before. */
JOBS_TEST(a_job_waits_for_what_ended_jobs_held)
{
	world.plane.has_no_room_yet = true;
	jobs_join_all(0, "a", 2);
	jobs_resume(2, jobs_join_message("b", 0, 1), 77, 0, false);
	jobs_wait(3 * SML_TICK_NS);
	for (unsigned peer = 0; peer < 3; peer++) {
		assert_null(jobs_admitted(peer));
		assert_string_equal(jobs_refusal(peer), "");
	}
	world.plane.has_no_room_yet = false;
	jobs_wait(SML_TICK_NS);
	for (unsigned peer = 0; peer < 3; peer++)
		assert_int_equal(slots_of(peer), 64 + 256);
	assert_int_equal(jobs_admitted(0)->epoch, 1);
	assert_int_equal(jobs_admitted(2)->epoch, 2);
}

/* All ranks have come, so a death is an error, as it is a moment later. */
JOBS_TEST(who_dies_meanwhile_ends_the_job)
{
	world.plane.has_no_room_yet = true;
	jobs_join_all(0, "a", 2);
	jobs_hang_up(1);
	jobs_assert_refused(0, "rank 1 (host testhost, pid 1001) died");
	assert_int_equal(world.jobs.n_jobs, 0);
}

/* Not what it wants, which others could have in the meantime. */
WORLD_TEST(while_a_job_waits_it_holds_what_it_has_reserved)
{
	SmlControl__Join join = jobs_join_message("a", 0, 2);

	jobs_open(40, 64, false);
	world.plane.has_no_room_yet = true;
	join.head_slots = 2;
	join.data_slots = 8;
	join.shards = SML_MAX_SHARDS;
	jobs_join(0, join);
	join.rank = 1;
	join.shards = 1;
	jobs_join(1, join);
	assert_int_equal(world.jobs.slots_in_use, 2 * SML_MAX_SHARDS);
	jobs_join(2, jobs_join_message("b", 0, 1));
	jobs_assert_refused(2, "the switch's pool is full");
	world.plane.has_no_room_yet = false;
	jobs_wait(SML_TICK_NS);
	assert_int_equal(slots_of(0), 2 + 8);
	assert_int_equal(jobs_admitted(1)->shards, 1);
}
