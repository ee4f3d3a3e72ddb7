/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank dies after it has asked to leave, and the call that the others wait in has not come to the
 * switch: they share memory, or are all behind one leaf (job/states/liveness.c).
 */
#include <string.h>

#include "control/envelope.h"
#include "support/test.h"
#include "support/tree.h"

/* Two looks and a bit. */
#define SOON_NS (2 * SML_SECOND_NS)

static unsigned n_asked(const struct jobs_world *world, unsigned peer)
{
	unsigned n = 0;

	for (unsigned i = 0; i < world->peers[peer].n_said; i++)
		n += world->peers[peer].said[i]->body_case ==
		     SML_CONTROL__ENVELOPE__BODY_STALL_REQUEST;
	return n;
}

static const char died[] = "rank 1 (host testhost, pid 1001) died after it had asked to leave, but "
			   "other ranks are waiting for it in a call that it did not make";

/* ---- shared memory ---- */

/* Rank 1 of the host of ranks 0, 1 and 2 has asked to leave, and is gone. */
static void lose_leaver(struct jobs_world *world, const char *machines)
{
	jobs_join_from(world, machines, false);
	(void)jobs_start_host(world, (uint32_t)strlen(machines), UINT32_MAX);
	jobs_leave(world, 1);
	jobs_hang_up(world, 1);
}

/* In this peer's memory, a slot waits for these ranks (bits); 0: none does. */
static void tell(struct jobs_world *world, unsigned peer, uint8_t ranks)
{
	SmlControl__StallReport report = SML_CONTROL__STALL_REPORT__INIT;
	SmlControl__SlotState slot = SML_CONTROL__SLOT_STATE__INIT, *slots[1] = {&slot};
	ProtobufCBinaryData set = {1, &ranks};

	report.slots = slots;
	report.sets = &set;
	report.n_slots = report.n_sets = ranks != 0;
	slot.set = 1;
	jobs_say(world, peer, sml_envelope(STALL_REPORT, stall_report, &report));
}

/* Each question is answered at once, for so long. */
static void answer_for(struct jobs_world *world, unsigned peer, uint8_t ranks, uint64_t ns)
{
	unsigned n = n_asked(world, peer);

	for (uint64_t end_ns = world->now_ns + ns;
	     world->now_ns < end_ns && !world->peers[peer].ended;) {
		jobs_wait(world, SML_TICK_NS);
		if (n_asked(world, peer) > n)
			tell(world, peer, ranks);
		n = n_asked(world, peer);
	}
}

static void assert_is_missed(struct jobs_world *world, unsigned witness)
{
	answer_for(world, witness, 1 << 1, SOON_NS);
	jobs_assert_refused(world, 0, died);
	jobs_assert_refused(world, 2, died);
	assert_int_equal(world->jobs.n_jobs, 0);
	jobs_close(world);
}

TEST(ranks_of_one_host_do_not_wait_for_a_leaver_that_died)
{
	struct jobs_world world;

	lose_leaver(&world, "aaa");
	assert_is_missed(&world, 0);
}

TEST(ranks_of_several_hosts_do_not_wait_either)
{
	struct jobs_world world;

	lose_leaver(&world, "aaabb");
	assert_is_missed(&world, 0);
}

/* The leader, which sends the host's packets, is the one that has gone. */
WORLD_TEST(the_next_rank_is_asked_where_the_leader_has_gone)
{
	jobs_join_from(world, "aaa", false);
	(void)jobs_start_host(world, 3, UINT32_MAX);
	jobs_leave(world, 0);
	jobs_hang_up(world, 0);
	answer_for(world, 1, 1 << 0, SOON_NS);
	jobs_assert_refused(world, 2, "rank 0 (host testhost, pid 1000) died");
}

WORLD_TEST(they_finish_if_they_make_no_call_without_it)
{
	lose_leaver(world, "aaa");
	/* A slot may wait for a rank that is late, but alive. */
	answer_for(world, 0, 1 << 2, SOON_NS);
	answer_for(world, 0, 0, SOON_NS);
	assert_int_equal(world->jobs.n_jobs, 1);
	jobs_leave(world, 0);
	jobs_leave(world, 2);
	assert_non_null(jobs_received(world, 0, SML_CONTROL__ENVELOPE__BODY_LEFT));
}

/* It may have been on its way when the rank made its last contribution. */
WORLD_TEST(one_answer_is_not_enough)
{
	lose_leaver(world, "aaa");
	while (n_asked(world, 0) == 0)
		jobs_wait(world, SML_TICK_NS);
	tell(world, 0, 1 << 1);
	answer_for(world, 0, 0, SOON_NS);
	assert_int_equal(world->jobs.n_jobs, 1);
}

WORLD_TEST(who_was_not_asked_is_not_heard)
{
	lose_leaver(world, "aaabb");
	for (unsigned i = 0; i < 20; i++) {
		jobs_wait(world, SML_TICK_NS);
		/* One of the same host, and one of another. */
		tell(world, 2, 1 << 1);
		tell(world, 3, 1 << 1);
	}
	assert_int_equal(n_asked(world, 2) + n_asked(world, 3), 0);
	assert_int_equal(world->jobs.n_jobs, 1);
}

WORLD_TEST(ranks_that_share_no_memory_are_not_asked)
{
	lose_leaver(world, "abc");
	jobs_wait(world, SOON_NS);
	assert_int_equal(n_asked(world, 0) + n_asked(world, 2), 0);
	assert_int_equal(world->jobs.n_jobs, 1);
}

/* ---- leaves ---- */

/* Rank 1 is missing in a slot of the leaf that all ranks are behind: no sum comes to the root. */
JOBS_TEST(ranks_behind_one_leaf_do_not_wait_for_a_leaver_that_died)
{
	uint8_t missing = 1 << 1;
	ProtobufCBinaryData set = {1, &missing};
	SmlControl__SlotState slot = SML_CONTROL__SLOT_STATE__INIT, *slots[1] = {&slot};
	SmlControl__StallReport told = SML_CONTROL__STALL_REPORT__INIT;

	tree_attach(world, 0, 4096);
	for (uint32_t rank = 0; rank < 3; rank++)
		tree_relay_join(world, 0, 70 + rank, rank, 3);
	for (uint32_t rank = 0; rank < 3; rank++)
		tree_relay_ready(world, 0, 70 + rank);
	tree_leaf_ready(world, 0, 352);
	tree_relay_empty(world, 0, 71, SML_CONTROL__ENVELOPE__BODY_LEAVE);
	tree_relay_end(world, 0, 71, false);
	told.slots = slots;
	told.sets = &set;
	told.n_slots = told.n_sets = 1;
	slot.set = 1;
	for (unsigned i = 0; i < 20 && world->jobs.n_jobs > 0; i++) {
		jobs_say(world, 0,
			 sml_envelope_of(tree_leaf_job(world, 0)->job_number, STALL_REPORT,
					 stall_report, &told));
		tree_relay_empty(world, 0, 70, SML_CONTROL__ENVELOPE__BODY_PING);
		tree_relay_empty(world, 0, 72, SML_CONTROL__ENVELOPE__BODY_PING);
		jobs_wait(world, SML_TICK_NS);
	}
	assert_int_equal(world->jobs.n_jobs, 0);
	assert_true(tree_was_relayed(world, 0, 70, SML_CONTROL__ENVELOPE__BODY_ABORT));
}
