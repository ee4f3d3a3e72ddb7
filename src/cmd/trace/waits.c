/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which rank do the others wait for? Rank A says that its contribution came last. Once all
 * other ranks have sent for this use, they wait for A, or for the network, until the first rank has
 * the result. The network's part is taken to be that of the fastest of all uses. A call is as late
 * as its latest use. If a call's uses are no longer in the traces, its begin counts instead: how
 * much later the last rank began it than the last but one.
 */
#include <float.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/trace/trace.h"

/* How late a call is, and because of which rank. */
struct lateness {
	uint32_t call;
	unsigned rank;
	double late;
	bool by_call; /* and not by a slot's use */
};

static size_t count_uses(const struct trace_rank *ranks, unsigned n)
{
	size_t all = 0;

	for (unsigned i = 0; i < n; i++)
		all += ranks[i].n_uses;
	return all;
}

/* All uses of all ranks, on one clock, equal ones next to each other. The rank is its index. */
static struct trace_use *gather(const struct trace_rank *ranks, unsigned n, size_t all)
{
	struct trace_use *uses = calloc(all + 1, sizeof(*uses));
	size_t to = 0;

	for (unsigned i = 0; uses && i < n; i++) {
		for (size_t u = 0; u < ranks[i].n_uses; u++, to++) {
			uses[to] = ranks[i].uses[u];
			uses[to].rank = i;
			uses[to].begin += ranks[i].offset;
			uses[to].end += ranks[i].offset;
		}
	}
	if (uses)
		qsort(uses, all, sizeof(*uses), trace_compare);
	return uses;
}

/* Of a slot's use, one for each rank. -1: the last rank has no trace here. */
static int find_last(const struct trace_use *uses, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (uses[i].was_last)
			return (int)i;
	return -1;
}

/* Of a call: who began last. */
static int find_latest(const struct trace_use *uses, size_t n)
{
	size_t last = 0;

	for (size_t i = 1; i < n; i++)
		if (uses[i].begin > uses[last].begin)
			last = i;
	return (int)last;
}

/* Of uses [0, n) that are equal: one for each rank. False: nothing is known. */
static bool measure(const struct trace_use *uses, size_t n, struct lateness *lateness)
{
	bool is_call = uses[0].where == TRACE_CALL;
	int last = is_call ? find_latest(uses, n) : find_last(uses, n);
	double others_begin = -DBL_MAX, first_end = DBL_MAX;

	if (last < 0 || n < 2)
		return false;
	for (size_t i = 0; i < n; i++) {
		if ((int)i != last && uses[i].begin > others_begin)
			others_begin = uses[i].begin;
		if (uses[i].end < first_end)
			first_end = uses[i].end;
	}
	*lateness = (struct lateness){
		.call = uses[last].call,
		.rank = uses[last].rank,
		.late = (is_call ? uses[last].begin : first_end) - others_begin,
		.by_call = is_call,
	};
	return true;
}

/* What every use takes, even if no rank is late. */
static double fastest(const struct lateness *late, size_t n)
{
	double least = DBL_MAX;

	for (size_t i = 0; i < n; i++)
		if (!late[i].by_call && late[i].late < least)
			least = late[i].late;
	return least;
}

/* By call; of one call, its latest use first, and the call itself last. */
static int compare_lateness(const void *a, const void *b)
{
	const struct lateness *x = a, *y = b;

	if (x->call != y->call)
		return x->call < y->call ? -1 : 1;
	if (x->by_call != y->by_call)
		return x->by_call ? 1 : -1;
	return x->late > y->late ? -1 : x->late < y->late;
}

int trace_find_waits(struct trace_rank *ranks, unsigned n)
{
	size_t all = count_uses(ranks, n), n_late = 0, same;
	struct trace_use *uses = gather(ranks, n, all);
	struct lateness *late = calloc(all + 1, sizeof(*late));
	double network;
	int calls = 0;

	if (uses == NULL || late == NULL) {
		fprintf(stderr, "switchml trace: no memory\n");
		free(uses);
		free(late);
		return -1;
	}
	for (size_t i = 0; i < all; i += same) {
		for (same = 1; i + same < all && trace_compare(&uses[i], &uses[i + same]) == 0;)
			same++;
		if (same == n && measure(&uses[i], same, &late[n_late]))
			n_late++;
	}
	network = fastest(late, n_late);
	qsort(late, n_late, sizeof(*late), compare_lateness);
	for (size_t i = 0; i < n_late; i++) {
		if (i > 0 && late[i].call == late[i - 1].call)
			continue;
		ranks[late[i].rank].n_last++;
		ranks[late[i].rank].waited += late[i].late - (late[i].by_call ? 0 : network);
		calls++;
	}
	free(uses);
	free(late);
	return calls;
}
