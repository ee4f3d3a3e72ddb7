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
 *	  ^                                            | a message, maybe sent before the absence
 *ended
 *	  +------- another one, proof_ns later --------+
 *
 * The invariant: no rank is blamed for a silence or for an end that this switch's own absence
 * explains.
 */
#include <stdio.h>

#include "job/tree/branches.h"

#define ABSENCE_NS (SML_BEAT_NS + SML_TICK_NS)

static void forgive_job(struct sml_job *job, uint64_t away_ns)
{
	job->begun_ns += away_ns;
	if (job->mismatch_ns != 0)
		job->mismatch_ns += away_ns;
	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		struct sml_member *member = &job->members[rank];

		if (member->peer == NULL)
			continue;
		member->waits_until_ns += away_ns;
		sml_peer_shift(member->peer, job->jobs, away_ns);
		sml_peer_doubt(member->peer, member->heartbeat_ms, away_ns);
	}
}

static void forgive_leaf(struct sml_jobs *jobs, uint64_t away_ns)
{
	const struct sml_table *passages = &jobs->leaf.passages;

	if (jobs->leaf.parent != NULL)
		sml_peer_shift(jobs->leaf.parent, jobs, away_ns);
	for (unsigned i = 0; i < SML_MAX_JOBS; i++)
		if (jobs->leaf.jobs[i] != NULL)
			jobs->leaf.jobs[i]->begun_ns += away_ns;
	for (uint32_t i = 0; i < passages->room; i++) {
		struct sml_passage *passage = (struct sml_passage *)sml_table_at(passages, i);

		if (passage != NULL)
			sml_peer_doubt(passage->peer, passage->heartbeat_ms, away_ns);
	}
}

static void forgive(struct sml_jobs *jobs, uint64_t away_ns)
{
	for (unsigned i = 0; i < SML_MAX_JOBS; i++)
		if (jobs->jobs[i] != NULL)
			forgive_job(jobs->jobs[i], away_ns);
	for (struct sml_branch *branch = jobs->branches; branch != NULL; branch = branch->next)
		sml_peer_shift(branch->peer, jobs, away_ns);
	forgive_leaf(jobs, away_ns);
}

void sml_jobs_set_time(struct sml_jobs *jobs, uint64_t now_ns)
{
	uint64_t away_ns = now_ns - jobs->now_ns;

	sml_assert(now_ns >= jobs->now_ns);
	jobs->now_ns = now_ns;
	if (away_ns >= ABSENCE_NS)
		forgive(jobs, away_ns);
}

bool sml_jobs_has_dependents(const struct sml_jobs *jobs)
{
	return jobs->n_jobs > 0 || jobs->branches != NULL || jobs->leaf.parent != NULL;
}
/* ---- a doubted rank has gone ---- */

static void describe(const struct sml_job *job, uint16_t rank, uint64_t missed_ns, const char *why,
		     char *text, size_t bytes)
{
	const struct sml_member *member = &job->members[rank];
	const bool embedded = job->jobs->operations->ranks_have_slots;

	snprintf(text, bytes,
		 "%s did not run for %.1f s (it was stopped, or its machine was paused), and rank "
		 "%u (host %s, pid %u) has given it up: %s",
		 embedded ? "rank 0, whose process has the job's control port," : "this switch",
		 (double)missed_ns / 1e9, rank, member->host, member->pid, why);
}

void sml_job_given_up(struct sml_job *job, uint16_t rank, uint64_t missed_ns, const char *why)
{
	char text[2 * SML_SENTENCE_BYTES];

	describe(job, rank, missed_ns, why, text, sizeof(text));
	/* No other process can take over rank 0's port. */
	if (job->jobs->operations->ranks_have_slots)
		sml_job_fail(job, SML_ERROR_RANK_DIED, text);
	else
		sml_job_scatter(job, text);
}

bool sml_job_is_given_up_by(const struct sml_job *job, const SmlControl__Join *join)
{
	const struct sml_peer *before;

	if (job->state < SML_JOB_PROBING || join->resume == NULL || join->rank >= job->n_ranks)
		return false;
	before = job->members[join->rank].peer;
	return before != NULL && sml_peer_is_doubted(before);
}
