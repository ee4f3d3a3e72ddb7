/* SPDX-License-Identifier: BSD-3-Clause */
/* Which ranks may join a job, and what a newcomer must not do to waiting ranks. */
#include <stdio.h>
#include <string.h>

#include "control/envelope.h"
#include "support/jobs.h"
#include "support/test.h"
#include "switchml.h"

static uint32_t shards_of(const struct jobs_world *world, unsigned peer)
{
	const SmlControl__Admitted *admitted = jobs_admitted(world, peer);

	return admitted ? admitted->shards : 0;
}

static const char *waiting_text(struct jobs_world *world, unsigned peer)
{
	const SmlControl__Envelope *told;

	jobs_wait(world, SML_SECOND_NS);
	told = jobs_told(world, peer, SML_CONTROL__ENVELOPE__BODY_WAITING);
	return told ? told->waiting->refused : "(never told)";
}

/* ---- refusals ---- */

/* Waiting would not help them: all get the error, and so do those that come a little later. */
TEST(ranks_that_disagree_end_their_job)
{
	SmlControl__Join join = jobs_join_message("a", 2, 4);
	static const char text[] = "disagree about stripe: rank 2 says 1, rank 0 says 0";
	struct jobs_world world;

	jobs_open(&world, 4096, 64, false);
	jobs_join(&world, 0, jobs_join_message("a", 0, 4));
	jobs_join(&world, 1, jobs_join_message("a", 1, 4));
	join.stripe = 1;
	join.stripes = 2;
	jobs_join(&world, 2, join);
	for (unsigned peer = 0; peer < 3; peer++)
		assert_non_null(strstr(jobs_refusal(&world, peer), text));
	jobs_join(&world, 3, jobs_join_message("a", 3, 4));
	assert_non_null(strstr(jobs_refusal(&world, 3), text));
	/* Another job does not care, and neither does the next run of this one. */
	jobs_join(&world, 4, jobs_join_message("b", 0, 1));
	assert_non_null(jobs_admitted(&world, 4));
	for (unsigned rank = 0; rank < 4; rank++)
		jobs_join(&world, 5 + rank, jobs_join_message("a", rank, 4));
	for (unsigned peer = 5; peer < 9; peer++)
		assert_non_null(jobs_admitted(&world, peer));
	jobs_close(&world);
}

TEST(a_disagreement_is_forgotten)
{
	struct jobs_world world;

	jobs_open(&world, 4096, 64, false);
	jobs_join(&world, 0, jobs_join_message("a", 0, 2));
	jobs_join(&world, 1, jobs_join_message("a", 2, 3));
	assert_non_null(strstr(jobs_refusal(&world, 0), "disagree about world_size"));
	jobs_wait(&world, 11 * SML_SECOND_NS);
	jobs_join(&world, 2, jobs_join_message("a", 1, 2));
	assert_string_equal(jobs_refusal(&world, 2), "");
	jobs_close(&world);
}

/* Of whatever version came first: the other ranks do not wait for nothing. */
TEST(ranks_of_two_versions_end_their_job)
{
	SmlControl__Join join = jobs_join_message("a", 1, 2);
	struct jobs_world world;

	jobs_open(&world, 4096, 64, false);
	join.protocol = 77;
	jobs_join(&world, 0, jobs_join_message("a", 0, 2));
	jobs_join(&world, 1, join);
	assert_non_null(strstr(jobs_refusal(&world, 0), "version 77"));
	assert_non_null(strstr(jobs_refusal(&world, 1), "version 77"));
	join.job = (char *)(uintptr_t) "b";
	jobs_join(&world, 2, join);
	jobs_join(&world, 3, jobs_join_message("b", 0, 2));
	assert_non_null(strstr(jobs_refusal(&world, 2), "version 77"));
	assert_non_null(strstr(jobs_refusal(&world, 3), "version 77"));
	/* A rank number that no job can have, from a peer of any version, is nobody's. */
	join.rank = UINT32_MAX;
	jobs_join(&world, 4, join);
	assert_non_null(strstr(jobs_refusal(&world, 4), "version 77"));
	jobs_close(&world);
}

/* It may come again, or be of another job: those that wait go on. */
TEST(a_newcomer_that_may_not_join_is_refused_alone)
{
	struct jobs_world world;

	jobs_open(&world, 4096, 64, false);
	jobs_join(&world, 0, jobs_join_message("a", 0, 2));
	jobs_join(&world, 1, jobs_join_message("a", 2, 2));
	assert_non_null(strstr(jobs_refusal(&world, 1), "rank 2"));
	/* The waiting rank learns of it, too, and continues to wait. */
	assert_string_equal(jobs_refusal(&world, 0), "");
	assert_string_equal(waiting_text(&world, 0), jobs_refusal(&world, 1));
	jobs_join(&world, 2, jobs_join_message("a", 0, 2));
	assert_non_null(strstr(jobs_refusal(&world, 2), "is taken by host"));
	/* The right rank joins, and the job runs. */
	jobs_join(&world, 3, jobs_join_message("a", 1, 2));
	assert_non_null(jobs_admitted(&world, 0));
	assert_non_null(jobs_admitted(&world, 3));
	jobs_close(&world);
}

