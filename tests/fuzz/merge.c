/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares the plan of a resume with a plan that looks at every chunk. Also gives it reports
 * that no honest rank would send.
 */
#include <string.h>

#include "core/resume.h"
#include "fuzz/properties.h"
#include "support/guard.h"

#define MAX_RANKS  4
#define MAX_CHUNKS 12

/* What each rank has, for each chunk. */
struct truth {
	uint32_t n_ranks, n_chunks, first;
	uint32_t beyond[MAX_RANKS]; /* counted from `first` */
	bool has[MAX_RANKS][MAX_CHUNKS], keeps[MAX_RANKS][MAX_CHUNKS];
};

/* The plan, and for each hand-over the ranks that lack it, as bits. */
struct expected {
	struct sml_resume_plan plan;
	uint64_t to[MAX_CHUNKS];
};

struct reports {
	struct sml_resume_report reports[MAX_RANKS];
	uint32_t lacking[MAX_RANKS][MAX_CHUNKS], kept[MAX_RANKS][MAX_CHUNKS];
};

static void draw_truth(struct truth *truth, struct gen *gen, bool tiny)
{
	memset(truth, 0, sizeof(*truth));
	truth->n_ranks = tiny ? 2 : gen_range(gen, 1, MAX_RANKS);
	truth->n_chunks = tiny ? 3 : gen_range(gen, 0, MAX_CHUNKS);
	truth->first = gen_below(gen, 2) ? 0 : (uint32_t)-2;
	for (uint32_t r = 0; r < truth->n_ranks; r++) {
		truth->beyond[r] = gen_range(gen, 0, truth->n_chunks);
		for (uint32_t c = 0; c < truth->n_chunks; c++) {
			truth->has[r][c] = c < truth->beyond[r] && gen_below(gen, 2);
			truth->keeps[r][c] = truth->has[r][c] && gen_below(gen, tiny ? 2 : 8) != 1;
		}
	}
}

static void tell(const struct truth *truth, struct reports *all)
{
	for (uint32_t r = 0; r < truth->n_ranks; r++) {
		struct sml_resume_report *report = &all->reports[r];

		*report = (struct sml_resume_report){.beyond = truth->first + truth->beyond[r],
						     .lacking = all->lacking[r],
						     .kept = all->kept[r]};
		for (uint32_t c = 0; c < truth->n_chunks; c++) {
			if (c < truth->beyond[r] && !truth->has[r][c])
				all->lacking[r][report->n_lacking++] = truth->first + c;
			if (truth->keeps[r][c])
				all->kept[r][report->n_kept++] = truth->first + c;
		}
		sml_resume_sort(all->kept[r], report->n_kept);
	}
}

/* Plan one chunk. Returns the next place in the plan, or the value that merge() must return. */
static int expect_chunk(const struct truth *truth, uint32_t c, uint32_t capacity,
			struct expected *expected)
{
	struct sml_resume_plan *plan = &expected->plan;
	uint64_t to = 0;
	int keeper = -1;

	for (uint32_t r = truth->n_ranks; r-- > 0;) {
		if (!truth->has[r][c])
			to |= (uint64_t)1 << r;
		else if (truth->keeps[r][c])
			keeper = (int)r;
	}
	if (to == 0)
		return 0;
	if (to == (uint64_t)-1 >> (64 - truth->n_ranks)) {
		if (plan->n_table == capacity)
			return -1;
		plan->table[plan->n_table++] = truth->first + c;
		return 0;
	}
	if (keeper < 0)
		return -2;
	if (plan->n_handovers == capacity)
		return -1;
	expected->to[plan->n_handovers] = to;
	plan->handovers[plan->n_handovers++] =
		(struct sml_resume_handover){truth->first + c, (uint16_t)keeper, false};
	return 0;
}

static int expect(const struct truth *truth, uint32_t capacity, struct expected *expected)
{
	uint32_t beyond = 0;

	for (uint32_t r = 0; r < truth->n_ranks; r++)
		beyond = truth->beyond[r] > beyond ? truth->beyond[r] : beyond;
	expected->plan.after = truth->first + beyond;
	for (uint32_t c = 0; c < beyond; c++) {
		int rc = expect_chunk(truth, c, capacity, expected);

		if (rc < 0)
			return rc;
	}
	return 0;
}

static bool goes_to(const struct reports *all, uint32_t n_ranks, uint32_t chunk, uint64_t to)
{
	for (uint32_t r = 0; r < n_ranks; r++)
		if (sml_resume_lacks(&all->reports[r], chunk) != (to >> r & 1))
			return false;
	return true;
}

