/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For which rank the others waited longest. At the end of a job, its ranks are told, for the line
 * that rank 0 logs. Slots know only how long they waited for a host whose ranks share memory; its
 * ranks report how long they waited for each other there.
 */
#include <stdio.h>

#include "job/members/hosts.h"
#include "job/members/members.h"
#include "job/members/peers.h"
#include "job/peer/branch.h"
#include "job/states/states.h"

/* A rank, the ranks of one host that contribute as one, or those behind a leaf. */
static void name_child(const struct sml_job *job, const struct sml_child *child, char *text,
		       size_t bytes)
{
	const struct sml_member *first = &job->members.of[child->first_rank];

	if (child->branch != NULL)
		snprintf(text, bytes, "the leaf %.80s", child->branch->name);
	else if (child->n_ranks > 1 || (job->hosts.shares_memory && first->n_of_host > 1))
		snprintf(text, bytes, "one of the %u ranks on %.64s", first->n_of_host,
			 first->host);
	else
		snprintf(text, bytes, "rank %u (%.64s)", child->first_rank, first->host);
}

uint64_t sml_job_slowest(const struct sml_job *job, char *text, size_t bytes)
{
	uint64_t most = 0, inside[SML_MAX_CHILDREN] = {0};
	struct sml_job_counters counters;

	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		const struct sml_member *member = &job->members.of[rank];
		uint64_t ms = member->traffic.waited_ms;

		inside[job->members.of[sml_job_sender(job, rank)].child] += ms;
		if (ms > most) {
			most = ms;
			snprintf(text, bytes, "rank %u (%.64s)", rank, member->host);
		}
	}
	sml_job_count(job, &counters);
	for (unsigned child = 0; child < job->pool.n_children; child++) {
		uint64_t ms = sml_job_counters_waited_ms(&counters, child);

		/* While others waited for it, its own ranks waited for one of them. */
		ms -= ms < inside[child] ? ms : inside[child];
		if (ms > most) {
			most = ms;
			name_child(job, &job->pool.children[child], text, bytes);
		}
	}
	return most;
}