/* Each refusal names the variable to change. */
TEST(a_refusal_says_what_to_set)
{
	SmlControl__Join join = jobs_join_message("a", 1, 2);
	struct jobs_world world;

	jobs_open(&world, 4096, 64, false);
	jobs_join(&world, 0, jobs_join_message("a", 0, 2));
	join.stripes = 2;
	jobs_join(&world, 1, join);
	assert_non_null(strstr(jobs_refusal(&world, 1), "in the same order (SWITCHML_SWITCH)"));
	jobs_join(&world, 2, jobs_join_message("b", 0, 2));
	join = jobs_join_message("b", 1, 2);
	join.data_slots += 8;
	jobs_join(&world, 3, join);
	assert_non_null(strstr(jobs_refusal(&world, 3), "SWITCHML_SLOTS"));
	/* Rank 0 itself comes again, for another stripe. */
	jobs_join(&world, 4, jobs_join_message("c", 0, 2));
	join = jobs_join_message("c", 0, 2);
	join.stripe = 1;
	join.stripes = 2;
	jobs_join(&world, 5, join);
	assert_non_null(strstr(jobs_refusal(&world, 5),
			       "for stripe 0 and for stripe 1: each stripe needs a switch"));
	jobs_close(&world);
}

/* The wrong rank may be the first to come: nobody waits for it yet. */
TEST(ranks_that_come_later_learn_of_a_refusal)
{
	struct jobs_world world;

	jobs_open(&world, 4096, 64, false);
	jobs_join(&world, 0, jobs_join_message("a", 2, 2));
	assert_non_null(strstr(jobs_refusal(&world, 0), "rank 2"));
	jobs_join(&world, 1, jobs_join_message("b", 0, 2));
	assert_string_equal(waiting_text(&world, 1), "");
	jobs_join(&world, 2, jobs_join_message("a", 0, 2));
	assert_string_equal(waiting_text(&world, 2), jobs_refusal(&world, 0));
	jobs_join(&world, 3, jobs_join_message("a", 1, 2));
	assert_non_null(jobs_admitted(&world, 2));
	jobs_close(&world);
}

/* The same rank has come again, or long ago: that is no news. */
TEST(an_old_refusal_is_forgotten)
{
	SmlControl__Join join = jobs_join_message("a", 1, 2);
	struct jobs_world world;

	jobs_open(&world, 4096, 64, false);
	join.shards = 0;
	jobs_join(&world, 0, join);
	assert_string_not_equal(jobs_refusal(&world, 0), "");
	jobs_join(&world, 1, jobs_join_message("a", 1, 2));
	assert_string_equal(waiting_text(&world, 1), "");
	jobs_join(&world, 2, jobs_join_message("c", 2, 2));
	jobs_wait(&world, 11 * SML_SECOND_NS);
	jobs_join(&world, 3, jobs_join_message("c", 0, 2));
	assert_string_equal(waiting_text(&world, 3), "");
	jobs_close(&world);
}

/*
 * A release with more fields whose protocol number was not raised: the refusal contains our
 * number.
 */
TEST(a_join_of_our_own_version_says_nothing_that_we_do_not_know)
{
	SmlControl__Join join = jobs_join_message("a", 0, 2);
	ProtobufCMessageUnknownField field = {
		.tag = 99, .wire_type = PROTOBUF_C_WIRE_TYPE_VARINT, .len = 0};
	struct jobs_world world;

	jobs_open(&world, 4096, 64, false);
	join.base.unknown_fields = &field;
	join.base.n_unknown_fields = 1;
	jobs_join(&world, 0, join);
	assert_non_null(strstr(jobs_refusal(&world, 0), "rank 0 sent fields that this switch"));
	assert_non_null(strstr(jobs_refusal(&world, 0), SML_VERSION_STRING));
	/* A peer of another version is refused for its number, whatever else it sends. */
	join.protocol = 77;
	jobs_join(&world, 1, join);
	assert_non_null(strstr(jobs_refusal(&world, 1), "version 77"));
	/* Nothing is stored about either peer. */
	jobs_join_all(&world, 2, "a", 2);
	assert_non_null(jobs_admitted(&world, 2));
	jobs_close(&world);
}

/* ---- narrow wires ---- */

static bool adds_only_int32(struct sml_dataplane *dataplane)
{
	(void)dataplane;
	return true;
}

static SmlControl__Join with_wire(enum sml_wire wire, const char *job, uint32_t rank)
{
	SmlControl__Join join = jobs_join_message(job, rank, 2);

	join.int16_wire = wire == SML_WIRE_INT16;
	join.int8_wire = wire == SML_WIRE_INT8;
	return join;
}

