/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The time in which this switch itself did not run: it was stopped, or its machine was paused. The
 * driver comes at least every SML_BEAT_NS while anything depends on the switch, so a longer gap
 * between two inputs is such a time. It has two consequences.
 *
 *	- Peers could not be heard, so their time limits move back.
 *	- After half of its heartbeat, a rank may have given this switch up. If its connection ends
 *	  now, or it stays silent, that does not prove that it has died: it is doubted.
 *
 *	heard --- absence of half a heartbeat ---> doubted, not heard since
 *	  ^                                            | a message, maybe sent before
 *	  |                                            | the absence ended
 *	  +------- another one, proof_ns later --------+
 *
 * The invariant: no rank is blamed for a silence or for an end that this switch's own absence
 * explains.
 */
#include "job/input/absence.h"

#include <stdio.h>

#include "job/join/applicants.h"
#include "job/peer/heard.h"
#include "job/states/states.h"
#include "job/tree/leaf.h"

#define ABSENCE_NS (SML_BEAT_NS + SML_TICK_NS)

static void shift_job_deadlines(struct sml_job *job, uint64_t away_ns)
{
	job->begun_ns += away_ns;
	if (job->mismatch.since_ns != 0)
		job->mismatch.since_ns += away_ns;
	if (job->elastic.list.misses_ns != 0)
		job->elastic.list.misses_ns += away_ns;
	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		struct sml_member *member = &job->members.of[rank];

		if (member->peer == NULL)
			continue;
		member->waits_until_ns += away_ns;
		sml_peer_shift(member->peer, job->jobs, away_ns);
		sml_peer_doubt(member->peer, member->heartbeat_ms, away_ns);
	}
}

static void shift_leaf_deadlines(struct sml_jobs *jobs, uint64_t away_ns)
{
	const struct sml_table *ranks = &jobs->leaf.up.ranks;

	if (jobs->leaf.up.peer != NULL)
		sml_leaf_was_away(jobs, away_ns);
	for (uint32_t i = 0; i < ranks->room; i++)
		if (sml_table_at(ranks, i) != NULL)
			sml_peer_doubt(sml_table_at(ranks, i)->peer,
				       sml_table_at(ranks, i)->peer->heartbeat_ms, away_ns);
}

static void shift_deadlines(struct sml_jobs *jobs, uint64_t away_ns)
{
	for (unsigned i = 0; i < SML_MAX_JOBS; i++)
		if (jobs->jobs[i] != NULL)
			shift_job_deadlines(jobs->jobs[i], away_ns);
	for (struct sml_applicant *a = jobs->applicants; a != NULL; a = a->next) {
		a->came_ns += away_ns;
		a->waits_until_ns += away_ns;
		sml_peer_shift(a->peer, jobs, away_ns);
		sml_peer_doubt(a->peer, a->heartbeat_ms, away_ns);
	}
	sml_survivors_doubt(jobs, away_ns);
	for (struct sml_branch *branch = jobs->branches; branch != NULL; branch = branch->next)
		sml_peer_shift(branch->link.peer, jobs, away_ns);
	shift_leaf_deadlines(jobs, away_ns);
}

void sml_jobs_set_time(struct sml_jobs *jobs, uint64_t now_ns)
{
	uint64_t away_ns = now_ns - jobs->now_ns;

	sml_assert(now_ns >= jobs->now_ns);
	jobs->now_ns = now_ns;
	if (away_ns >= ABSENCE_NS)
		shift_deadlines(jobs, away_ns);
}

bool sml_jobs_has_dependents(const struct sml_jobs *jobs)
{
	return jobs->n_jobs > 0 || jobs->applicants != NULL || jobs->survivors != NULL ||
	       jobs->branches != NULL || jobs->leaf.up.peer != NULL;
}
