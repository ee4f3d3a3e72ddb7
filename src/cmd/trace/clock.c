/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The offset between the clocks of two ranks, from what they did together. No rank has a result
 * before every rank has begun to send for it, and no call ends before every rank has begun it. So
 * for each use that ranks A and B have in common, in true time:
 *
 *	begin(A) < end(B)	and	begin(B) < end(A)
 *
 * With B's clock + offset = A's clock, each use therefore bounds the offset from both sides:
 *
 *	begin(A) - end(B) < offset < end(A) - begin(B)
 *
 * The bounds over all uses are as narrow as the shortest round trips. Between them, the best guess
 * is that a result reaches both ranks at the same time: the median of end(A) - end(B).
 */
#include <stdlib.h>

#include "cmd/trace/trace.h"

int trace_compare(const void *a, const void *b)
{
	const struct trace_use *x = a, *y = b;

	if (x->where != y->where)
		return x->where < y->where ? -1 : 1;
	if (x->where == TRACE_CALL)
		return x->call < y->call ? -1 : x->call > y->call;
	return x->what < y->what ? -1 : x->what > y->what;
}

static int compare_numbers(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

struct bounds {
	double low, high;
	double *ends; /* differences of the ends of slots' uses */
	size_t n_ends, n;
};

static void add(struct bounds *bounds, const struct trace_use *a, const struct trace_use *b)
{
	double low = a->begin - b->end, high = a->end - b->begin;

	if (bounds->n == 0 || low > bounds->low)
		bounds->low = low;
	if (bounds->n == 0 || high < bounds->high)
		bounds->high = high;
	bounds->n++;
	if (a->where != TRACE_CALL)
		bounds->ends[bounds->n_ends++] = a->end - b->end;
}

static double guess(struct bounds *bounds)
{
	double middle = (bounds->low + bounds->high) / 2;

	if (bounds->n_ends > 0) {
		qsort(bounds->ends, bounds->n_ends, sizeof(*bounds->ends), compare_numbers);
		middle = bounds->ends[bounds->n_ends / 2];
	}
	/* A clock that drifts has no bounds that fit. */
	if (bounds->low > bounds->high)
		return middle;
	return middle < bounds->low ? bounds->low : middle > bounds->high ? bounds->high : middle;
}

bool trace_set_clock(struct trace_rank *rank, const struct trace_rank *first)
{
	struct bounds bounds = {.ends = calloc(rank->n_uses + 1, sizeof(double))};
	size_t i = 0, j = 0;
	double below, above;

	while (bounds.ends && i < first->n_uses && j < rank->n_uses) {
		int order = trace_compare(&first->uses[i], &rank->uses[j]);

		if (order == 0)
			add(&bounds, &first->uses[i], &rank->uses[j]);
		i += order <= 0;
		j += order >= 0;
	}
	rank->offset = guess(&bounds);
	rank->drifts = bounds.n > 0 && bounds.low > bounds.high;
	below = rank->offset - bounds.low;
	above = bounds.high - rank->offset;
	below = below < 0 ? -below : below;
	above = above < 0 ? -above : above;
	rank->error = below > above ? below : above;
	free(bounds.ends);
	return bounds.n > 0;
}
