/* SPDX-License-Identifier: BSD-3-Clause */
/* A root with two leaves, without sockets: many ranks, and ranks of one machine. */
#include <string.h>

#include "control/envelope.h"
#include "support/test.h"
#include "support/tree.h"

/* ---- many ranks ---- */

#define RACK	52
#define N_RANKS (2 * RACK)

/* Two leaves, peers 0 and 1, with half of the ranks each: number 1000 + rank. */
static void run_racks(void)
{
	jobs_open(4096, 64, false);
	for (unsigned leaf = 0; leaf < 2; leaf++)
		tree_attach(leaf, 4096);
	for (uint32_t rank = 0; rank < N_RANKS; rank++)
		tree_relay_join(rank / RACK, 1000 + rank, rank, N_RANKS);
	for (uint32_t rank = 0; rank < N_RANKS; rank++)
		tree_relay_ready(rank / RACK, 1000 + rank);
	for (unsigned leaf = 0; leaf < 2; leaf++)
		tree_leaf_ready(leaf, 352);
}

WORLD_TEST(more_ranks_than_children_run_behind_leaves)
{
	SmlControl__Envelope *told;

	run_racks();
	assert_int_equal(world.jobs.n_jobs, 1);
	for (unsigned leaf = 0; leaf < 2; leaf++) {
		const SmlControl__Admitted *job = tree_leaf_job(leaf);

		assert_int_equal(job->behind->world_size, N_RANKS);
		assert_int_equal(job->behind->n_ranks, RACK);
		for (uint32_t i = 0; i < RACK; i++) {
			assert_int_equal(job->behind->ranks[i], leaf * RACK + i);
			assert_int_equal(job->behind->peers[i], 1000 + leaf * RACK + i);
		}
		assert_int_equal(world.plane.jobs[job->job_number % SML_MAX_JOBS].n_ranks, 2);
	}
	assert_non_null(tree_relayed(1, 1000 + 103, SML_CONTROL__ENVELOPE__BODY_START));
	tree_relay_end(1, 1000 + 77, false);
	for (uint32_t rank = 0; rank < N_RANKS; rank++) {
		if (rank == 77)
			continue;
		told = tree_relayed(rank / RACK, 1000 + rank, SML_CONTROL__ENVELOPE__BODY_ABORT);
		assert_non_null(told);
		assert_string_equal(told->abort->text,
				    "rank 77 (host testhost, pid 1077) died: its connection ended");
	}
}

JOBS_TEST(ranks_that_wait_are_told_of_a_few_that_are_missing)
{
	SmlControl__Envelope *told;

	tree_attach(0, 4096);
	tree_relay_join(0, 1000, 4095, 4096);
	told = tree_relayed(0, 1000, SML_CONTROL__ENVELOPE__BODY_WAITING);
	assert_non_null(told);
	assert_int_equal(told->waiting->n_missing, 64);
	assert_int_equal(told->waiting->missing[63], 63);
	assert_int_equal(told->waiting->more, 4095 - 64);
	/* The next one is told at once, and the first one soon: not for each that comes. */
	for (uint32_t rank = 0; rank < 64; rank++)
		tree_relay_join(0, 2000 + rank, rank, 4096);
	told = tree_relayed(0, 2063, SML_CONTROL__ENVELOPE__BODY_WAITING);
	assert_non_null(told);
	assert_int_equal(told->waiting->missing[0], 64);
	told = tree_relayed(0, 1000, SML_CONTROL__ENVELOPE__BODY_WAITING);
	assert_int_equal(told->waiting->missing[0], 0);
	jobs_wait_silently(SML_TICK_NS);
	told = tree_relayed(0, 1000, SML_CONTROL__ENVELOPE__BODY_WAITING);
	assert_int_equal(told->waiting->missing[0], 64);
}

TEST(a_switch_has_room_for_64_children)
{
	SmlControl__Envelope *told;
	const char *text;

	jobs_open(4096, 64, false);
	world.jobs.config.name = "spine:28500";
	tree_attach(0, 4096);
	jobs_join_all(1, "tree", 65);
	assert_int_equal(world.jobs.n_jobs, 0);
	text = jobs_refusal(65);
	assert_non_null(strstr(text, "a switch takes at most 64 ranks and leaves of a job, but 65 "
				     "of 65 ranks have joined at the switch spine:28500"));
	assert_non_null(strstr(text, "`switchml switch --parent spine:28500'"));
	assert_string_equal(text, jobs_refusal(1));
	jobs_close();

	/* 63 ranks and a leaf have room; a leaf is a child, too. */
	for (uint32_t n_direct = 63; n_direct <= 64; n_direct++) {
		jobs_open(4096, 64, false);
		tree_attach(0, 4096);
		tree_relay_join(0, 70, 64, 66);
		tree_relay_join(0, 71, 65, 66);
		for (uint32_t rank = 0; rank < n_direct; rank++)
			jobs_join(1 + rank, jobs_join_message("tree", rank, 66));
		if (n_direct == 63)
			tree_relay_join(0, 72, 63, 66);
		told = tree_relayed(0, 70,
				    n_direct == 63 ? SML_CONTROL__ENVELOPE__BODY_ADMITTED
						   : SML_CONTROL__ENVELOPE__BODY_ABORT);
		assert_non_null(told);
		jobs_close();
	}
}

