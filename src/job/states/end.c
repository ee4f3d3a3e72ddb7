/* SPDX-License-Identifier: BSD-3-Clause */
/* The ends of a job: see states.h. */
#include "job/states/states.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void sml_decision_free(struct sml_decision *decision)
{
	if (decision != NULL) {
		free(decision->before);
		free(decision->asked);
	}
	free(decision);
}

static void free_job(struct sml_job *job)
{
	sml_decision_free(job->elastic.decision);
	free(job->stripes.secrets);
	free(job->stripes.waited_ms);
	free(job->members.of);
	free(job);
}

void sml_jobs_sweep(struct sml_jobs *jobs)
{
	struct sml_job *next;

	for (; jobs->over != NULL; jobs->over = next) {
		next = jobs->over->next_over;
		free_job(jobs->over);
	}
}

static void note_successors(struct sml_failed_job *before, const struct sml_decision *decision)
{
	struct sml_ranks successors = {{0}};

	for (uint32_t i = 0; i < decision->n; i++)
		if (decision->before[i] != 0 &&
		    (!before->has_successors ||
		     sml_ranks_has(&before->successors, decision->before[i] - 1)))
			sml_ranks_add(&successors, decision->before[i] - 1);
	before->has_successors = true;
	before->successors = successors;
}

/* It has never run, so the ranks of the job that it should have followed may form another. */
static void reopen(const struct sml_job *job)
{
	struct sml_failed_job *before;

	if (job->elastic.decision == NULL || job->state >= SML_JOB_RUNNING)
		return;
	before = sml_jobs_find_judged(job->jobs, job->elastic.decision->after);
	if (before == NULL)
		return;
	before->decided = false;
	if (job->state >= SML_JOB_PROBING)
		note_successors(before, job->elastic.decision);
}

bool sml_job_close(struct sml_job *job)
{
	struct sml_jobs *jobs = job->jobs;

	/* A job ends once. */
	sml_assert(jobs->jobs[job->place] == job);
	sml_job_pool_end(job, job->end.how, job->end.planned);
	/* What is kept is of the slots that it has had. */
	sml_job_give_back_slots(job);
	reopen(job);
	jobs->jobs[job->place] = NULL;
	jobs->n_jobs--;
	sml_kept_begin(job);
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		sml_job_free_report(job, rank);
	sml_job_free_plans(job);
	job->next_over = jobs->over;
	jobs->over = job;
	return true;
}

/* For the logs of this switch and of its leaves, which hear of it when the job is closed. */
static void note(struct sml_job *job, const char *what, const char *why)
{
	snprintf(job->end.how, sizeof(job->end.how), "%s: %.*s",
		 job->end.planned ? "has ended" : what, SML_SENTENCE_BYTES - 1, why);
	sml_jobs_log_end(job->jobs, job->name, job->end.how, job->end.planned);
}

/* Of a job that gathers to go on here: what its ranks show of it. 0: of any other. */
static uint64_t resumed_tag(const struct sml_job *job)
{
	for (unsigned rank = 0; job->resume.runs && rank < job->n_ranks; rank++)
		if (job->members.of[rank].resume != NULL)
			return job->members.of[rank].resume->resume->tag;
	return 0;
}

/* For ranks that resume, or ask to be members of the next job. */
static void remember(const struct sml_job *job, struct sml_failed_job *why)
{
	struct sml_jobs *jobs = job->jobs;

	why->tag = job->state >= SML_JOB_PROBING ? job->report_tag : resumed_tag(job);
	if (why->tag == 0)
		return;
	why->n_ranks = job->n_ranks;
	why->heartbeat_ms = sml_job_longest_heartbeat_ms(job);
	why->ran = job->state >= SML_JOB_RUNNING;
	why->was_elsewhere = job->resume.runs && !why->ran;
	why->gone = job->departed.ranks;
	if (why->has_lost)
		sml_ranks_add(&why->gone, why->lost);
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (job->members.of[rank].leaving)
			sml_ranks_add(&why->gone, rank);
	sml_kept_end(jobs, &jobs->failed[jobs->n_failed % SML_FAILED_JOBS]);
	jobs->failed[jobs->n_failed++ % SML_FAILED_JOBS] = *why;
}