static const char *compare(const struct sml_resume_plan *plan, const struct expected *oracle,
			   const struct reports *all, uint32_t n_ranks)
{
	const struct sml_resume_plan *expected = &oracle->plan;

	PROPERTY_CHECK(plan->after == expected->after && plan->n_table == expected->n_table &&
			       plan->n_handovers == expected->n_handovers,
		       "the plan has another size than it should have");
	for (uint32_t i = 0; i < plan->n_table; i++)
		PROPERTY_CHECK(plan->table[i] == expected->table[i], "the table is wrong");
	for (uint32_t i = 0; i < plan->n_handovers; i++)
		PROPERTY_CHECK(
			plan->handovers[i].chunk == expected->handovers[i].chunk &&
				plan->handovers[i].from == expected->handovers[i].from &&
				!plan->handovers[i].done &&
				goes_to(all, n_ranks, plan->handovers[i].chunk, oracle->to[i]),
			"a hand-over is wrong");
	return NULL;
}

static const char *check_truth(struct gen *gen, bool tiny)
{
	uint32_t capacity = tiny ? MAX_CHUNKS : gen_below(gen, MAX_CHUNKS + 1);
	struct guarded table = guard_take(capacity * sizeof(uint32_t));
	struct guarded handovers = guard_take(capacity * sizeof(struct sml_resume_handover));
	struct sml_resume_handover expected_handovers[MAX_CHUNKS];
	uint32_t expected_table[MAX_CHUNKS];
	struct expected expected = {
		.plan = {.handovers = expected_handovers, .table = expected_table}};
	struct sml_resume_plan plan = {.handovers = (void *)handovers.bytes,
				       .table = (void *)table.bytes};
	const char *wrong = NULL;
	struct reports all;
	struct truth truth;
	int rc;

	draw_truth(&truth, gen, tiny);
	tell(&truth, &all);
	rc = sml_resume_merge(all.reports, truth.n_ranks, &plan, capacity);
	if (rc != expect(&truth, capacity, &expected))
		wrong = "merging came to another end than it should have";
	else if (rc == 0)
		wrong = compare(&plan, &expected, &all, truth.n_ranks);
	if (!guard_give(&handovers) || !guard_give(&table))
		wrong = "the plan is longer than its capacity";
	return wrong;
}

/* Any numbers in any order. Half of the time they are close to each other. */
static uint32_t draw_list(struct gen *gen, uint32_t *list)
{
	uint32_t n = gen_below(gen, MAX_CHUNKS + 1);

	for (uint32_t i = 0; i < n; i++)
		list[i] = gen_below(gen, 2) ? gen_below(gen, 16) : gen_below(gen, UINT32_MAX);
	return n;
}

static const char *check_lies(struct gen *gen)
{
	uint32_t n_ranks = gen_range(gen, 1, MAX_RANKS), capacity = gen_below(gen, 16);
	struct guarded table = guard_take(capacity * sizeof(uint32_t));
	struct guarded handovers = guard_take(capacity * sizeof(struct sml_resume_handover));
	struct sml_resume_plan plan = {.handovers = (void *)handovers.bytes,
				       .table = (void *)table.bytes};
	bool whole, plausible;
	struct reports all;
	int rc;

	for (uint32_t r = 0; r < n_ranks; r++)
		all.reports[r] = (struct sml_resume_report){
			.beyond =
				gen_below(gen, 2) ? gen_below(gen, 16) : gen_below(gen, UINT32_MAX),
			.lacking = all.lacking[r],
			.n_lacking = draw_list(gen, all.lacking[r]),
			.kept = all.kept[r],
			.n_kept = draw_list(gen, all.kept[r]),
		};
	rc = sml_resume_merge(all.reports, n_ranks, &plan, capacity);
	plausible = rc >= -2 && rc <= 0 && plan.n_table <= capacity && plan.n_handovers <= capacity;
	for (uint32_t i = 0; rc == 0 && i < plan.n_handovers; i++)
		plausible &= plan.handovers[i].from < n_ranks &&
			     !sml_resume_lacks(&all.reports[plan.handovers[i].from],
					       plan.handovers[i].chunk);
	whole = guard_give(&handovers);
	whole &= guard_give(&table);
	PROPERTY_CHECK(whole, "the plan is longer than its capacity");
	PROPERTY_CHECK(plausible, "the plan cannot be carried out");
	return NULL;
}

const char *property_merge(struct gen *gen, bool tiny)
{
	if (tiny || gen_below(gen, 2) == 0)
		return check_truth(gen, tiny);
	return check_lies(gen);
}
