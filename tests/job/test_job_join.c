/* SPDX-License-Identifier: BSD-3-Clause */
/* Which ranks may join a job, and what a newcomer must not do to waiting ranks. */
#include <stdio.h>

#include "support/jobs.h"
#include "support/test.h"
#include "switchml.h"

static uint32_t shards_of(unsigned peer)
{
	const SmlControl__Admitted *admitted = jobs_admitted(peer);

	return admitted ? admitted->shards : 0;
}

static SmlControl__Join join_with_slots(const char *job, uint32_t rank, uint32_t world_size)
{
	SmlControl__Join join = jobs_join_message(job, rank, world_size);

	join.head_slots = 4;
	join.data_slots = 16;
	return join;
}

static const char *waiting_text(unsigned peer)
{
	const SmlControl__Envelope *told;

	jobs_wait(SML_SECOND_NS);
	told = jobs_received(peer, SML_CONTROL__ENVELOPE__BODY_WAITING);
	return told ? told->waiting->refused : "(never told)";
}

/* ---- refusals ---- */

/* Rank 1 joins like this after rank 0, of three. The job ends for both, and its name is free. */
JOBS_TEST(a_disagreement_ends_the_job_for_both)
{
	static const struct {
		/* 0: as rank 0 says */
		uint32_t world_size, shards, data_slots, stripes, protocol;
		enum sml_wire wire;
		bool no_tickets;
		const char *version, *text;
	} rows[] = {
		{.world_size = 4, .text = "world_size: rank 1 says 4, rank 0 says 3"},
		{.shards = 2,
		 .text = "threads (shards): rank 1 says 2 (set), rank 0 says 1: set "
			 "SWITCHML_THREADS to the same value on all ranks, or on none"},
		{.data_slots = 99,
		 .text = "data slots: rank 1 says 99, rank 0 says 16: give all ranks the same "
			 "SWITCHML_SLOTS"},
		{.stripes = 2,
		 .text = "stripes: rank 1 says 2, rank 0 says 1: give all ranks the same switches "
			 "in the same order (SWITCHML_SWITCH)"},
		{.wire = SML_WIRE_EXACT,
		 .text = "the wire: rank 1 says exact, rank 0 says default: give all ranks the "
			 "same SWITCHML_WIRE"},
		{.no_tickets = true, .text = "tickets off: rank 1 says 1, rank 0 says 0"},
		{.version = "9.9.9",
		 .text = "have different libraries: rank 1 has 9.9.9, rank 0 "
			 "has " SML_VERSION_STRING},
		{.protocol = 77,
		 .text = "rank 1 speaks version 77 of the control protocol "
			 "(library " SML_VERSION_STRING "), rank 0 and the switch version "},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		SmlControl__Join join = join_with_slots("differ", 0, 3);

		jobs_join(2 * i, join);
		join.rank = 1;
		join.world_size = rows[i].world_size ? rows[i].world_size : join.world_size;
		join.shards = rows[i].shards ? rows[i].shards : join.shards;
		join.shards_set = rows[i].shards != 0;
		join.data_slots = rows[i].data_slots ? rows[i].data_slots : join.data_slots;
		join.stripes = rows[i].stripes ? rows[i].stripes : join.stripes;
		join.wire = rows[i].wire;
		join.no_tickets = rows[i].no_tickets;
		join.protocol = rows[i].protocol ? rows[i].protocol : join.protocol;
		if (rows[i].version)
			join.library_version = (char *)(uintptr_t)rows[i].version;
		jobs_join(2 * i + 1, join);
		for (unsigned peer = 2 * i; peer < 2 * i + 2; peer++) {
			jobs_assert_ended(peer,
					  rows[i].protocol ? SML_ERROR_VERSION : SML_ERROR_MISMATCH,
					  rows[i].text);
		}
	}
}

