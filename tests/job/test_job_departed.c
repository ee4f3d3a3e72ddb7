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

static unsigned n_asked(unsigned peer)
{
	return jobs_count(peer, SML_CONTROL__ENVELOPE__BODY_STALL_REQUEST);
}

static const char died[] = "rank 1 (host testhost, pid 1001) died after it had asked to leave, but "
			   "other ranks are waiting for it in a call that it did not make";

/* ---- shared memory ---- */

/* Rank 1 of the host of ranks 0, 1 and 2 has asked to leave, and is gone. */
static void lose_leaver(const char *machines)
{
	jobs_join_from(machines, false);
	(void)jobs_start_host((uint32_t)strlen(machines), UINT32_MAX);
	jobs_leave(1);
	jobs_hang_up(1);
}

/* In this peer's memory, a slot waits for these ranks (bits); 0: none does. */
static void tell(unsigned peer, uint8_t ranks)
{
	SmlControl__StallReport report = SML_CONTROL__STALL_REPORT__INIT;
	SmlControl__SlotState slot = SML_CONTROL__SLOT_STATE__INIT, *slots[1] = {&slot};
	ProtobufCBinaryData set = {1, &ranks};

	report.slots = slots;
	report.sets = &set;
	report.n_slots = report.n_sets = ranks != 0;
	slot.set = 1;
	jobs_say(peer, sml_envelope(STALL_REPORT, stall_report, &report));
}

/* Each question is answered at once, for so long. */
static void answer_for(unsigned peer, uint8_t ranks, uint64_t ns)
{
	unsigned n = n_asked(peer);

	for (uint64_t end_ns = world.now_ns + ns;
	     world.now_ns < end_ns && !world.peers[peer].ended;) {
		jobs_wait(SML_TICK_NS);
		if (n_asked(peer) > n)
			tell(peer, ranks);
		n = n_asked(peer);
	}
}

static void assert_is_missed(unsigned witness)
{
	answer_for(witness, 1 << 1, SOON_NS);
	jobs_assert_refused(0, died);
	jobs_assert_refused(2, died);
	assert_int_equal(world.jobs.n_jobs, 0);
	jobs_close();
}

TEST(ranks_of_one_host_do_not_wait_for_a_leaver_that_died)
{
	lose_leaver("aaa");
	assert_is_missed(0);
}

TEST(ranks_of_several_hosts_do_not_wait_either)
{
	lose_leaver("aaabb");
	assert_is_missed(0);
}

/* The leader, which sends the host's packets, is the one that has gone. */
WORLD_TEST(the_next_rank_is_asked_where_the_leader_has_gone)
{
	jobs_join_from("aaa", false);
	(void)jobs_start_host(3, UINT32_MAX);
	jobs_leave(0);
	jobs_hang_up(0);
	answer_for(1, 1 << 0, SOON_NS);
	jobs_assert_refused(2, "rank 0 (host testhost, pid 1000) died");
}

WORLD_TEST(they_finish_if_they_make_no_call_without_it)
{
	lose_leaver("aaa");
	/* A slot may wait for a rank that is late, but alive. */
	answer_for(0, 1 << 2, SOON_NS);
	answer_for(0, 0, SOON_NS);
	assert_int_equal(world.jobs.n_jobs, 1);
	jobs_leave(0);
	jobs_leave(2);
	assert_non_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_LEFT));
}

/* It may have been on its way when the rank made its last contribution. */
WORLD_TEST(one_answer_is_not_enough)
{
	lose_leaver("aaa");
	while (n_asked(0) == 0)
		jobs_wait(SML_TICK_NS);
	tell(0, 1 << 1);
	answer_for(0, 0, SOON_NS);
	assert_int_equal(world.jobs.n_jobs, 1);
}

WORLD_TEST(who_was_not_asked_is_not_heard)
{
	lose_leaver("aaabb");
	for (unsigned i = 0; i < 20; i++) {
		jobs_wait(SML_TICK_NS);
		/* One of the same host, and one of another. */
		tell(2, 1 << 1);
		tell(3, 1 << 1);
	}
	assert_int_equal(n_asked(2) + n_asked(3), 0);
	assert_int_equal(world.jobs.n_jobs, 1);
}

WORLD_TEST(ranks_that_share_no_memory_are_not_asked)
{
	lose_leaver("abc");
	jobs_wait(SOON_NS);
	assert_int_equal(n_asked(0) + n_asked(2), 0);
	assert_int_equal(world.jobs.n_jobs, 1);
}

/* ---- leaves ---- */

/* Rank 1 is missing in a slot of the leaf that all ranks are behind: no sum comes to the root. */
JOBS_TEST(ranks_behind_one_leaf_do_not_wait_for_a_leaver_that_died)
{
	uint8_t missing = 1 << 1;
	ProtobufCBinaryData set = {1, &missing};
	SmlControl__SlotState slot = SML_CONTROL__SLOT_STATE__INIT, *slots[1] = {&slot};
	SmlControl__StallReport told = SML_CONTROL__STALL_REPORT__INIT;

	tree_attach(0, 4096);
	for (uint32_t rank = 0; rank < 3; rank++)
		tree_relay_join(0, 70 + rank, rank, 3);
	for (uint32_t rank = 0; rank < 3; rank++)
		tree_relay_ready(0, 70 + rank);
	tree_leaf_ready(0, 352);
	tree_relay_empty(0, 71, SML_CONTROL__ENVELOPE__BODY_LEAVE);
	tree_relay_end(0, 71, false);
	told.slots = slots;
	told.sets = &set;
	told.n_slots = told.n_sets = 1;
	slot.set = 1;
	for (unsigned i = 0; i < 20 && world.jobs.n_jobs > 0; i++) {
		jobs_say(0, sml_envelope_of(tree_leaf_job(0)->job_number, STALL_REPORT,
					    stall_report, &told));
		tree_relay_empty(0, 70, SML_CONTROL__ENVELOPE__BODY_PING);
		tree_relay_empty(0, 72, SML_CONTROL__ENVELOPE__BODY_PING);
		jobs_wait(SML_TICK_NS);
	}
	assert_int_equal(world.jobs.n_jobs, 0);
	assert_non_null(tree_relayed(0, 70, SML_CONTROL__ENVELOPE__BODY_ABORT));
}