TEST(a_switch_without_int16_lanes_refuses_ranks_that_want_them)
{
	struct jobs_world world;

	jobs_open(&world, 4096, 64, false);
	jobs_join(&world, 0, with_wire(SML_WIRE_INT16, "any", 0));
	jobs_join(&world, 1, with_wire(SML_WIRE_INT16, "any", 1));
	assert_false(jobs_admitted(&world, 1)->only_int32);
	world.operations.only_int32 = adds_only_int32;
	/* Each rank at once, without waiting for the others. */
	jobs_join(&world, 2, with_wire(SML_WIRE_INT16, "a", 0));
	jobs_join(&world, 3, with_wire(SML_WIRE_INT16, "a", 1));
	assert_non_null(strstr(jobs_refusal(&world, 2), "floats of rank 0 travel as int16"));
	assert_non_null(strstr(jobs_refusal(&world, 3), "set SWITCHML_WIRE=int32 on all ranks"));
	/* If only one rank wants them, the others learn why it does not come. */
	jobs_join(&world, 4, jobs_join_message("b", 0, 2));
	jobs_join(&world, 5, with_wire(SML_WIRE_INT16, "b", 1));
	assert_string_equal(jobs_refusal(&world, 4), "");
	assert_string_equal(waiting_text(&world, 4), jobs_refusal(&world, 5));
	/* All others are told what the switch adds. */
	jobs_join(&world, 6, jobs_join_message("b", 1, 2));
	assert_true(jobs_admitted(&world, 4)->only_int32);
	assert_true(jobs_admitted(&world, 6)->only_int32);
	jobs_close(&world);
}

TEST(a_switch_that_does_not_round_refuses_ranks_that_want_int8)
{
	struct jobs_world world;

	jobs_open(&world, 4096, 64, false);
	world.operations.rounds = true;
	jobs_join(&world, 0, with_wire(SML_WIRE_INT8, "any", 0));
	jobs_join(&world, 1, with_wire(SML_WIRE_INT8, "any", 1));
	assert_true(jobs_admitted(&world, 1)->rounds);
	world.operations.rounds = false;
	jobs_join(&world, 2, with_wire(SML_WIRE_INT8, "a", 0));
	assert_non_null(strstr(jobs_refusal(&world, 2), "floats of rank 0 travel as int8"));
	assert_non_null(strstr(jobs_refusal(&world, 2), "set SWITCHML_WIRE=int16 on all ranks"));
	world.operations.only_int32 = adds_only_int32;
	jobs_join(&world, 3, with_wire(SML_WIRE_INT8, "a", 1));
	assert_non_null(strstr(jobs_refusal(&world, 3), "set SWITCHML_WIRE=int32 on all ranks"));
	/* All others are told. */
	jobs_join(&world, 4, jobs_join_message("b", 0, 2));
	jobs_join(&world, 5, jobs_join_message("b", 1, 2));
	assert_false(jobs_admitted(&world, 4)->rounds);
	jobs_close(&world);
}

/* ---- threads ---- */

static void say_shards(struct jobs_world *world, unsigned peer, uint32_t rank, uint32_t shards,
		       bool set)
{
	SmlControl__Join join = jobs_join_message("a", rank, 2);

	join.shards = shards;
	join.shards_set = set;
	jobs_join(world, peer, join);
}