/* Numbers that would be fine if they were cut to 8, 12 or 16 bits, and others. */
JOBS_TEST(own_mistake_is_refused_to_the_newcomer_alone)
{
	static const struct {
		uint32_t rank, world_size, shards;
		const char *job, *why;
	} rows[] = {
		{2, 2, 1, "mistake", "rank 2 is not below world_size 2"},
		{4096, 4096, 1, "mistake", "rank 4096 is not below world_size 4096"},
		{65536, 4096, 1, "mistake", "rank 65536 is not below world_size 4096"},
		{UINT32_MAX, 4096, 1, "mistake", "rank 4294967295 is not below world_size 4096"},
		{0, 0, 1, "mistake", "world_size 0 is not between 1 and 4096"},
		{0, 4097, 1, "mistake", "world_size 4097 is not between 1 and 4096"},
		{0, 65538, 1, "mistake", "world_size 65538 is not between 1 and 4096"},
		{0, 2, 0, "mistake", "shards"},
		{0, 2, 17, "mistake", "shards"},
		{0, 2, 1, "", "name"},
		{0, 2, 1, "two\nlines", "name"},
	};

	jobs_join(0, jobs_join_message("mistake", 0, 2));
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		SmlControl__Join join =
			jobs_join_message(rows[i].job, rows[i].rank, rows[i].world_size);

		join.shards = rows[i].shards;
		jobs_join(1 + i, join);
		jobs_assert_ended(1 + i, SML_ERROR_REFUSED, rows[i].why);
		assert_int_equal(world.jobs.n_jobs, 1);
	}
	assert_string_equal(jobs_refusal(0), "");
}

/* Without switches there are no leaves. */
WORLD_TEST(a_job_without_a_switch_has_at_most_64_ranks)
{
	jobs_open(4096, 64, true);
	jobs_join(0, jobs_embedded_join("tree", 0, 65));
	jobs_assert_refused(0, "without a switch has at most 64 ranks");
}

/* The job runs on, also where numbers are added. */
JOBS_TEST(taken_rank_is_refused_to_the_newcomer_alone)
{
	jobs_start(0, "taken", 2);
	jobs_join(2, jobs_join_message("taken", 1, 2));
	jobs_assert_ended(2, SML_ERROR_REFUSED,
			  "rank 1 of job \"taken\" is taken by host testhost (pid 1001)");
	for (unsigned peer = 0; peer < 2; peer++) {
		assert_true(sml_peer_runs(&world.peers[peer].peer));
		assert_string_equal(jobs_refusal(peer), "");
	}
	assert_int_equal(world.plane.jobs[jobs_admitted(0)->job_number % SML_MAX_JOBS].n_ranks, 2);
}

/* Waiting would not help them: all get the error, and so do those that come a little later. */
JOBS_TEST(ranks_that_disagree_end_their_job)
{
	SmlControl__Join join = jobs_join_message("a", 2, 4);
	static const char text[] = "disagree about stripe: rank 2 says 1, rank 0 says 0";

	jobs_join(0, jobs_join_message("a", 0, 4));
	jobs_join(1, jobs_join_message("a", 1, 4));
	join.stripe = 1;
	join.stripes = 2;
	jobs_join(2, join);
	for (unsigned peer = 0; peer < 3; peer++)
		jobs_assert_refused(peer, text);
	jobs_join(3, jobs_join_message("a", 3, 4));
	jobs_assert_refused(3, text);
	/* Another job does not care, and neither does the next run of this one. */
	jobs_join(4, jobs_join_message("b", 0, 1));
	assert_non_null(jobs_admitted(4));
	for (unsigned rank = 0; rank < 4; rank++)
		jobs_join(5 + rank, jobs_join_message("a", rank, 4));
	for (unsigned peer = 5; peer < 9; peer++)
		assert_non_null(jobs_admitted(peer));
}

