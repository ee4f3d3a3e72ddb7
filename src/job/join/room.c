/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Room for those who come: places for jobs, slots, and connections. Anyone can take them, so what
 * has the least priority makes room, and of equals the one that has been there longest goes first.
 *
 *	a rank of a failed job        makes room for any rank, and for a leaf
 *	a leaf without ranks or slots makes room for any rank, and for another leaf
 *	a job that has not begun      makes room for a job that resumes
 *	a job that has been gathering makes room for a job that resumes
 *	to resume for a second
 *	a job that has begun          makes room for nobody
 *
 * The ranks of a job that resumes are all running, so they gather within a fraction of a second. A
 * leaf comes again by itself, and so do the ranks of a job that resumes.
 */
#include "job/join/join.h"

#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "job/states/states.h"

/* ---- who makes room ---- */

static bool gathers_slowly(const struct sml_job *job)
{
	return sml_job_gathers(job) && job->resume.runs &&
	       job->jobs->now_ns - job->begun_ns >= SML_SECOND_NS;
}

/* The smaller, the earlier it makes room. */
static unsigned priority_of(const struct sml_job *job, const SmlControl__Join *join)
{
	return job->resume.runs ? 2 : strcmp(job->name, join->job) != 0;
}

static bool is_own(const struct sml_job *job, const SmlControl__Join *join)
{
	return job->resume.runs && job->membership == join->resume->membership;
}

static struct sml_job *find_weakest(const struct sml_jobs *jobs, const SmlControl__Join *join)
{
	struct sml_job *found = NULL;

	for (struct sml_job *job = NULL; (job = sml_jobs_next(jobs, job)) != NULL;) {
		if (!sml_job_gathers(job) || is_own(job, join) ||
		    (job->resume.runs && !gathers_slowly(job)))
			continue;
		if (found == NULL || priority_of(job, join) < priority_of(found, join) ||
		    (priority_of(job, join) == priority_of(found, join) &&
		     job->begun_ns < found->begun_ns))
			found = job;
	}
	return found;
}

static void displace(struct sml_job *job, const SmlControl__Join *join)
{
	const bool same = strcmp(job->name, join->job) == 0;

	if (job->resume.runs) {
		sml_job_give_up_resuming(job,
					 "another job that has lost its switch needs its place");
		return;
	}
	sml_job_fail(
		job, SML_ERROR_REFUSED,
		"another job \"%s\", which has lost its switch, continues here, and there "
		"is no room for both: %s",
		join->job,
		same ? "give this job another name (SWITCHML_JOB)"
		     : "start this job again, or start the switch with more --jobs and --slots");
}

bool sml_jobs_displace(struct sml_jobs *jobs, const SmlControl__Join *join)
{
	struct sml_job *job = NULL;

	if (join == NULL || !sml_join_resumes(join))
		return false;
	if (sml_jobs_is_leaf(jobs))
		return jobs->tree->displace(jobs);
	job = find_weakest(jobs, join);
	if (job == NULL)
		return false;
	displace(job, join);
	return true;
}

/* ---- connections ---- */

static bool is_full(const struct sml_jobs *jobs)
{
	return jobs->config.max_members != 0 && jobs->n_members >= jobs->config.max_members;
}

bool sml_jobs_has_room_for_member(struct sml_jobs *jobs, struct sml_peer *peer,
				  const SmlControl__Join *join)
{
	char text[SML_SENTENCE_BYTES];

	/* Who is at a leaf needs no file here. */
	if (peer->via != NULL)
		return true;
	while (is_full(jobs))
		if (!sml_survivors_make_room(jobs) && !jobs->tree->close_idle(jobs) &&
		    !sml_jobs_displace(jobs, join))
			break;
	if (!is_full(jobs))
		return true;
	snprintf(text, sizeof(text),
		 "the switch is at its limit of %u rank%s (because of its limit of open files): "
		 "wait for a job to end, or raise that limit",
		 jobs->n_members, sml_plural(jobs->n_members));
	if (join != NULL)
		sml_jobs_log_refusal(jobs, join, text);
	sml_peer_refuse_for_now(jobs, peer, text);
	return false;
}