TEST(the_least_number_of_threads_is_the_jobs)
{
	static const struct {
		uint32_t shards[2];
		bool set[2];
		uint32_t agreed; /* 0: they do not agree */
	} rows[] = {
		{{4, 2}, {false, false}, 2}, {{1, 4}, {false, false}, 1}, {{2, 2}, {true, true}, 2},
		{{2, 4}, {true, false}, 2},  {{4, 2}, {false, true}, 2},  {{2, 4}, {true, true}, 0},
		{{4, 2}, {true, false}, 0},  {{2, 4}, {false, true}, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct jobs_world world;

		jobs_open(&world, 4096, 64, false);
		for (unsigned rank = 0; rank < 2; rank++)
			say_shards(&world, rank, rank, rows[i].shards[rank], rows[i].set[rank]);
		assert_int_equal(shards_of(&world, 0), rows[i].agreed);
		if (rows[i].agreed == 0)
			assert_non_null(strstr(jobs_refusal(&world, 1), "SWITCHML_THREADS"));
		jobs_close(&world);
	}
}

/* ---- resuming ---- */

static void resume_after(struct jobs_world *world, unsigned peer, uint32_t rank,
			 uint64_t membership, uint64_t tag, bool leaving)
{
	jobs_resume(world, peer, jobs_join_message("a", rank, 2), membership, tag, leaving);
}

static void resume(struct jobs_world *world, unsigned peer, uint32_t rank, uint64_t membership,
		   bool leaving)
{
	resume_after(world, peer, rank, membership, 0, leaving);
}

TEST(all_ranks_have_one_membership_in_all_epochs)
{
	struct jobs_world world;
	uint64_t membership;

	jobs_open(&world, 4096, 64, false);
	jobs_join_all(&world, 0, "a", 2);
	membership = jobs_admitted(&world, 0)->membership;
	assert_true(membership != 0);
	assert_true(jobs_admitted(&world, 1)->membership == membership);
	jobs_join_all(&world, 2, "b", 1);
	assert_true(jobs_admitted(&world, 2)->membership != membership);
	jobs_hang_up(&world, 0);
	resume(&world, 4, 0, membership, false);
	resume(&world, 5, 1, membership, false);
	assert_true(jobs_admitted(&world, 4)->membership == membership);
	jobs_close(&world);
}

TEST(strangers_under_its_name_do_not_stop_a_job_that_goes_on)
{
	struct jobs_world world;

	jobs_open(&world, 4096, 64, false);
	/* One rank waits for the job to begin, and the other resumes it. Both stay. */
	jobs_join(&world, 0, jobs_join_message("a", 0, 2));
	resume(&world, 1, 0, 666, false);
	resume(&world, 2, 0, 77, false);
	resume(&world, 3, 1, 77, false);
	assert_non_null(jobs_admitted(&world, 2));
	assert_non_null(jobs_admitted(&world, 3));
	assert_null(jobs_admitted(&world, 1));
	/* A rank without a membership cannot resume a job. */
	resume(&world, 4, 0, 0, false);
	assert_non_null(strstr(jobs_refusal(&world, 4), "membership"));
	jobs_close(&world);
}

TEST(where_there_is_no_room_for_both_the_job_that_goes_on_stays)
{
	struct jobs_world world;

	jobs_open(&world, 4096, 1, false);
	jobs_join(&world, 0, jobs_join_message("a", 0, 2));
	resume(&world, 1, 0, 77, false);
	assert_non_null(strstr(jobs_refusal(&world, 0), "continues here"));
	assert_string_equal(jobs_refusal(&world, 1), "");
	jobs_close(&world);
}

/* It was out of reach when its job failed, and names the rank that the others name. */
TEST(who_comes_to_resume_a_failed_job_learns_why_it_failed)
{
	struct jobs_world world;
	uint64_t membership, tag;

	jobs_open(&world, 4096, 64, false);
	jobs_join_all(&world, 0, "a", 2);
	membership = jobs_admitted(&world, 0)->membership;
	tag = world.jobs.jobs[0]->report_tag;
	jobs_ready(&world, 0);
	jobs_ready(&world, 1);
	jobs_hang_up(&world, 0);
	resume_after(&world, 2, 1, membership, tag, false);
	assert_non_null(strstr(jobs_refusal(&world, 2), "rank 0 (host"));
	assert_non_null(strstr(jobs_refusal(&world, 2), "died: its connection ended"));
	/* To the rank that counted as dead, this would be wrong. */
	resume_after(&world, 3, 0, membership, tag, false);
	assert_non_null(strstr(jobs_refusal(&world, 3), "lost the connection of rank 0"));
	jobs_close(&world);
}

/* Its switch told the other rank that all have left, and died before it told this one. */
TEST(who_looks_for_ranks_that_have_left_may_leave)
{
	struct jobs_world world;

	jobs_open(&world, 4096, 64, false);
	resume(&world, 0, 1, 77, true);
	jobs_wait(&world, 6 * SML_SECOND_NS);
	assert_non_null(jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_LEFT));
	/* Not while another rank is here that does not ask for this. */
	resume(&world, 1, 1, 77, false);
	jobs_wait(&world, 6 * SML_SECOND_NS);
	assert_null(jobs_told(&world, 1, SML_CONTROL__ENVELOPE__BODY_LEFT));
	assert_true(world.peers[1].ended);
	jobs_close(&world);
}

/* Nothing is left to do, so there are no slots and no probes. */
TEST(where_all_come_only_to_leave_they_leave_at_once)
{
	struct jobs_world world;

	jobs_open(&world, 4096, 64, false);
	resume(&world, 0, 0, 77, true);
	assert_null(jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_LEFT));
	resume(&world, 1, 1, 77, true);
	assert_non_null(jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_LEFT));
	assert_non_null(jobs_told(&world, 1, SML_CONTROL__ENVELOPE__BODY_LEFT));
	assert_int_equal(world.jobs.n_jobs, 0);
	/* One of them has calls to make, so the job continues. */
	resume(&world, 2, 0, 78, true);
	resume(&world, 3, 1, 78, false);
	assert_null(jobs_told(&world, 2, SML_CONTROL__ENVELOPE__BODY_LEFT));
	assert_non_null(jobs_admitted(&world, 3));
	jobs_close(&world);
}

/* ---- limits ---- */

TEST(what_waiting_jobs_claim_shrinks_no_window)
{
	struct jobs_world world;
	char name[8];

	jobs_open(&world, 4096, 64, false);
	for (unsigned i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "idle%u", i);
		jobs_join(&world, i, jobs_join_message(name, 0, 64));
	}
	jobs_join_all(&world, 40, "a", 2);
	assert_int_equal(world.n_window_ranks, 2);
	jobs_join_all(&world, 42, "b", 3);
	assert_int_equal(world.n_window_ranks, 5);
	jobs_close(&world);
}

TEST(nobody_waits_for_ever)
{
	SmlControl__Join join = jobs_join_message("a", 0, 2);
	struct jobs_world world;

	jobs_open(&world, 4096, 64, false);
	join.wait_ms = 300000;
	jobs_join(&world, 0, join);
	jobs_wait(&world, 299 * SML_SECOND_NS);
	assert_string_equal(jobs_refusal(&world, 0), "");
	jobs_wait(&world, 2 * SML_SECOND_NS);
	assert_non_null(strstr(jobs_refusal(&world, 0), "did not join"));
	assert_int_equal(world.jobs.n_jobs, 0);
	assert_int_equal(world.jobs.n_members, 0);
	jobs_close(&world);
}