/* "a|b" and "b|a": rank 2 has joined b, which has told nobody, and looks at a. */
JOBS_TEST(ranks_that_wait_at_different_switches_of_one_list_are_told)
{
	SmlControl__Join join = jobs_join_message("a", 0, 3), looks;
	static const char text[] =
		"wait at different switches of one list, rank 0 here and rank 2 not";

	join.switches = 77;
	jobs_join(0, join);
	join.rank = 1;
	jobs_join(1, join);
	looks = join;
	looks.elsewhere = true;
	/* By a leaf below, it is here; and another job may have this name. */
	jobs_join(2, looks);
	looks.rank = 2;
	looks.switches = 78;
	jobs_join(3, looks);
	looks.switches = 0;
	jobs_join(4, looks);
	/* In "a,b|b,a", this switch has another stripe of its job. */
	looks.switches = 77;
	looks.stripe = 1;
	looks.stripes = 2;
	jobs_join(5, looks);
	for (unsigned peer = 0; peer < 6; peer++) {
		assert_null(jobs_received(peer, SML_CONTROL__ENVELOPE__BODY_ABORT));
		assert_int_equal(world.peers[peer].ended, peer >= 2);
	}
	looks.stripe = 0;
	looks.stripes = 1;
	jobs_join(6, looks);
	for (unsigned peer = 0; peer < 7; peer += peer == 1 ? 5 : 1)
		jobs_assert_refused(peer, text);
}

/* Rank 0 has the job, and rank 1 waits at a switch. */
WORLD_TEST(ranks_that_wait_at_a_switch_and_without_one_are_told)
{
	SmlControl__Join looks = jobs_join_message("a", 1, 3);
	static const char text[] = "rank 1 at a switch and rank 0 without one";

	jobs_open(4096, 64, true);
	for (uint32_t rank = 0; rank < 3; rank += 2)
		jobs_join(rank, jobs_embedded_join("a", rank, 3));
	looks.elsewhere = true;
	/* Another job of this name has other ranks. */
	looks.rank = 2;
	jobs_join(3, looks);
	assert_int_equal(world.peers[3].ended, 1);
	looks.rank = 1;
	jobs_join(1, looks);
	for (unsigned peer = 0; peer < 3; peer++)
		jobs_assert_refused(peer, text);
}

JOBS_TEST(a_disagreement_is_forgotten)
{
	jobs_join(0, jobs_join_message("a", 0, 2));
	jobs_join(1, jobs_join_message("a", 2, 3));
	jobs_assert_refused(0, "disagree about world_size");
	jobs_wait(11 * SML_SECOND_NS);
	jobs_join(2, jobs_join_message("a", 1, 2));
	assert_string_equal(jobs_refusal(2), "");
}

/* The other ranks do not wait for nothing. */
JOBS_TEST(a_rank_of_another_version_that_comes_first_ends_the_job)
{
	SmlControl__Join join = jobs_join_message("a", 1, 2);

	join.protocol = 77;
	jobs_join(0, join);
	jobs_join(1, jobs_join_message("a", 0, 2));
	jobs_assert_refused(0, "version 77");
	jobs_assert_refused(1, "version 77");
	/* A rank number that no job can have, from a peer of any version, is nobody's. */
	join.rank = UINT32_MAX;
	jobs_join(2, join);
	jobs_assert_refused(2, "version 77");
}

/* It may come again, or be of another job: those that wait go on. */
JOBS_TEST(a_newcomer_that_may_not_join_is_refused_alone)
{
	jobs_join(0, jobs_join_message("a", 0, 2));
	jobs_join(1, jobs_join_message("a", 2, 2));
	jobs_assert_refused(1, "rank 2");
	/* The waiting rank learns of it, too, and continues to wait. */
	assert_string_equal(jobs_refusal(0), "");
	assert_string_equal(waiting_text(0), jobs_refusal(1));
	jobs_join(2, jobs_join_message("a", 0, 2));
	jobs_assert_refused(2, "is taken by host");
	/* The right rank joins, and the job runs. */
	jobs_join(3, jobs_join_message("a", 1, 2));
	assert_non_null(jobs_admitted(0));
	assert_non_null(jobs_admitted(3));
}

static void join_from(unsigned peer, uint64_t process, uint64_t time_ns)
{
	SmlControl__Join join = jobs_join_message("a", 0, 2);

	join.process = process;
	join.time_ns = time_ns;
	jobs_join(peer, join);
}

JOBS_TEST(a_rank_that_joins_for_another_stripe_does_not_come_again)
{
	/* It says the same number of stripes each time, or another one. */
	for (unsigned first = 0; first < 4; first += 2) {
		SmlControl__Join other = jobs_join_message("a", 0, 2);

		other.process = 7;
		other.stripes = first ? 1 : 2;
		jobs_join(first, other);
		other.stripes = 2;
		other.stripe = 1;
		other.time_ns = 9;
		jobs_join(first + 1, other);
		for (unsigned peer = first; peer < first + 2; peer++)
			jobs_assert_refused(peer,
					    "names one switch for stripe 0 and for stripe 1: each "
					    "stripe needs a switch of its own (SWITCHML_SWITCH)");
	}
}

