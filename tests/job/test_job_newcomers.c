/* SPDX-License-Identifier: BSD-3-Clause */
/* Who may join a job, as which rank, and with how many slots and lanes. */
#include <string.h>

#include "control/envelope.h"
#include "support/jobs.h"
#include "support/test.h"
#include "switchml.h"

static SmlControl__Join join_of(const char *job, uint32_t rank, uint32_t world_size)
{
	SmlControl__Join join = jobs_join_message(job, rank, world_size);

	join.head_slots = 4;
	join.data_slots = 16;
	return join;
}

static uint32_t slots_of(const struct jobs_world *world, unsigned peer)
{
	return jobs_admitted(world, peer)->head_slots + jobs_admitted(world, peer)->data_slots;
}

/* The peer has this error, whose text has these parts, and its connection ends. */
static void check_refused(const struct jobs_world *world, unsigned peer, int error,
			  const char *const *parts, unsigned n)
{
	const SmlControl__Envelope *told =
		jobs_received(world, peer, SML_CONTROL__ENVELOPE__BODY_ABORT);

	assert_non_null(told);
	assert_int_equal(told->abort->error, error);
	for (unsigned i = 0; i < n; i++)
		assert_non_null(strstr(told->abort->text, parts[i]));
	assert_true(world->peers[peer].ended);
}

JOBS_TEST(waiting_names_the_missing)
{
	const SmlControl__Waiting *waiting;

	jobs_join(world, 0, join_of("waiting", 1, 3));
	jobs_wait(world, SML_SECOND_NS);
	waiting = jobs_received(world, 0, SML_CONTROL__ENVELOPE__BODY_WAITING)->waiting;
	assert_int_equal(waiting->n_missing, 2);
	assert_int_equal(waiting->missing[0], 0);
	assert_int_equal(waiting->missing[1], 2);
}

JOBS_TEST(lanes_are_the_least_that_all_have)
{
	static const uint32_t joins[] = {2208, 500}, probes[] = {260, 480};
	SmlControl__Ready ready = SML_CONTROL__READY__INIT;

	for (uint32_t rank = 0; rank < 2; rank++) {
		SmlControl__Join join = join_of("lanes", rank, 2);

		join.lanes = joins[rank];
		jobs_join(world, rank, join);
	}
	for (uint32_t rank = 0; rank < 2; rank++) {
		assert_int_equal(jobs_admitted(world, rank)->lanes, 480);
		ready.lanes = probes[rank];
		jobs_say(world, rank, sml_envelope(READY, ready, &ready));
	}
	for (uint32_t rank = 0; rank < 2; rank++)
		assert_int_equal(
			jobs_received(world, rank, SML_CONTROL__ENVELOPE__BODY_START)->start->lanes,
			256);
}

/*
 * Number i: rank 1 joins like this after rank 0 of "differ", of three. The job ends for both, and
 * its name is free again.
 */
static void check_disagreement(struct jobs_world *world, unsigned i, SmlControl__Join join,
			       int error, const char *word, const char *one, const char *other)
{
	const char *parts[] = {"rank 0", "rank 1", word, one, other};

	jobs_join(world, 2 * i, join_of("differ", 0, 3));
	jobs_join(world, 2 * i + 1, join);
	for (unsigned peer = 2 * i; peer < 2 * i + 2; peer++)
		check_refused(world, peer, error, parts, 5);
}

JOBS_TEST(a_disagreement_ends_the_job_for_both)
{
	SmlControl__Join join = join_of("differ", 1, 4);

	check_disagreement(world, 0, join, SML_ERROR_MISMATCH, "world_size", "says 4", "says 3");
	join = join_of("differ", 1, 3);
	join.shards = 2;
	join.shards_set = true;
	check_disagreement(world, 1, join, SML_ERROR_MISMATCH, "SWITCHML_THREADS", "says 2",
			   "says 1");
	join = join_of("differ", 1, 3);
	join.data_slots = 99;
	check_disagreement(world, 2, join, SML_ERROR_MISMATCH, "data slots", "says 99", "says 16");
	join = join_of("differ", 1, 3);
	join.stripes = 2;
	check_disagreement(world, 3, join, SML_ERROR_MISMATCH, "stripes", "says 2", "says 1");
	join = join_of("differ", 1, 3);
	join.no_tickets = true;
	check_disagreement(world, 4, join, SML_ERROR_MISMATCH, "tickets", "says 1", "says 0");
	join = join_of("differ", 1, 3);
	join.library_version = (char *)(uintptr_t) "9.9.9";
	check_disagreement(world, 5, join, SML_ERROR_MISMATCH, "librar", "9.9.9", "0.1.0");
	join = join_of("differ", 1, 3);
	join.protocol = 77;
	check_disagreement(world, 6, join, SML_ERROR_VERSION, "protocol", "77", "1");
}

