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
	struct trace_rank *rank;
	double late;
	bool by_call; /* and not by a slot's use */
};

/* False: no memory. */
static bool gather(struct trace_options *options)
{
	size_t all = 0;

	for (unsigned i = 0; i < options->n; i++)
		all += options->ranks[i].n_uses;
	options->uses = calloc(all + 1, sizeof(*options->uses));
	for (unsigned i = 0; options->uses && i < options->n; i++) {
		struct trace_rank *rank = &options->ranks[i];

		for (size_t u = 0; u < rank->n_uses; u++) {
			struct trace_use *use = &options->uses[options->n_uses++];

			*use = rank->uses[u];
			use->rank = rank;
			use->begin += rank->offset;
			use->end += rank->offset;
		}
	}
	if (options->uses)
		qsort(options->uses, all, sizeof(*options->uses), trace_compare);
	return options->uses != NULL;
}

/*
 * Of uses [0, n) that are equal, one for each rank: the last one, which for a call is the one that
 * began last. NULL: the rank that was last has no trace here.
 */
static const struct trace_use *find_last(struct trace_use *uses, size_t n)
{
	const struct trace_use *last = NULL;

	for (size_t i = 0; i < n; i++)
		if (uses[i].where == TRACE_CALL ? !last || uses[i].begin > last->begin
						: uses[i].was_last)
			last = &uses[i];
	for (size_t i = 0; i < n; i++)
		uses[i].last = last ? last->rank : NULL;
	return last;
}

static struct lateness measure(const struct trace_use *uses, size_t n, const struct trace_use *last)
{
	bool is_call = last->where == TRACE_CALL;
	double others_begin = -DBL_MAX, first_end = DBL_MAX;

	for (size_t i = 0; i < n; i++) {
		if (&uses[i] != last && uses[i].begin > others_begin)
			others_begin = uses[i].begin;
		if (uses[i].end < first_end)
			first_end = uses[i].end;
	}
	return (struct lateness){
		.call = last->call,
		.rank = last->rank,
		.late = (is_call ? last->begin : first_end) - others_begin,
		.by_call = is_call,
	};
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

int trace_find_waits(struct trace_options *options)
{
	bool gathered = gather(options);
	size_t all = options->n_uses, n_late = 0, same;
	struct lateness *late = calloc(all + 1, sizeof(*late));
	const struct trace_use *last;
	double network;
	int calls = 0;

	if (!gathered || late == NULL) {
		fprintf(stderr, "switchml trace: no memory\n");
		free(late);
		return -1;
	}
	for (size_t i = 0; i < all; i += same) {
		struct trace_use *uses = &options->uses[i];

		for (same = 1; i + same < all && trace_compare(uses, &uses[same]) == 0;)
			same++;
		last = find_last(uses, same);
		if (last && same == options->n && same > 1)
			late[n_late++] = measure(uses, same, last);
	}
	network = fastest(late, n_late);
	qsort(late, n_late, sizeof(*late), compare_lateness);
	for (size_t i = 0; i < n_late; i++) {
		if (i > 0 && late[i].call == late[i - 1].call)
			continue;
		late[i].rank->n_last++;
		late[i].rank->waited += late[i].late - (late[i].by_call ? 0 : network);
		calls++;
	}
	free(late);
	return calls;
}