TEST(members_have_a_limit)
{
	struct jobs_world world;

	jobs_open(&world, 4096, 64, false);
	world.jobs.config.max_members = 3;
	jobs_join_all(&world, 0, "a", 2);
	jobs_join_all(&world, 2, "b", 2);
	assert_string_equal(jobs_refusal(&world, 2), "");
	assert_non_null(strstr(jobs_refusal(&world, 3), "at its limit of"));
	/* Members are counted correctly, however they leave. */
	jobs_leave(&world, 2);
	jobs_hang_up(&world, 0);
	assert_int_equal(world.jobs.n_members, 0);
	jobs_close(&world);
}

TEST(rank_0s_own_port_is_for_its_job_alone)
{
	SmlControl__Join join = jobs_join_message("other", 0, 2);
	uint32_t data_port = 9;
	struct jobs_world world;

	jobs_open(&world, 4096, 64, true);
	world.jobs.config.only_job = "mine";
	world.jobs.config.only_world_size = 2;
	join.n_stripe_ports = 1;
	join.stripe_ports = &data_port;
	jobs_join(&world, 0, join);
	assert_non_null(strstr(jobs_refusal(&world, 0), "serves job \"mine\""));
	join.job = (char *)(uintptr_t) "mine";
	join.world_size = 3;
	jobs_join(&world, 1, join);
	assert_non_null(strstr(jobs_refusal(&world, 1), "rank 0 says 2"));
	assert_int_equal(world.jobs.n_jobs, 0);
	join.world_size = 2;
	jobs_join(&world, 2, join);
	assert_string_equal(jobs_refusal(&world, 2), "");
	jobs_close(&world);
}

/* ---- ranks on one machine ---- */

TEST(ranks_of_one_machine_are_told_of_each_other)
{
	const SmlControl__HostGroup *group;
	struct jobs_world world;

	jobs_join_from(&world, "aba-c", true);
	group = jobs_admitted(&world, 2)->host_group;
	assert_non_null(group);
	assert_int_equal(group->n_ranks, 2);
	assert_int_equal(group->ranks[0], 0);
	assert_int_equal(group->ranks[1], 2);
	assert_int_equal(group->tokens[1].len, SML_HOST_TOKEN);
	assert_int_equal(group->tokens[1].data[0], 3);
	assert_null(jobs_admitted(&world, 1)->host_group);
	assert_null(jobs_admitted(&world, 3)->host_group);
	assert_null(jobs_admitted(&world, 4)->host_group);
	for (uint32_t rank = 0; rank < 5; rank++)
		assert_int_equal(jobs_admitted(&world, 1)->peers[rank]->first_of_host,
				 rank == 2 ? 0 : rank);
	/* Hosts contribute, if all say so: also those that share memory with nobody. */
	assert_true(jobs_start_host(&world, 5, 5));
	jobs_close(&world);
	for (uint32_t rank = 0; rank < 5; rank++) {
		jobs_join_from(&world, "aba-c", true);
		assert_false(jobs_start_host(&world, 5, rank));
		jobs_close(&world);
	}
	/* No two of them are on one. */
	jobs_join_from(&world, "a-bc", true);
	assert_false(jobs_start_host(&world, 4, 4));
	jobs_close(&world);
}

static void say_ready(struct jobs_world *world, uint32_t rank, bool shares)
{
	SmlControl__Ready ready = SML_CONTROL__READY__INIT;

	ready.lanes = 352;
	ready.shares_memory = shares;
	jobs_say(world, rank, sml_envelope(READY, ready, &ready));
}

TEST(a_switch_admits_ranks_of_one_machine_as_one_child)
{
	struct jobs_world world;

	jobs_join_from(&world, "abab", false);
	for (uint32_t rank = 0; rank < 4; rank++) {
		assert_int_equal(jobs_admitted(&world, rank)->number, rank % 2);
		assert_int_equal(jobs_admitted(&world, rank)->shards, 1);
		assert_int_equal(jobs_admitted(&world, rank)->host_group->n_ranks, 2);
	}
	assert_int_equal(jobs_admitted(&world, 0)->cookie, jobs_admitted(&world, 2)->cookie);
	assert_int_not_equal(jobs_admitted(&world, 0)->cookie, jobs_admitted(&world, 1)->cookie);
	for (uint32_t rank = 0; rank < 4; rank++)
		say_ready(&world, rank, true);
	assert_non_null(jobs_told(&world, 3, SML_CONTROL__ENVELOPE__BODY_START));
	jobs_close(&world);
}

static void say_mismatch(struct jobs_world *world, uint32_t rank, uint32_t a, uint32_t b)
{
	SmlControl__Mismatch mismatch = SML_CONTROL__MISMATCH__INIT;
	uint32_t ranks[2] = {a, b};

	mismatch.n_ranks = 2;
	mismatch.ranks = ranks;
	jobs_say(world, rank, sml_envelope(MISMATCH, mismatch, &mismatch));
}