JOBS_TEST(own_mistake_is_refused_to_the_newcomer_alone)
{
	static const struct {
		uint32_t rank, world_size, shards;
		const char *job, *word;
	} rows[] = {
		{2, 2, 1, "mistake", "not below world_size 2"},
		{0, 4097, 1, "mistake", "world_size 4097"},
		{0, 0, 1, "mistake", "world_size 0"},
		{0, 2, 0, "mistake", "shards"},
		{0, 2, 17, "mistake", "shards"},
		{0, 2, 1, "", "name"},
		{0, 2, 1, "two\nlines", "name"},
	};

	jobs_join(world, 0, join_of("mistake", 0, 2));
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		SmlControl__Join join = join_of(rows[i].job, rows[i].rank, rows[i].world_size);

		join.shards = rows[i].shards;
		jobs_join(world, 1 + i, join);
		check_refused(world, 1 + i, SML_ERROR_REFUSED, &rows[i].word, 1);
	}
	assert_string_equal(jobs_refusal(world, 0), "");
}

JOBS_TEST(taken_rank_is_refused_to_the_newcomer_alone)
{
	const char *parts[] = {"rank 1 of job \"taken\" is taken", "testhost", "pid 1001"};
	uint32_t number;

	jobs_join_all(world, 0, "taken", 2);
	jobs_ready(world, 0);
	jobs_ready(world, 1);
	jobs_join(world, 2, join_of("taken", 1, 2));
	check_refused(world, 2, SML_ERROR_REFUSED, parts, 3);
	/* The job runs on, also where numbers are added. */
	for (unsigned peer = 0; peer < 2; peer++) {
		assert_true(sml_peer_runs(&world->peers[peer].peer));
		assert_string_equal(jobs_refusal(world, peer), "");
	}
	number = jobs_admitted(world, 0)->job_number;
	assert_int_equal(world->served[number % SML_MAX_JOBS].n_ranks, 2);
}

WORLD_TEST(full_pool_says_who_has_it)
{
	const char *parts[] = {"full", "\"early\" 20", "--slots"}, *died = "rank 0";

	jobs_open(world, 24, 64, false);
	for (uint32_t rank = 0; rank < 2; rank++)
		jobs_join(world, rank, join_of("early", rank, 2));
	jobs_join(world, 2, join_of("late", 0, 2));
	check_refused(world, 2, SML_ERROR_REFUSED, parts, 3);
	/* The slots are free again after the job's end. */
	jobs_hang_up(world, 0);
	check_refused(world, 1, SML_ERROR_RANK_DIED, &died, 1);
	for (uint32_t rank = 0; rank < 2; rank++)
		jobs_join(world, 3 + rank, join_of("late", rank, 2));
	for (uint32_t rank = 0; rank < 2; rank++)
		jobs_ready(world, 3 + rank);
	for (uint32_t rank = 0; rank < 2; rank++)
		assert_non_null(jobs_received(world, 3 + rank, SML_CONTROL__ENVELOPE__BODY_START));
}

WORLD_TEST(slots_shrink_to_what_the_pool_has)
{
	SmlControl__Join join = join_of("shrink", 0, 1);

	jobs_open(world, 24, 64, false);
	join.head_slots = 100;
	join.data_slots = UINT32_MAX;
	jobs_join(world, 0, join);
	assert_int_equal(slots_of(world, 0), 24);
}

WORLD_TEST(no_job_has_more_slots_than_a_packet_can_name)
{
	SmlControl__Join join = join_of("huge", 0, 1);

	jobs_open(world, 1u << 20, 64, false);
	join.head_slots = 70000;
	join.data_slots = 70000;
	join.lanes = 32;
	jobs_join(world, 0, join);
	assert_true(slots_of(world, 0) <= SML_MAX_SLOTS);
	assert_int_equal(world->jobs.slots_in_use, slots_of(world, 0));
}

WORLD_TEST(too_many_jobs_are_refused)
{
	const char *word = "--jobs";

	jobs_open(world, 4096, 1, false);
	jobs_join_all(world, 0, "first", 2);
	jobs_join(world, 2, join_of("second", 0, 2));
	check_refused(world, 2, SML_ERROR_REFUSED, &word, 1);
}