/* Its first connection, or the leaf on the way, is gone, and this switch does not know yet. */
JOBS_TEST(a_rank_that_joins_again_on_another_connection_takes_its_place)
{
	join_from(0, 7, 5);
	join_from(1, 7, 6);
	jobs_assert_refused(0, "on another connection");
	/* Two connections have no order. */
	join_from(2, 7, 4);
	jobs_assert_refused(2, "on another connection");
	join_from(3, 8, 9);
	jobs_assert_refused(3, "is taken by host");
	jobs_join(4, jobs_join_message("a", 1, 2));
	assert_non_null(jobs_admitted(1));
	assert_non_null(jobs_admitted(4));
}

/* The wrong rank may be the first to come: nobody waits for it yet. */
JOBS_TEST(ranks_that_come_later_learn_of_a_refusal)
{
	jobs_join(0, jobs_join_message("a", 2, 2));
	jobs_assert_refused(0, "rank 2");
	jobs_join(1, jobs_join_message("b", 0, 2));
	assert_string_equal(waiting_text(1), "");
	jobs_join(2, jobs_join_message("a", 0, 2));
	assert_string_equal(waiting_text(2), jobs_refusal(0));
	jobs_join(3, jobs_join_message("a", 1, 2));
	assert_non_null(jobs_admitted(2));
}

/* The same rank has come again, or long ago: that is no news. */
JOBS_TEST(an_old_refusal_is_forgotten)
{
	SmlControl__Join join = jobs_join_message("a", 1, 2);

	join.shards = 0;
	jobs_join(0, join);
	assert_string_not_equal(jobs_refusal(0), "");
	jobs_join(1, jobs_join_message("a", 1, 2));
	assert_string_equal(waiting_text(1), "");
	jobs_join(2, jobs_join_message("c", 2, 2));
	jobs_wait(11 * SML_SECOND_NS);
	jobs_join(3, jobs_join_message("c", 0, 2));
	assert_string_equal(waiting_text(3), "");
}

/*
 * A release with more fields whose protocol number was not raised: the refusal contains our
 * number.
 */
JOBS_TEST(a_join_of_our_own_version_says_nothing_that_we_do_not_know)
{
	SmlControl__Join join = jobs_join_message("a", 0, 2);
	ProtobufCMessageUnknownField field = {
		.tag = 99, .wire_type = PROTOBUF_C_WIRE_TYPE_VARINT, .len = 0};

	join.base.unknown_fields = &field;
	join.base.n_unknown_fields = 1;
	jobs_join(0, join);
	jobs_assert_refused(0, "rank 0 sent fields that this switch");
	jobs_assert_refused(0, SML_VERSION_STRING);
	/* A peer of another version is refused for its number, whatever else it sends. */
	join.protocol = 77;
	jobs_join(1, join);
	jobs_assert_refused(1, "version 77");
	/* Nothing is stored about either peer. */
	jobs_join_all(2, "a", 2);
	assert_non_null(jobs_admitted(2));
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

	join.wire = wire;
	return join;
}

JOBS_TEST(a_switch_without_int16_lanes_refuses_ranks_that_want_them)
{
	jobs_join(0, with_wire(SML_WIRE_INT16, "any", 0));
	jobs_join(1, with_wire(SML_WIRE_INT16, "any", 1));
	assert_false(jobs_admitted(1)->only_int32);
	world.operations.only_int32 = adds_only_int32;
	/* Each rank at once, without waiting for the others. */
	jobs_join(2, with_wire(SML_WIRE_INT16, "a", 0));
	jobs_join(3, with_wire(SML_WIRE_INT16, "a", 1));
	jobs_assert_refused(2, "floats of rank 0 travel as int16");
	jobs_assert_refused(3, "set SWITCHML_WIRE=int32 on all ranks");
	/* If only one rank wants them, the others learn why it does not come. */
	jobs_join(4, jobs_join_message("b", 0, 2));
	jobs_join(5, with_wire(SML_WIRE_INT16, "b", 1));
	assert_string_equal(jobs_refusal(4), "");
	assert_string_equal(waiting_text(4), jobs_refusal(5));
	/* All others are told what the switch adds. */
	jobs_join(6, jobs_join_message("b", 1, 2));
	assert_true(jobs_admitted(4)->only_int32);
	assert_true(jobs_admitted(6)->only_int32);
}