TEST(a_rank_tells_only_of_memory_that_it_shares)
{
	struct jobs_world world;

	jobs_join_from(&world, "aab", false);
	for (uint32_t rank = 0; rank < 3; rank++)
		say_ready(&world, rank, true);
	assert_non_null(jobs_told(&world, 2, SML_CONTROL__ENVELOPE__BODY_START));
	say_mismatch(&world, 2, 0, 1);
	say_mismatch(&world, 0, 0, 2);
	say_mismatch(&world, 0, 0, 64);
	assert_null(jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_DESCRIBE));
	say_mismatch(&world, 1, 0, 1);
	assert_non_null(jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_DESCRIBE));
	assert_non_null(jobs_told(&world, 1, SML_CONTROL__ENVELOPE__BODY_DESCRIBE));
	jobs_close(&world);
}

/* Ranks 0 and 1 are of one machine. */
static void admit_again(uint32_t individual)
{
	struct jobs_world world;
	uint64_t cookie;

	jobs_join_from(&world, "aab", false);
	cookie = jobs_admitted(&world, 0)->cookie;
	say_ready(&world, 0, true);
	say_ready(&world, 1, individual != 1);
	assert_null(jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_START));
	say_ready(&world, 2, individual != 2);
	assert_null(jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_START));
	for (uint32_t rank = 0; rank < 3; rank++) {
		assert_int_equal(jobs_admitted(&world, rank)->number, rank);
		assert_int_equal(jobs_admitted(&world, rank)->epoch, 2);
		assert_null(jobs_admitted(&world, rank)->host_group);
		assert_int_not_equal(jobs_admitted(&world, rank)->cookie, cookie);
	}
	for (uint32_t rank = 0; rank < 3; rank++)
		say_ready(&world, rank, false);
	assert_non_null(jobs_told(&world, 2, SML_CONTROL__ENVELOPE__BODY_START));
	jobs_close(&world);
}

/* Rank 2 is alone here; at another switch of the job, it could not share memory. */
TEST(ranks_that_share_no_memory_are_admitted_again)
{
	admit_again(1);
	admit_again(2);
}

TEST(a_job_shares_memory_if_all_its_ranks_do)
{
	struct jobs_world world;

	jobs_join_from(&world, "aaa", true);
	assert_true(jobs_start_host(&world, 3, 3));
	/* No stripe dies with its rank. */
	jobs_hang_up(&world, 1);
	assert_non_null(strstr(jobs_refusal(&world, 0), "rank 1 (host testhost, pid 1001) died:"));
	jobs_close(&world);
	jobs_join_from(&world, "aaa", true);
	assert_false(jobs_start_host(&world, 3, 1));
	jobs_close(&world);
}

TEST(a_machine_without_a_token_is_refused)
{
	uint8_t bytes[SML_MACHINE_BYTES + 1] = {1};
	struct jobs_world world;

	jobs_open(&world, 4096, 64, false);
	for (unsigned i = 0; i < 3; i++) {
		SmlControl__Join join = jobs_join_message("a", 0, 2);

		join.machine = (ProtobufCBinaryData){i == 0   ? sizeof(bytes)
						     : i == 1 ? 4
							      : 0,
						     bytes};
		join.host_token = (ProtobufCBinaryData){i == 1 ? 15 : SML_HOST_TOKEN, bytes};
		jobs_join(&world, i, join);
		assert_non_null(strstr(jobs_refusal(&world, i), "host token"));
	}
	jobs_close(&world);
}

/* ---- failing and leaving ---- */

static void begin(struct jobs_world *world, uint32_t n)
{
	jobs_open(world, 4096, 64, false);
	jobs_join_all(world, 0, "a", n);
	for (unsigned i = 0; i < n; i++)
		jobs_ready(world, i);
}

static const SmlControl__Abort *told_of_abort(struct jobs_world *world, int error, bool told)
{
	SmlControl__Abort message = SML_CONTROL__ABORT__INIT;

	begin(world, 3);
	message.error = error;
	message.text = (char *)(uintptr_t) "rank 2 is frozen";
	message.told = told;
	jobs_say(world, 1, sml_envelope(ABORT, abort, &message));
	jobs_hang_up(world, 1);
	return jobs_told(world, 0, SML_CONTROL__ENVELOPE__BODY_ABORT)->abort;
}

TEST(what_another_switch_has_told_is_passed_on_unchanged)
{
	const SmlControl__Abort *abort;
	struct jobs_world world;

	abort = told_of_abort(&world, SML_ERROR_RANK_DIED, true);
	assert_int_equal(abort->error, SML_ERROR_RANK_DIED);
	assert_string_equal(abort->text, "rank 2 is frozen");
	jobs_close(&world);
	abort = told_of_abort(&world, SML_ERROR_RANK_DIED, false);
	assert_int_equal(abort->error, SML_ERROR_ABORTED);
	assert_non_null(strstr(abort->text, "rank 1 (host testhost, pid 1001) aborted the job"));
	jobs_close(&world);
	/* No error at all is not one of a switch. */
	abort = told_of_abort(&world, 0, true);
	assert_int_equal(abort->error, SML_ERROR_ABORTED);
	jobs_close(&world);
}

