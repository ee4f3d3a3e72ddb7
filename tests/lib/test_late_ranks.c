/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which ranks a call waits for, where rank 0 has answered little or nothing: ranks that share
 * memory can all look at it. tests/lib/test_late.c has what a user sees.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/diagnose/stall.h"
#include "lib/host/slots.h"
#include "lib/progress/question.h"
#include "lib/progress/threads.h"
#include "support/test.h"

#define OWN_RANK 1
#define N_RANKS	 3
#define N_SLOTS	 5

struct world {
	struct sml_host hosts[N_RANKS];
	struct sml_threads threads; /* of rank OWN_RANK */
	struct sml_stall_report *told;
	struct sml_stall_reports reports;
	struct sml_stall_lacking lacking;
	struct sml_ranks found;
	void *bytes;
};

/* Ranks 0 and 1 have contributed to a use of slot 4, and rank 2 has not. */
static void open_world(struct world *world, bool goes_up)
{
	const struct sml_host_terms terms = {.job = 7,
					     .lanes = 32,
					     .head_slots = 2,
					     .data_slots = 3,
					     .n_ranks = N_RANKS,
					     .goes_up = goes_up};
	const struct sml_contribution in = {
		.slot = 4, .digest = 100, .lanes = 32, .op = SML_LANE_SUM};
	size_t bytes = sml_host_bytes(&terms);

	*world = (struct world){.bytes = aligned_alloc(4096, bytes)};
	assert_non_null(world->bytes);
	memset(world->bytes, 0, bytes);
	for (uint8_t rank = 0; rank < N_RANKS; rank++) {
		struct sml_host *host = &world->hosts[rank];

		sml_host_lay_out(&host->memory, &terms, world->bytes);
		host->sleepers = host->memory.head;
		host->rank = rank;
		for (uint16_t other = 0; other < N_RANKS; other++)
			host->job_ranks[other] = other;
		if (rank < 2)
			assert_int_equal(sml_host_arrive(host, &in, 1), rank);
	}
	world->threads.host = &world->hosts[OWN_RANK];
}

static void close_world(struct world *world)
{
	sml_stall_report_close(world->told);
	sml_stall_reports_close(&world->reports);
	free(world->bytes);
}

/* It says where rank 2 is, and of its slots, that it could not look at all of them. */
static struct sml_stall_report *new_answer(void)
{
	struct sml_stall_report *answer = sml_stall_report_open(N_SLOTS, N_RANKS);

	assert_non_null(answer);
	answer->waits.is_partial = true;
	answer->ranks[2] = (struct sml_stall_rank){
		.host = "gpu2", .pid = 88, .connected = true, .heard = true};
	return answer;
}

static void expect_only(struct world *world, unsigned rank)
{
	world->reports.of[0] = sml_question_complete(&world->threads, 0, world->told, NULL, false);
	sml_stall_gather(&world->reports, N_RANKS, &world->lacking);
	sml_stall_find_late(&world->lacking, OWN_RANK, &world->found);
	assert_int_equal(sml_ranks_count(&world->found), 1);
	assert_true(sml_ranks_has(&world->found, rank));
}

TEST(without_an_answer_a_rank_looks_itself)
{
	struct world world;

	open_world(&world, false);
	expect_only(&world, 2);
	close_world(&world);
}

TEST(where_an_answer_has_no_slots_a_rank_looks_itself_and_keeps_the_names)
{
	char hosts[SML_STALL_HOSTS_BYTES];
	struct world world;

	open_world(&world, false);
	world.told = new_answer();
	expect_only(&world, 2);
	sml_stall_name_hosts(&world.lacking, &world.found, hosts);
	assert_string_equal(hosts, " (gpu2, pid 88)");
	close_world(&world);
}

/* The slot that is missing may be the one that waits. */
TEST(where_an_answer_lacks_slots_a_rank_looks_itself)
{
	struct sml_ranks all = {{0}};
	struct world world;

	open_world(&world, false);
	for (unsigned rank = 0; rank < N_RANKS; rank++)
		sml_ranks_add(&all, rank);
	world.told = new_answer();
	sml_waits_note(&world.told->waits, 3, 0, &all);
	expect_only(&world, 2);
	close_world(&world);
}

TEST(an_answer_of_all_slots_counts)
{
	struct sml_ranks ranks = {{0}};
	struct world world;

	open_world(&world, false);
	sml_ranks_add(&ranks, 0);
	world.told = new_answer();
	world.told->waits.is_partial = false;
	sml_waits_note(&world.told->waits, 4, 0, &ranks);
	expect_only(&world, 0);
	close_world(&world);
}

/* The memory shows only the ranks of this host, and the switch knows of others. */
TEST(where_sums_go_to_a_switch_its_answer_counts_and_the_memory_completes_it)
{
	struct sml_ranks host = {{0}};
	struct world world;

	open_world(&world, true);
	for (unsigned rank = 0; rank < N_RANKS; rank++)
		sml_ranks_add(&host, rank);
	world.told = new_answer();
	sml_waits_note(&world.told->waits, 4, 0, &host);
	expect_only(&world, 2);
	close_world(&world);
}
