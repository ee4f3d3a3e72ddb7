/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plan for resuming after a switch has died, merged from reports that are written by hand.
 * test_resume.c has the ranks' side.
 */
#include <stdbool.h>
#include <time.h>

#include "core/resume.h"
#include "support/test.h"

#define CAPACITY 8
#define LIST(...)                                                                                  \
	(const uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)
#define NOTHING NULL, 0

static struct sml_resume_handover handovers[CAPACITY];
static uint32_t table[CAPACITY];
static struct sml_resume_plan plan;
static const struct sml_resume_report *merged;
static unsigned n_merged;

static int merge(const struct sml_resume_report *reports, unsigned n_ranks)
{
	plan = (struct sml_resume_plan){.handovers = handovers, .table = table};
	merged = reports;
	n_merged = n_ranks;
	return sml_resume_merge(reports, n_ranks, &plan, CAPACITY);
}

static void assert_table(const uint32_t *expected, uint32_t n)
{
	assert_int_equal(plan.n_table, n);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(table[i], expected[i]);
}

static void assert_handover(uint32_t i, uint32_t chunk, uint8_t from, uint64_t to)
{
	assert_in_range(i, 0, plan.n_handovers - 1);
	assert_int_equal(handovers[i].chunk, chunk);
	assert_int_equal(handovers[i].from, from);
	assert_false(handovers[i].done);
	for (unsigned rank = 0; rank < n_merged; rank++)
		assert_int_equal(sml_resume_lacks(&merged[rank], chunk), to >> rank & 1);
}

TEST(nobody_began_and_all_begin_again)
{
	const struct sml_resume_report reports[] = {{4, LIST(0, 1, 2, 3), NOTHING},
						    {4, LIST(0, 1, 2, 3), NOTHING}};

	assert_int_equal(merge(reports, 2), 0);
	assert_table(LIST(0, 1, 2, 3));
	assert_int_equal(plan.n_handovers, 0);
	assert_int_equal(plan.after, 4);
}

TEST(all_have_everything_and_go_on_behind_it)
{
	const struct sml_resume_report reports[] = {{7, NOTHING, LIST(5, 6)},
						    {7, NOTHING, LIST(5, 6)}};

	assert_int_equal(merge(reports, 2), 0);
	assert_table(NOTHING);
	assert_int_equal(plan.n_handovers, 0);
	assert_int_equal(plan.after, 7);
}

TEST(what_some_have_is_handed_over_by_the_first_who_keeps_it)
{
	/*
	 * Chunk 4 reached only ranks 1 and 2, and chunk 5 reached no rank. Rank 1's next ticket
	 * was 6.
	 */
	const struct sml_resume_report reports[] = {{6, LIST(4, 5), LIST(2, 3)},
						    {7, LIST(5, 6), LIST(3, 4)},
						    {7, LIST(5, 6), LIST(3, 4)}};

	assert_int_equal(merge(reports, 3), 0);
	assert_int_equal(plan.n_handovers, 1);
	assert_handover(0, 4, 1, 1);
	assert_table(LIST(5, 6));
	assert_int_equal(plan.after, 7);
}

TEST(a_hole_below_the_highest_is_in_the_table)
{
	/*
	 * Slot 0 drew ticket 8 for a result that reached only rank 1. Slot 1 drew 9, and all
	 * ranks have seen that, so 8 is below the highest.
	 */
	const struct sml_resume_report reports[] = {{10, LIST(6, 8, 9), LIST(5, 7)},
						    {10, LIST(8, 9), LIST(6, 7)}};

	assert_int_equal(merge(reports, 2), 0);
	assert_int_equal(plan.n_handovers, 1);
	assert_handover(0, 6, 1, 1);
	assert_table(LIST(8, 9));
	assert_int_equal(plan.after, 10);
}

TEST(a_rank_that_is_behind_lacks_all_beyond_what_it_saw)
{
	/* Rank 0 saw nothing of 4 and 5, so they are not in its list. */
	const struct sml_resume_report reports[] = {{4, LIST(3), LIST(1, 2)},
						    {6, LIST(5), LIST(3, 4)}};

	assert_int_equal(merge(reports, 2), 0);
	assert_int_equal(plan.n_handovers, 2);
	assert_handover(0, 3, 1, 1);
	assert_handover(1, 4, 1, 1);
	assert_table(LIST(5));
	assert_int_equal(plan.after, 6);
}