JOBS_TEST(a_switch_that_does_not_round_refuses_ranks_that_want_int8)
{
	world.operations.rounds = true;
	jobs_join(0, with_wire(SML_WIRE_INT8, "any", 0));
	jobs_join(1, with_wire(SML_WIRE_INT8, "any", 1));
	assert_true(jobs_admitted(1)->rounds);
	world.operations.rounds = false;
	jobs_join(2, with_wire(SML_WIRE_INT8, "a", 0));
	jobs_assert_refused(2, "floats of rank 0 travel as int8");
	jobs_assert_refused(2, "set SWITCHML_WIRE=int16 on all ranks");
	/* It has no narrow lanes to round, whatever other programs for such switches do. */
	world.operations.rounds = true;
	world.operations.only_int32 = adds_only_int32;
	jobs_join(3, with_wire(SML_WIRE_INT8, "a", 1));
	jobs_assert_refused(3, "set SWITCHML_WIRE=int32 on all ranks");
	/* All others are told. */
	jobs_join(4, jobs_join_message("b", 0, 2));
	jobs_join(5, jobs_join_message("b", 1, 2));
	assert_false(jobs_admitted(4)->rounds);
}

/* What it asked for, also beyond the longest that the switch itself waits for a rank. */
JOBS_TEST(ranks_learn_the_longest_heartbeat_of_all)
{
	SmlControl__Join slow = jobs_join_message("a", 1, 3);

	for (uint32_t rank = 0; rank < 3; rank += 2) {
		SmlControl__Join join = jobs_join_message("a", rank, 3);

		join.heartbeat_ms = 1000;
		jobs_join(rank, join);
	}
	world.jobs.config.heartbeat_ms = 20000;
	slow.heartbeat_ms = 40000;
	jobs_join(1, slow);
	for (unsigned rank = 0; rank < 3; rank++)
		assert_int_equal(jobs_admitted(rank)->heartbeat_ms, slow.heartbeat_ms);
}

JOBS_TEST(ranks_learn_whether_zeros_must_travel)
{
	for (unsigned omits = 0; omits < 2; omits++) {
		world.operations.omits = omits;
		jobs_join(2 * omits, jobs_join_message(omits ? "b" : "a", 0, 2));
		jobs_join(2 * omits + 1, jobs_join_message(omits ? "b" : "a", 1, 2));
		assert_int_equal(jobs_admitted(2 * omits)->omits, omits);
	}
}

/* ---- threads ---- */

static void say_shards(unsigned peer, uint32_t rank, uint32_t shards, bool set)
{
	SmlControl__Join join = jobs_join_message("a", rank, 2);

	join.shards = shards;
	join.shards_set = set;
	jobs_join(peer, join);
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
		char text[100];

		jobs_open(4096, 64, false);
		for (unsigned rank = 0; rank < 2; rank++)
			say_shards(rank, rank, rows[i].shards[rank], rows[i].set[rank]);
		assert_int_equal(shards_of(0), rows[i].agreed);
		if (rows[i].agreed == 0) {
			snprintf(text, sizeof(text),
				 "rank 1 says %u%s, rank 0 says %u%s: set SWITCHML_THREADS",
				 rows[i].shards[1], rows[i].set[1] ? " (set)" : "",
				 rows[i].shards[0], rows[i].set[0] ? " (set)" : "");
			jobs_assert_refused(1, text);
		}
		jobs_close();
	}
}

/* ---- lanes ---- */