WORLD_TEST(a_leaf_names_no_ranks_of_another)
{
	static const uint32_t pairs[][2] = {{0, RACK},	    {0, N_RANKS},    {0, 4095},
					    {0, 4096},	    {0, 65536},	     {0, UINT32_MAX},
					    {65536, 65537}, {RACK, RACK + 1}};
	SmlControl__Mismatch mismatch = SML_CONTROL__MISMATCH__INIT;

	run_racks();
	mismatch.n_ranks = 2;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		mismatch.ranks = (uint32_t *)(uintptr_t)pairs[i];
		jobs_say(0, sml_envelope_of(tree_leaf_job(0)->job_number, MISMATCH, mismatch,
					    &mismatch));
		for (uint32_t rank = 0; rank < N_RANKS; rank++)
			assert_null(tree_relayed(rank / RACK, 1000 + rank,
						 SML_CONTROL__ENVELOPE__BODY_DESCRIBE));
	}
}

/* The last rank asks. */
static void ask_for_stalls(void)
{
	tree_relay_empty(1, 1000 + 103, SML_CONTROL__ENVELOPE__BODY_STALL_REQUEST);
}

/* The first leaf's slots wait for ranks 3, 60 and more; it may speak only for the first of them. */
WORLD_TEST(what_a_leaf_waits_for_is_reduced_to_its_ranks)
{
	uint8_t ranks[] = {1u << 3, 0, 0, 0, 0, 0, 0, 1u << 4}, beyond[] = {[13] = 1};
	ProtobufCBinaryData sets[] = {{sizeof(ranks), ranks}, {sizeof(beyond), beyond}};
	SmlControl__SlotState states[2], *slots[2] = {&states[0], &states[1]};
	SmlControl__StallReport told = SML_CONTROL__STALL_REPORT__INIT;
	const SmlControl__StallReport *report;
	SmlControl__Envelope *answer;

	run_racks();
	/* Slot 0 waits for both leaves. */
	world.plane.slots_lack = 3;
	ask_for_stalls();
	for (unsigned i = 0; i < 2; i++)
		sml_control__slot_state__init(&states[i]);
	told.slots = slots;
	told.n_slots = 2;
	told.sets = sets;
	told.n_sets = 2;
	states[0].set = 1;
	states[1].slot = 1;
	states[1].set = 2;
	jobs_say(0,
		 sml_envelope_of(tree_leaf_job(0)->job_number, STALL_REPORT, stall_report, &told));
	ranks[0] = 0;
	ranks[7] = 1u << 4;
	told.n_slots = 1;
	jobs_say(1,
		 sml_envelope_of(tree_leaf_job(0)->job_number, STALL_REPORT, stall_report, &told));
	answer = tree_relayed(1, 1000 + 103, SML_CONTROL__ENVELOPE__BODY_STALL_REPORT);
	assert_non_null(answer);
	report = answer->stall_report;
	assert_int_equal(report->n_slots, 1);
	assert_int_equal(report->n_ranks, N_RANKS);
	assert_int_equal(report->slots[0]->set, 1);
	/* Ranks 3 and 60. */
	assert_int_equal(report->sets[0].len, 8);
	assert_int_equal(report->sets[0].data[0], 1u << 3);
	assert_int_equal(report->sets[0].data[7], 1u << 4);
}

/* It would not be asked again. Peer 0 is a leaf that reads nothing for a while. */
WORLD_TEST(a_leaf_that_reads_slowly_is_asked_all_the_same)
{
	run_racks();
	world.plane.slots_lack = 3;
	world.peers[0].deaf = true;
	ask_for_stalls();
	assert_non_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_STALL_REQUEST));
}