TEST(who_waits_for_a_rank_that_died_as_it_left_is_told)
{
	struct jobs_world world;

	begin(&world, 3);
	jobs_leave(&world, 1);
	jobs_hang_up(&world, 1);
	/* The others finish, as long as no slot waits for this rank. */
	world.slots_lack = 1 << 2;
	jobs_wait(&world, 3 * SML_SECOND_NS);
	assert_int_equal(world.jobs.n_jobs, 1);
	world.slots_lack = 1 << 1;
	jobs_wait(&world, SML_SECOND_NS);
	assert_non_null(
		strstr(jobs_refusal(&world, 0), "rank 1 (host testhost, pid 1001) died after"));
	assert_non_null(strstr(jobs_refusal(&world, 2), "a call that it did not make"));
	jobs_close(&world);
}

TEST(the_others_leave_without_a_rank_that_died_as_it_left)
{
	struct jobs_world world;

	begin(&world, 2);
	jobs_leave(&world, 1);
	jobs_hang_up(&world, 1);
	jobs_wait(&world, 3 * SML_SECOND_NS);
	jobs_leave(&world, 0);
	assert_non_null(jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_LEFT));
	jobs_close(&world);
}

/* The last results of its stripe disappear with it. */
TEST(a_stripe_that_dies_as_its_rank_leaves_is_told)
{
	uint32_t data_port = 9;
	struct jobs_world world;

	jobs_open(&world, 4096, 64, true);
	for (uint32_t rank = 0; rank < 2; rank++) {
		SmlControl__Join join = jobs_join_message("a", rank, 2);

		join.n_stripe_ports = 1;
		join.stripe_ports = &data_port;
		join.stripes = 0;
		jobs_join(&world, rank, join);
	}
	jobs_ready(&world, 0);
	jobs_ready(&world, 1);
	jobs_leave(&world, 1);
	jobs_hang_up(&world, 1);
	assert_non_null(strstr(jobs_refusal(&world, 0),
			       "rank 1 (host testhost, pid 1001) died as it left, and stripe 1"));
	jobs_close(&world);
}

/* ---- jobs that follow others ---- */

static SmlControl__Join following(uint32_t rank, const char *before, uint32_t changes)
{
	SmlControl__Join join = jobs_join_message("b", rank, 3);

	join.follows = (char *)(uintptr_t)before;
	join.follows_ranks = 4;
	join.follows_changes = changes;
	return join;
}

/* Ranks 0 and 1 of three were in job "a" of four ranks; rank 2 is new, or of another job. */
static void expect_change(const char *others)
{
	struct jobs_world world;
	SmlControl__Status *status;

	jobs_open(&world, 4096, 64, false);
	jobs_join(&world, 0, following(2, others, 5));
	jobs_join(&world, 1, following(1, "a", 7));
	status = jobs_status(&world);
	assert_int_equal(status->jobs[0]->joined + status->jobs[0]->left, 0);
	sml_control__status__free_unpacked(status, NULL);
	jobs_join(&world, 2, following(0, "a", 7));
	status = jobs_status(&world);
	assert_int_equal(status->n_jobs, 1);
	assert_string_equal(status->jobs[0]->follows, *others ? others : "a");
	assert_int_equal(status->jobs[0]->changes, 8);
	assert_int_equal(status->jobs[0]->joined, *others ? 2 : 1);
	assert_int_equal(status->jobs[0]->left, *others ? 3 : 2);
	sml_control__status__free_unpacked(status, NULL);
	/* All of them say so when this job is followed. */
	for (unsigned peer = 0; peer < 3; peer++)
		assert_int_equal(jobs_admitted(&world, peer)->changes, 8);
	jobs_close(&world);
}

TEST(a_job_that_follows_another_counts_who_joined_and_left)
{
	expect_change("");
	/* Two jobs become one: it follows that of the rank that came first. */
	expect_change("c");
}

TEST(a_job_that_follows_none_has_no_changes)
{
	struct jobs_world world;
	SmlControl__Status *status;

	jobs_open(&world, 4096, 64, false);
	jobs_join(&world, 0, jobs_join_message("a", 0, 1));
	status = jobs_status(&world);
	assert_string_equal(status->jobs[0]->follows, "");
	assert_int_equal(status->jobs[0]->changes + status->jobs[0]->joined + status->jobs[0]->left,
			 0);
	sml_control__status__free_unpacked(status, NULL);
	jobs_close(&world);
}

TEST(the_name_of_the_job_before_is_checked)
{
	char longest[SML_NAME_BYTES + 1] = "";
	struct jobs_world world;

	memset(longest, 'n', SML_NAME_BYTES);
	jobs_open(&world, 4096, 64, false);
	jobs_join(&world, 0, following(0, longest, 1));
	assert_non_null(strstr(jobs_refusal(&world, 0), "the job before"));
	jobs_join(&world, 1, following(0, "\x1b[2J", 1));
	assert_non_null(strstr(jobs_refusal(&world, 1), "the job before"));
	longest[SML_NAME_BYTES - 1] = '\0';
	/* The largest numbers are no trouble. */
	SmlControl__Join join = following(0, longest, UINT32_MAX);

	join.follows_ranks = UINT32_MAX;
	jobs_join(&world, 2, join);
	assert_string_equal(jobs_refusal(&world, 2), "");
	jobs_close(&world);
}

/* ---- ranks that were ready when their switch died ---- */