JOBS_TEST(lanes_are_the_least_that_all_have)
{
	static const uint32_t joins[] = {2208, 500}, probes[] = {260, 480};

	for (uint32_t rank = 0; rank < 2; rank++) {
		SmlControl__Join join = jobs_join_message("lanes", rank, 2);

		join.lanes = joins[rank];
		jobs_join(rank, join);
	}
	for (uint32_t rank = 0; rank < 2; rank++) {
		assert_int_equal(jobs_admitted(rank)->lanes, 480);
		jobs_say(rank, message_ready(probes[rank], false, 0));
	}
	for (uint32_t rank = 0; rank < 2; rank++)
		assert_int_equal(
			jobs_received(rank, SML_CONTROL__ENVELOPE__BODY_START)->start->lanes, 256);
}

/* ---- limits ---- */

JOBS_TEST(what_waiting_jobs_claim_shrinks_no_window)
{
	char name[8];

	for (unsigned i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "idle%u", i);
		jobs_join(i, jobs_join_message(name, 0, 64));
	}
	jobs_join_all(40, "a", 2);
	assert_int_equal(world.plane.n_window_ranks, 2);
	jobs_join_all(42, "b", 3);
	assert_int_equal(world.plane.n_window_ranks, 5);
}

JOBS_TEST(waiting_names_the_missing)
{
	const SmlControl__Waiting *waiting;

	jobs_join(0, jobs_join_message("waiting", 1, 3));
	jobs_wait(SML_SECOND_NS);
	waiting = jobs_received(0, SML_CONTROL__ENVELOPE__BODY_WAITING)->waiting;
	assert_int_equal(waiting->n_missing, 2);
	assert_int_equal(waiting->missing[0], 0);
	assert_int_equal(waiting->missing[1], 2);
}

JOBS_TEST(nobody_waits_for_ever)
{
	SmlControl__Join join = jobs_join_message("a", 0, 2);

	join.wait_ms = 300000;
	jobs_join(0, join);
	jobs_wait(299 * SML_SECOND_NS);
	assert_string_equal(jobs_refusal(0), "");
	jobs_wait(2 * SML_SECOND_NS);
	jobs_assert_refused(0, "did not join");
	assert_int_equal(world.jobs.n_jobs, 0);
	assert_int_equal(world.jobs.n_members, 0);
}

JOBS_TEST(members_have_a_limit)
{
	world.jobs.config.max_members = 3;
	jobs_join_all(0, "a", 2);
	jobs_join_all(2, "b", 2);
	assert_string_equal(jobs_refusal(2), "");
	jobs_assert_refused(3, "at its limit of");
	/* Members are counted correctly, however they leave. */
	jobs_leave(2);
	jobs_hang_up(0);
	assert_int_equal(world.jobs.n_members, 0);
}

WORLD_TEST(rank_0s_own_port_is_for_its_job_alone)
{
	SmlControl__Join join = jobs_embedded_join("other", 0, 2);
	const SmlControl__Envelope *waiting;

	jobs_open(4096, 64, true);
	world.jobs.config.only_job = "mine";
	world.jobs.config.only_world_size = 2;
	jobs_join(0, join);
	jobs_assert_refused(0, "serves job \"mine\"");
	join.job = (char *)(uintptr_t) "mine";
	join.world_size = 3;
	jobs_join(1, join);
	jobs_assert_refused(1, "rank 0 says 2");
	assert_int_equal(world.jobs.n_jobs, 0);
	join.world_size = 2;
	jobs_join(2, join);
	assert_string_equal(jobs_refusal(2), "");
	/* Rank 0 goes on in the next one, for which another rank has come too early. */
	join.job = (char *)(uintptr_t) "next";
	join.rank = 1;
	jobs_join(3, join);
	jobs_assert_refused(3, "serves job \"mine\"");
	world.jobs.config.only_job = "next";
	sml_jobs_serve_next(&world.jobs, 2, world.now_ns);
	jobs_assert_refused(2, "rank 0 goes on in job \"next\"");
	assert_int_equal(world.jobs.n_jobs, 0);
	join.rank = 0;
	jobs_join(4, join);
	waiting = jobs_received(4, SML_CONTROL__ENVELOPE__BODY_WAITING);
	assert_true(waiting != NULL && waiting->waiting->refused[0] == '\0');
	join.rank = 1;
	jobs_join(5, join);
	assert_non_null(jobs_admitted(5));
}