/* Peer 0 is a leaf that pings, and never answers; the job goes on, and its ranks get a report. */
WORLD_TEST(ranks_do_not_wait_for_a_leaf_that_says_nothing)
{
	SmlControl__StallReport told = SML_CONTROL__STALL_REPORT__INIT;
	SmlControl__SlotState slot = SML_CONTROL__SLOT_STATE__INIT, *slots[1] = {&slot};
	uint8_t rank_60[] = {0, 0, 0, 0, 0, 0, 0, 1u << 4};
	ProtobufCBinaryData set = {sizeof(rank_60), rank_60};
	SmlControl__Envelope *answer;

	run_racks();
	world.plane.slots_lack = 3;
	slot.set = 1;
	told.slots = slots;
	told.sets = &set;
	told.n_slots = told.n_sets = 1;
	for (unsigned time = 0; time < 3; time++) {
		unsigned n_said = world.peers[1].n_said;

		ask_for_stalls();
		jobs_say(1, sml_envelope_of(tree_leaf_job(0)->job_number, STALL_REPORT,
					    stall_report, &told));
		jobs_wait(3 * SML_ANSWER_NS);
		assert_true(world.peers[1].n_said > n_said);
		answer = tree_relayed(1, 1000 + 103, SML_CONTROL__ENVELOPE__BODY_STALL_REPORT);
		assert_non_null(answer);
		/* Of the other leaf's ranks, only the one that it has named is blamed. */
		assert_int_equal(answer->stall_report->n_slots, 1);
		assert_int_equal(answer->stall_report->sets[0].len, 8);
		assert_int_equal(answer->stall_report->sets[0].data[7], 1u << 4);
	}
	assert_int_equal(world.jobs.n_jobs, 1);
}

/* ---- ranks of one machine behind leaves ---- */

/* A rank on a machine, connected to the leaf that drew this home. */
static void relay_machine(unsigned leaf, uint32_t number, uint32_t rank, uint32_t n,
			  uint8_t machine, uint64_t home)
{
	SmlControl__Join join = jobs_join_message("tree", rank, n);
	uint8_t token[SML_HOST_TOKEN] = {(uint8_t)(rank + 1)};

	join.machine = (ProtobufCBinaryData){1, &machine};
	join.host_token = (ProtobufCBinaryData){sizeof(token), token};
	tree_relay_home(leaf, number, sml_envelope(JOIN, join, &join), 4096, 352, home);
}

/*
 * All on one machine: ranks 0 and 2 at one leaf, 1 at a leaf of it, 3 and 4 at another leaf. Number
 * of rank r: 50 + r.
 */
static void run_machine(void)
{
	jobs_open(4096, 64, false);
	tree_attach(0, 4096);
	tree_attach(1, 4096);
	relay_machine(0, 50, 0, 5, 'a', 11);
	relay_machine(0, 51, 1, 5, 'a', 12);
	relay_machine(0, 52, 2, 5, 'a', 11);
	relay_machine(1, 53, 3, 5, 'a', 13);
	relay_machine(1, 54, 4, 5, 'a', 13);
}

WORLD_TEST(ranks_that_meet_at_one_leaf_are_one_host)
{
	static const uint32_t firsts[] = {0, 1, 0}, others[] = {3, 3};
	const SmlControl__Admitted *job;
	SmlControl__Envelope *admitted;

	run_machine();
	job = tree_leaf_job(0);
	assert_int_equal(job->behind->n_hosts, 3);
	assert_memory_equal(job->behind->hosts, firsts, sizeof(firsts));
	job = tree_leaf_job(1);
	assert_int_equal(job->behind->n_hosts, 2);
	assert_memory_equal(job->behind->hosts, others, sizeof(others));
	admitted = tree_relayed(0, 52, SML_CONTROL__ENVELOPE__BODY_ADMITTED);
	assert_int_equal(admitted->admitted->shards, 1);
	assert_int_equal(admitted->admitted->host_group->n_ranks, 2);
	assert_int_equal(admitted->admitted->host_group->ranks[0], 0);
	assert_int_equal(admitted->admitted->host_group->ranks[1], 2);
	admitted = tree_relayed(0, 51, SML_CONTROL__ENVELOPE__BODY_ADMITTED);
	assert_null(admitted->admitted->host_group);
}

/* The leaves lose the job of the first admission before they get the second one. */
WORLD_TEST(ranks_behind_a_leaf_without_memory_are_admitted_again)
{
	static const uint32_t alone[] = {0, 1, 2};
	uint32_t before;

	run_machine();
	before = tree_leaf_job(0)->job_number;
	tree_leaf_ready(0, 352);
	tree_leaf_ready(1, 352);
	for (uint32_t rank = 0; rank < 5; rank++)
		tree_relay(rank / 3, 50 + rank, message_ready(352, rank != 4, 0));
	assert_null(tree_relayed(0, 50, SML_CONTROL__ENVELOPE__BODY_START));
	for (unsigned leaf = 0; leaf < 2; leaf++) {
		assert_int_equal(jobs_received(leaf, SML_CONTROL__ENVELOPE__BODY_ABORT)->job,
				 before);
		assert_int_not_equal(tree_leaf_job(leaf)->job_number, before);
	}
	assert_memory_equal(tree_leaf_job(0)->behind->hosts, alone, sizeof(alone));
	assert_int_equal(world.jobs.branches->slots_in_use, world.jobs.slots_in_use);
	tree_leaf_ready(0, 352);
	tree_leaf_ready(1, 352);
	for (uint32_t rank = 0; rank < 5; rank++)
		tree_relay_ready(rank / 3, 50 + rank);
	assert_non_null(tree_relayed(0, 50, SML_CONTROL__ENVELOPE__BODY_START));
}