static unsigned maps_told(const struct jobs_world *world, unsigned peer)
{
	const SmlControl__Envelope *admitted =
		jobs_told(world, peer, SML_CONTROL__ENVELOPE__BODY_ADMITTED);

	assert_non_null(admitted);
	return (unsigned)admitted->admitted->n_maps;
}

/* In whatever order they come; and a stranger's job, in which one of them has come, goes on. */
TEST(those_that_were_told_to_start_go_on_with_those_that_were_not)
{
	for (unsigned begun = 0; begun < 3; begun++) {
		struct jobs_world world;

		jobs_open(&world, 4096, 64, false);
		if (begun < 2)
			jobs_join(&world, 9, jobs_join_message("half", begun, 3));
		for (unsigned rank = 0; rank < 3; rank++) {
			SmlControl__Join join = jobs_join_message("half", rank, 3);

			if (rank == begun)
				jobs_resume(&world, rank, join, 7, 0, false);
			else
				jobs_begin_again(&world, rank, join, 7);
		}
		for (unsigned rank = 0; rank < 3; rank++)
			assert_int_equal(maps_told(&world, rank), SML_STREAMS);
		assert_int_equal(world.jobs.n_jobs, begun < 2 ? 2 : 1);
		jobs_close(&world);
	}
}

TEST(if_no_rank_was_told_to_start_they_begin_anew)
{
	struct jobs_world world;

	jobs_open(&world, 4096, 64, false);
	jobs_begin_again(&world, 0, jobs_join_message("none", 0, 3), 7);
	jobs_join(&world, 1, jobs_join_message("none", 1, 3));
	jobs_begin_again(&world, 2, jobs_join_message("none", 2, 3), 7);
	for (unsigned rank = 0; rank < 3; rank++)
		assert_int_equal(maps_told(&world, rank), 0);
	assert_int_not_equal(world.jobs.jobs[0]->membership, 7);
	jobs_close(&world);
}

/* The secret is another one: a rank of another run. */
TEST(a_rank_that_was_ready_for_another_job_is_not_taken_along)
{
	struct jobs_world world;

	jobs_open(&world, 4096, 64, false);
	jobs_begin_again(&world, 0, jobs_join_message("other", 0, 2), 8);
	jobs_resume(&world, 1, jobs_join_message("other", 1, 2), 7, 0, false);
	assert_int_equal(world.jobs.n_jobs, 2);
	assert_null(jobs_told(&world, 1, SML_CONTROL__ENVELOPE__BODY_ADMITTED));
	jobs_close(&world);
}

/* ---- joiners ---- */

static void ask(struct jobs_world *world, unsigned peer, SmlControl__Place *place, uint32_t shards)
{
	SmlControl__Join join = jobs_join_message("train", 0, 1);
	SmlControl__Ask message = SML_CONTROL__ASK__INIT;

	message.places = &place;
	message.n_places = place != NULL;
	message.wait_ms = 1000;
	join.ask = &message;
	join.shards = shards;
	join.shards_set = true;
	jobs_join(world, peer, join);
}

/* Two ranks with this many threads, whose job has ended, and which ask again. */
static void end_and_ask(struct jobs_world *world, uint32_t shards)
{
	SmlControl__Place place = SML_CONTROL__PLACE__INIT;

	for (uint32_t rank = 0; rank < 2; rank++) {
		SmlControl__Join join = jobs_join_message("train", rank, 2);

		join.shards = shards;
		join.shards_set = true;
		jobs_join(world, rank, join);
	}
	for (unsigned rank = 0; rank < 2; rank++)
		jobs_ready(world, rank);
	place.tag = jobs_admitted(world, 0)->report_tag;
	place.world_size = 2;
	place.ran = true;
	for (unsigned rank = 0; rank < 2; rank++) {
		place.rank = rank;
		ask(world, 10 + rank, &place, shards);
	}
}

TEST(a_joiner_that_does_not_fit_the_others_does_not_end_their_job)
{
	struct jobs_world world;

	jobs_open(&world, 4096, 64, false);
	ask(&world, 20, NULL, 1);
	ask(&world, 21, NULL, 2);
	end_and_ask(&world, 2);
	assert_non_null(strstr(jobs_refusal(&world, 20), "disagree about threads"));
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(jobs_admitted(&world, 10 + i)->decision->world_size, 3);
	assert_int_equal(jobs_admitted(&world, 21)->decision->rank, 2);
	jobs_close(&world);
}

TEST(who_asks_brings_no_report_and_few_places)
{
	SmlControl__Join join = jobs_join_message("train", 0, 1);
	SmlControl__Place place = SML_CONTROL__PLACE__INIT, *places[] = {&place, &place, &place};
	SmlControl__Ask message = SML_CONTROL__ASK__INIT;
	struct jobs_world world;

	jobs_open(&world, 4096, 64, false);
	join.ask = &message;
	jobs_resume(&world, 0, join, 7, 0, false);
	assert_non_null(strstr(jobs_refusal(&world, 0), "no report"));
	message.places = places;
	message.n_places = 3;
	jobs_join(&world, 1, join);
	assert_non_null(strstr(jobs_refusal(&world, 1), "at most two places"));
	jobs_close(&world);
}
