/* SPDX-License-Identifier: BSD-3-Clause */
/* Which ranks of which jobs processes were: see join.h. */
#include "job/join/join.h"

#include <stdio.h>

#include "job/states/states.h"
#include "switchml.h"

static struct sml_job *find_job(const struct sml_jobs *jobs, uint64_t tag)
{
	for (struct sml_job *job = NULL; (job = sml_jobs_next(jobs, job)) != NULL;)
		if (job->state >= SML_JOB_PROBING && job->report_tag == tag)
			return job;
	return NULL;
}

/* Only its ranks know the tag, and one of them has left it: its message about that may be late. */
static void end_job(struct sml_jobs *jobs, const SmlControl__PastRank *past)
{
	struct sml_job *job = find_job(jobs, past->tag);

	if (job == NULL)
		return;
	job->end.planned = true;
	sml_job_fail(job, SML_ERROR_ABORTED,
		     "this is no failure: rank %u goes on in the job's next membership "
		     "(sml_reconfigure())",
		     past->rank);
}

/* Its rank there; -1: it has none. */
static int find_rank(const struct sml_decision *decision, uint64_t process)
{
	for (uint32_t rank = 0; rank < decision->n; rank++)
		if (decision->asked[rank].process == process)
			return (int)rank;
	return -1;
}

/*
 * A member of the next membership asks again: so its connection broke before it was told of the
 * decision, and this switch may not know that yet. That membership waits for it in vain, and it has
 * not run, because not all of its members were ready.
 */
static void end_undelivered(struct sml_jobs *jobs, uint64_t process)
{
	for (struct sml_job *job = NULL; (job = sml_jobs_next(jobs, job)) != NULL;) {
		int rank;

		if (job->elastic.decision == NULL || job->state >= SML_JOB_RUNNING)
			continue;
		rank = find_rank(job->elastic.decision, process);
		if (rank < 0)
			continue;
		sml_job_fail(
			job, SML_ERROR_ABORTED,
			"rank %d asks again to be a member, because its connection broke before "
			"the job had begun: ask again (sml_reconfigure()), too",
			rank);
		return;
	}
}

static bool is_later(const struct sml_decision *decision, const struct sml_asked *asked)
{
	int rank = find_rank(decision, asked->process);

	return rank >= 0 && decision->asked[rank].time_ns > asked->time_ns;
}

bool sml_ask_was_decided_on(const struct sml_jobs *jobs, const struct sml_asked *asked)
{
	for (const struct sml_job *job = NULL; (job = sml_jobs_next(jobs, job)) != NULL;)
		if (job->elastic.decision != NULL && is_later(job->elastic.decision, asked))
			return true;
	return false;
}

const SmlControl__PastRank *sml_past_rank_that_counts(struct sml_jobs *jobs, uint64_t process,
						      SmlControl__PastRank *const *past_ranks,
						      size_t n, struct sml_failed_job **before)
{
	for (size_t i = 0; i < n; i++)
		end_job(jobs, past_ranks[i]);
	end_undelivered(jobs, process);
	for (size_t i = 0; i < n; i++) {
		*before = sml_jobs_find_judged(jobs, past_ranks[i]->tag);
		if (*before == NULL || (*before)->ran)
			return past_ranks[i];
	}
	return NULL;
}

/*
 * ---- a program has named the members ----
 *
 * Without the old ranks, the switch would only know how many members are missing, and they would be
 * awaited until the others' time is over, though their connections have ended.
 */

/* Those that had gone before a list was known may be on their way: they are given a heartbeat. */
static void expect_back(struct sml_job *job)
{
	const struct sml_failed_job *before =
		sml_jobs_find_judged(job->jobs, job->elastic.list.tag);

	if (before == NULL)
		return;
	job->elastic.list.absent = job->elastic.list.ranks;
	sml_ranks_intersect(&job->elastic.list.absent, &before->gone);
	if (!sml_ranks_is_empty(&job->elastic.list.absent))
		job->elastic.list.misses_ns =
			job->jobs->now_ns + before->heartbeat_ms * (SML_SECOND_NS / 1000);
}

void sml_listed_note(struct sml_job *job, uint16_t rank, const SmlControl__PastRank *past)
{
	struct sml_member *member = &job->members.of[rank];
	bool is_first = job->elastic.list.tag == 0;

	if (past == NULL || past->members.len == 0)
		return;
	if (is_first) {
		job->elastic.list.tag = past->tag;
		(void)sml_ranks_unpack(&job->elastic.list.ranks, past->members.data,
				       past->members.len, past->world_size);
	}
	if (job->elastic.list.tag != past->tag)
		return;
	member->before = (uint16_t)(past->rank + 1);
	sml_kept_back(job->jobs, past->tag, past->rank);
	if (is_first)
		expect_back(job);
	sml_survivors_await(job->jobs, past->tag, member->waits_until_ns);
}

/* SML_MAX_WORLD: none. */
static unsigned find_gone(const struct sml_job *job)
{
	const struct sml_failed_job *before =
		sml_jobs_find_judged(job->jobs, job->elastic.list.tag);
	struct sml_ranks gone = job->elastic.list.ranks;

	if (before == NULL || !sml_job_gathers(job))
		return SML_MAX_WORLD;
	sml_ranks_intersect(&gone, &before->gone);
	sml_ranks_unite(&gone, &job->elastic.list.left);
	if (job->jobs->now_ns < job->elastic.list.misses_ns)
		sml_ranks_subtract(&gone, &job->elastic.list.absent);
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (job->members.of[rank].before != 0)
			sml_ranks_remove(&gone, job->members.of[rank].before - 1u);
	return sml_ranks_next(&gone, 0);
}

bool sml_listed_misses(struct sml_job *job)
{
	const unsigned rank = find_gone(job);
	struct sml_refusal why = {.error = SML_ERROR_RANK_DIED};

	if (rank == SML_MAX_WORLD)
		return false;
	snprintf(why.text, sizeof(why.text),
		 "rank %u of the last job has died or left, and job \"%s\" has it as a member "
		 "(sml_reconfigure())",
		 rank, job->name);
	/* Who comes late would wait for the others, which go on without it. */
	sml_disagreement_note(job->jobs, job, NULL, &why);
	sml_job_fail(job, why.error, "%s", why.text);
	return true;
}

bool sml_listed_tick(struct sml_job *job)
{
	if (job->elastic.list.misses_ns == 0 || job->jobs->now_ns < job->elastic.list.misses_ns)
		return false;
	job->elastic.list.misses_ns = 0;
	return sml_listed_misses(job);
}
