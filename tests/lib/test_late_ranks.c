/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which ranks a call waits for, where rank 0 has answered little or nothing: ranks that share
 * memory can all look at it. tests/lib/test_late.c has what a user sees.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/diagnose/diagnose.h"
#include "lib/host/slots.h"
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

/* It says where rank 2 is. */
static struct sml_stall_report *new_answer(void)
{
	struct sml_stall_report *answer = sml_stall_report_open(N_SLOTS, N_RANKS);

	assert_non_null(answer);
	answer->ranks[2] = (struct sml_stall_rank){
		.host = "gpu2", .pid = 88, .connected = true, .heard = true};
	return answer;
}

/* What rank 0 tells of one slot, and which rank the call waits for then. */
static const struct row {
	const char *what;
	bool goes_up, told, partial;
	int slot;	      /* -1: it tells of none */
	unsigned ranks, late; /* as bits; the rank */
} rows[] = {
	{"without an answer, a rank looks itself", false, false, false, -1, 0, 2},
	{"where an answer has no slots, too", false, true, true, -1, 0, 2},
	/* The slot that is missing may be the one that waits. */
	{"where an answer lacks slots, too", false, true, true, 3, 7, 2},
	{"an answer of all slots counts", false, true, false, 4, 1 << 0, 0},
	/* The memory shows only the ranks of this host, and the switch knows of others. */
	{"where sums go to a switch, the memory completes its answer", true, true, true, 4, 7, 2},
};

TEST(a_call_waits_for_whom_the_answer_or_the_memory_shows)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		char hosts[SML_STALL_HOSTS_BYTES];
		struct sml_ranks ranks = {{0}};
		struct world world;

		print_message("%s\n", row->what);
		open_world(&world, row->goes_up);
		for (unsigned rank = 0; rank < N_RANKS; rank++)
			if (row->ranks >> rank & 1)
				sml_ranks_add(&ranks, rank);
		world.told = row->told ? new_answer() : NULL;
		if (row->told)
			world.told->waits.is_partial = row->partial;
		if (row->slot >= 0)
			sml_waits_note(&world.told->waits, (uint32_t)row->slot, 0, &ranks);
		world.reports.of[0] =
			sml_question_complete(&world.threads, 0, world.told, NULL, false);
		sml_stall_gather(&world.reports, N_RANKS, &world.lacking);
		sml_stall_find_late(&world.lacking, OWN_RANK, &world.found);
		assert_int_equal(sml_ranks_count(&world.found), 1);
		assert_true(sml_ranks_has(&world.found, row->late));
		sml_stall_name_hosts(&world.lacking, &world.found, hosts);
		assert_string_equal(hosts, row->told && row->late == 2 ? " (gpu2, pid 88)" : "");
		close_world(&world);
	}
}