TEST(ranks_can_hand_to_each_other)
{
	const struct sml_resume_report reports[] = {{5, LIST(3, 4), LIST(1, 2)},
						    {5, LIST(2, 4), LIST(1, 3)},
						    {5, LIST(2, 3, 4), LIST(1)}};

	assert_int_equal(merge(reports, 3), 0);
	assert_int_equal(plan.n_handovers, 2);
	assert_handover(0, 2, 0, 6);
	assert_handover(1, 3, 1, 5);
	assert_table(LIST(4));
}

TEST(chunk_numbers_may_wrap_around_in_a_plan)
{
	const uint32_t last = UINT32_MAX;
	const struct sml_resume_report reports[] = {{2, LIST(last, 0, 1), LIST(last - 1)},
						    {1, LIST(last - 1, 0), LIST(last)}};

	assert_int_equal(merge(reports, 2), 0);
	assert_int_equal(plan.n_handovers, 2);
	assert_handover(0, last - 1, 0, 2);
	assert_handover(1, last, 1, 1);
	assert_table(LIST(0, 1));
	assert_int_equal(plan.after, 2);
}

TEST(a_rank_alone_needs_no_hand_over)
{
	const struct sml_resume_report report = {6, LIST(2, 5), LIST(3, 4)};

	assert_int_equal(merge(&report, 1), 0);
	assert_table(LIST(2, 5));
	assert_int_equal(plan.n_handovers, 0);
	assert_int_equal(plan.after, 6);
}

TEST(reports_that_cannot_be_are_refused)
{
	/* Rank 1 has chunk 1 and has not kept it, although rank 0 lacks it. */
	const struct sml_resume_report forgotten[] = {{2, LIST(0, 1), NOTHING},
						      {2, LIST(0), NOTHING}};
	/* The rank that keeps it says that it lacks it. */
	const struct sml_resume_report two_minds[] = {{2, LIST(0, 1), LIST(1)},
						      {2, LIST(0), NOTHING}};

	assert_int_equal(merge(forgotten, 2), -2);
	assert_int_equal(merge(two_minds, 2), -2);
}

TEST(a_plan_too_long_is_refused)
{
	const struct sml_resume_report far = {1000000, NOTHING, NOTHING};
	const struct sml_resume_report near[] = {far, {0, NOTHING, NOTHING}};
	const struct sml_resume_report lacking = {9, LIST(0, 1, 2, 3, 4, 5, 6, 7, 8), NOTHING};
	const struct sml_resume_report fits = {9, LIST(1, 2, 3, 4, 5, 6, 7, 8), NOTHING};

	assert_int_equal(merge(&lacking, 1), -1);
	assert_int_equal(merge(&fits, 1), 0);
	assert_int_equal(plan.n_table, CAPACITY);
	assert_int_equal(merge(near, 2), -2);
}

/* The most that strangers can report, in the worst order: this once took seven seconds. */
TEST(merging_the_longest_reports_takes_no_time)
{
	enum { MOST = 2 * 4096, RANKS = 64 };
	static uint32_t lacking[MOST], kept[RANKS][MOST];
	static struct sml_resume_handover many[MOST];
	static uint32_t long_table[MOST];
	struct sml_resume_plan longest = {.handovers = many, .table = long_table};
	struct sml_resume_report reports[RANKS];
	clock_t began;

	for (uint32_t i = 0; i < MOST; i++) {
		lacking[i] = i;
		for (uint32_t r = 0; r < RANKS; r++)
			/* Only the last rank keeps what rank 0 lacks. */
			kept[r][i] = MOST - 1 - i + (r < RANKS - 1 ? MOST : 0);
	}
	began = clock();
	for (uint32_t r = 0; r < RANKS; r++) {
		sml_resume_sort(kept[r], MOST);
		reports[r] = (struct sml_resume_report){.beyond = MOST,
							.lacking = lacking,
							.n_lacking = r == 0 ? MOST : 0,
							.kept = kept[r],
							.n_kept = MOST};
	}
	assert_int_equal(sml_resume_merge(reports, RANKS, &longest, MOST), 0);
	assert_int_equal(longest.n_handovers, MOST);
	assert_int_equal(many[MOST - 1].from, RANKS - 1);
	/* CPU time, also with sanitizers. */
	assert_in_range(clock() - began, 0, 2 * CLOCKS_PER_SEC);
}

TEST(chunks_are_sorted_as_numbers)
{
	uint32_t chunks[1000], seed = 1;

	for (uint32_t n = 0; n <= 1000; n += n < 8 ? 1 : 124) {
		for (uint32_t i = 0; i < n; i++)
			chunks[i] = (seed = seed * 1664525u + 1013904223u) >> (i % 3 ? 0 : 24);
		sml_resume_sort(chunks, n);
		for (uint32_t i = 1; i < n; i++)
			assert_true(chunks[i - 1] <= chunks[i]);
	}
}
