/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which rank the others waited for: the one whose contribution completed most slots. At the end of
 * a job, its ranks are told, for the line that rank 0 logs.
 */
#include <stdio.h>

#include "job/members/members.h"
#include "job/members/peers.h"
#include "job/peer/branch.h"
#include "job/states/slowest.h"

/* A rank, the ranks of one host that contribute as one, or those behind a leaf. */
static void name_child(const struct sml_job *job, const struct sml_child *child, char *text,
		       size_t bytes)
{
	const struct sml_member *first = &job->members[child->first_rank];

	if (child->branch != NULL)
		snprintf(text, bytes, "the leaf %.80s", child->branch->name);
	else if (first->n_of_host > 1)
		snprintf(text, bytes, "one of the %u ranks on %.64s", first->n_of_host,
			 first->host);
	else
		snprintf(text, bytes, "rank %u (%.64s)", child->first_rank, first->host);
}

/* The parts in percent, rounded down; 0: nothing was completed. */
static uint32_t percent(uint64_t part, uint64_t all)
{
	return all > 0 ? (uint32_t)((double)part * 100 / (double)all) : 0;
}

static uint32_t find_rank(const struct sml_job *job, char *text, size_t bytes)
{
	uint64_t all = 0, most = 0;
	unsigned slowest = 0;

	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		uint64_t completed = sml_job_completed_by(job, (uint16_t)rank);

		all += completed;
		if (completed > most) {
			most = completed;
			slowest = rank;
		}
	}
	snprintf(text, bytes, "rank %u (%.64s)", slowest, job->members[slowest].host);
	return percent(most, all);
}

uint32_t sml_job_slowest(const struct sml_job *job, char *text, size_t bytes)
{
	struct sml_job_counters counters = {0};
	uint64_t all = 0, most = 0;
	unsigned slowest = 0;

	if (job->jobs->operations->ranks_have_slots)
		return find_rank(job, text, bytes);
	/* Alone, it is always the last. */
	if (job->n_children < 2)
		return 0;
	sml_job_count(job, &counters);
	for (unsigned child = 0; child < job->n_children; child++) {
		all += counters.completed[child];
		if (counters.completed[child] > most) {
			most = counters.completed[child];
			slowest = child;
		}
	}
	name_child(job, &job->children[slowest], text, bytes);
	return percent(most, all);
}