bool sml_job_end_at_leaf(struct sml_job *job, const char *how, bool planned)
{
	snprintf(job->end.how, sizeof(job->end.how), "%s", how);
	job->end.planned = planned;
	if (how[0] != '\0')
		sml_jobs_log_end(job->jobs, job->name, how, planned);
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		(void)sml_job_release(job, rank);
	return sml_job_close(job);
}

/* The root fails it, and tells the ranks. */
static bool fail_at_leaf(struct sml_job *job, const struct sml_failed_job *why)
{
	char how[2 * SML_SENTENCE_BYTES];

	sml_leaf_send_failure(job->jobs, job->pool.rules.job, why->error, why->text,
			      job->end.lacks_room);
	snprintf(how, sizeof(how), "failed at the leaf %s: %s", job->jobs->config.name, why->text);
	return sml_job_end_at_leaf(job, how, false);
}

static bool fail(struct sml_job *job, struct sml_failed_job *why)
{
	if (sml_jobs_is_leaf(job->jobs))
		return fail_at_leaf(job, why);
	note(job, "failed", why->text);
	remember(job, why);
	sml_job_abort_all(job, why->error, why->text);
	return sml_job_close(job);
}

bool sml_job_fail(struct sml_job *job, int error, const char *format, ...)
{
	struct sml_failed_job why = {.error = error};
	va_list arguments;

	/* What does not fit is cut off. */
	va_start(arguments, format);
	vsnprintf(why.text, sizeof(why.text), format, arguments);
	va_end(arguments);
	return fail(job, &why);
}

bool sml_job_fail_for_now(struct sml_job *job, const char *text)
{
	job->end.lacks_room = true;
	return sml_job_fail(job, SML_ERROR_REFUSED, "%s", text);
}

/* A member of what has never run dies: it need not be waited for when the others ask again. */
static void note_gone_before(const struct sml_job *job, uint16_t rank)
{
	struct sml_failed_job *before =
		job->state < SML_JOB_RUNNING ? sml_job_followed(job, &rank) : NULL;

	if (before != NULL)
		sml_kept_without(job->jobs, before, rank);
}

bool sml_job_fail_without(struct sml_job *job, uint16_t rank, const char *format, ...)
{
	struct sml_failed_job why = {.error = SML_ERROR_RANK_DIED, .has_lost = true, .lost = rank};
	va_list arguments;

	note_gone_before(job, rank);
	va_start(arguments, format);
	vsnprintf(why.text, sizeof(why.text), format, arguments);
	va_end(arguments);
	return fail(job, &why);
}

/*
 * Not all ranks have come here to resume, or a leaf has died: the connections end without an error,
 * and the ranks try their next addresses together.
 */
static bool let_go(struct sml_job *job, const char *what, const char *why)
{
	struct sml_failed_job failed = {.error = SML_ERROR_SWITCH_DIED};

	note(job, what, why);
	snprintf(failed.text, sizeof(failed.text), "%.*s", (int)sizeof(failed.text) - 1,
		 job->end.how);
	/* No rank can resume what has not run, and its members ask again. */
	if (job->elastic.decision != NULL && job->state < SML_JOB_RUNNING)
		remember(job, &failed);
	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		struct sml_peer *peer = sml_job_release(job, rank);

		if (peer != NULL)
			sml_peer_end(job->jobs, peer);
	}
	return sml_job_close(job);
}

bool sml_job_give_up_resuming(struct sml_job *job, const char *why)
{
	return let_go(job, "does not continue here", why);
}

bool sml_job_disband(struct sml_job *job, const char *why)
{
	return let_go(job, "looks for its switches again", why);
}

/* ---- a doubted rank has gone ---- */

bool sml_job_given_up(struct sml_job *job, uint16_t rank, uint64_t missed_ns, const char *why)
{
	const struct sml_member *member = &job->members.of[rank];
	const bool embedded = job->jobs->operations->ranks_have_slots;
	char text[2 * SML_SENTENCE_BYTES];

	snprintf(text, sizeof(text),
		 "%s did not run for %.1f s (it was stopped, or its machine was paused), and rank "
		 "%u (host %s, pid %u) has given it up: %s",
		 embedded ? "rank 0, whose process has the job's control port," : "this switch",
		 (double)missed_ns / 1e9, rank, member->host, member->pid, why);
	/* No other process can take over rank 0's port. */
	if (embedded)
		return sml_job_fail(job, SML_ERROR_RANK_DIED, "%s", text);
	return sml_job_disband(job, text);
}
