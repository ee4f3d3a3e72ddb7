/* SPDX-License-Identifier: BSD-3-Clause */
/* Which rank of which job a process was: see join.h. */
#include "job/join/join.h"

#include <stdio.h>

#include "job/members/members.h"
#include "job/states/states.h"
#include "switchml.h"

static struct sml_job *find_job(const struct sml_jobs *jobs, uint64_t tag)
{
	for (unsigned i = 0; i < SML_MAX_JOBS; i++)
		if (jobs->jobs[i] != NULL && jobs->jobs[i]->state >= SML_JOB_PROBING &&
		    jobs->jobs[i]->report_tag == tag)
			return jobs->jobs[i];
	return NULL;
}

/* Only its ranks know the tag, and one of them has left it: its message about that may be late. */
static void end_job(struct sml_jobs *jobs, const SmlControl__PastRank *past)
{
	struct sml_job *job = find_job(jobs, past->tag);
	char text[SML_SENTENCE_BYTES];

	if (job == NULL)
		return;
	snprintf(text, sizeof(text),
		 "this is no failure: rank %u goes on in the job's next membership "
		 "(sml_reconfigure())",
		 past->rank);
	job->end.planned = true;
	sml_job_fail(job, SML_ERROR_ABORTED, text);
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
	char text[SML_SENTENCE_BYTES];

	for (unsigned i = 0; i < SML_MAX_JOBS; i++) {
		struct sml_job *job = jobs->jobs[i];
		int rank;

		if (job == NULL || job->elastic.decision == NULL || job->state >= SML_JOB_RUNNING)
			continue;
		rank = find_rank(job->elastic.decision, process);
		if (rank < 0)
			continue;
		snprintf(text, sizeof(text),
			 "rank %d asks again to be a member, because its connection broke before "
			 "the job had begun: ask again (sml_reconfigure()), too",
			 rank);
		sml_job_fail(job, SML_ERROR_ABORTED, text);
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
	for (unsigned i = 0; i < SML_MAX_JOBS; i++)
		if (jobs->jobs[i] != NULL && jobs->jobs[i]->elastic.decision != NULL &&
		    is_later(jobs->jobs[i]->elastic.decision, asked))
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
