/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Resuming where another switch has died: merges all ranks' reports, and passes results from the
 * ranks that keep them to those that lack them. core/resume.h has the rules; this file applies them
 * to connections.
 *
 * Messages on a connection keep their order, so a rank gets all results that it lacks before
 * Admitted, and begins only after that.
 */
#include "job/states/states.h"

#include <stdlib.h>

#include "control/envelope.h"

/* The number of a job's results that are handed over after a death, to all ranks together. */
#define MAX_HANDED_BYTES ((size_t)1 << 30)

static struct sml_resume_report report_of(const struct sml_job *job, uint32_t stream, unsigned rank)
{
	const SmlControl__StreamReport *report =
		job->members.of[rank].resume->resume->streams[stream];

	return (struct sml_resume_report){
		.beyond = report->beyond,
		.lacking = report->lacking,
		.n_lacking = (uint32_t)report->n_lacking,
		.kept = report->kept,
		.n_kept = (uint32_t)report->n_kept,
	};
}

static int merge(struct sml_job *job, enum sml_stream_id stream)
{
	struct sml_resume_plan *plan = &job->resume.plans[stream];
	struct sml_resume_report *reports = calloc(job->n_ranks, sizeof(*reports));
	int rc;

	plan->handovers = calloc(SML_MAX_PLAN, sizeof(*plan->handovers));
	plan->table = calloc(SML_MAX_PLAN, sizeof(*plan->table));
	if (reports == NULL || plan->handovers == NULL || plan->table == NULL) {
		free(reports);
		return -1;
	}
	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		/* The member's own copy: it may be put in order. */
		SmlControl__StreamReport *report =
			job->members.of[rank].resume->resume->streams[stream];

		sml_resume_sort(report->kept, (uint32_t)report->n_kept);
		reports[rank] = report_of(job, stream, rank);
	}
	rc = sml_resume_merge(reports, job->n_ranks, plan, SML_MAX_PLAN);
	free(reports);
	return rc;
}

static void fetch(struct sml_job *job, enum sml_stream_id stream,
		  const struct sml_resume_handover *handover)
{
	SmlControl__Fetch request = SML_CONTROL__FETCH__INIT;

	request.stream = stream;
	request.chunk = handover->chunk;
	(void)sml_peer_send(job->jobs, job->members.of[handover->from].peer,
			    sml_envelope(FETCH, fetch, &request));
	job->resume.n_missing++;
}

/* 1 + the highest epoch that any rank was told, so no earlier packet can be taken for a new one. */
static uint32_t next_epoch(const struct sml_job *job)
{
	uint32_t epoch = 0;

	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (job->members.of[rank].resume->resume->epoch > epoch)
			epoch = job->members.of[rank].resume->resume->epoch;
	return epoch + 1;
}

static void hand_over_or_admit(struct sml_job *job)
{
	if (job->resume.n_missing == 0)
		sml_job_admit(job, next_epoch(job));
}

/*
 * A rank that was told of an older epoch than the others, which then ran: a switch that was stopped
 * reads its report late. It has gone on since, and the end of that connection is on its way.
 */
static bool may_be_outdated(const struct sml_job *job)
{
	const uint32_t epoch = job->members.of[0].resume->resume->epoch;

	for (unsigned rank = 1; rank < job->n_ranks; rank++)
		if (job->members.of[rank].resume->resume->epoch != epoch)
			return true;
	return false;
}

static void report_contradiction(struct sml_job *job)
{
	if (may_be_outdated(job))
		sml_job_give_up_resuming(job, "the ranks' reports are of different epochs");
	else
		sml_job_fail(job, SML_ERROR_PROTOCOL,
			     "the ranks' reports after the death of their switch contradict each "
			     "other (please report this)");
}

void sml_job_resume(struct sml_job *job)
{
	/* Each of its ranks is here, with a report: check() in job.c. */
	sml_assert(job->resume.runs && job->state == SML_JOB_JOINING && job->resume.n_missing == 0);
	sml_assert(job->members.n == job->n_ranks);
	job->state = SML_JOB_HANDING_OVER;
	job->begun_ns = job->jobs->now_ns;
	for (enum sml_stream_id stream = SML_HEAD; stream < SML_STREAMS; stream++) {
		if (merge(job, stream) < 0) {
			report_contradiction(job);
			return;
		}
	}
	/* Exponents first: data cannot be taken before them. */
	for (enum sml_stream_id stream = SML_HEAD; stream < SML_STREAMS; stream++)
		for (uint32_t i = 0; i < job->resume.plans[stream].n_handovers; i++)
			fetch(job, stream, &job->resume.plans[stream].handovers[i]);
	hand_over_or_admit(job);
}

static struct sml_resume_handover *find_handover(struct sml_job *job, uint32_t stream,
						 uint32_t chunk)
{
	struct sml_resume_plan *plan;

	if (job->state != SML_JOB_HANDING_OVER || stream >= SML_STREAMS)
		return NULL;
	plan = &job->resume.plans[stream];
	for (uint32_t i = 0; i < plan->n_handovers; i++)
		if (plan->handovers[i].chunk == chunk)
			return &plan->handovers[i];
	return NULL;
}

void sml_job_result(struct sml_job *job, const SmlControl__Result *result)
{
	struct sml_resume_handover *handover = find_handover(job, result->stream, result->chunk);

	if (handover == NULL || handover->done || result->lanes.len > 4 * SML_MAX_LANES)
		return;
	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		struct sml_resume_report report = report_of(job, result->stream, rank);

		if (!sml_resume_lacks(&report, result->chunk))
			continue;
		/*
		 * A rank that lacks it may not read, so the data that waits for all of them is
		 * bounded.
		 */
		job->resume.handed_bytes += result->lanes.len;
		(void)sml_peer_send(
			job->jobs, job->members.of[rank].peer,
			sml_envelope(RESULT, result, (SmlControl__Result *)(uintptr_t)result));
	}
	if (job->resume.handed_bytes > MAX_HANDED_BYTES) {
		sml_job_fail(job, SML_ERROR_PROTOCOL,
			     "after the death of their switch, the ranks lack more results than "
			     "can be handed over");
		return;
	}
	sml_assert(job->resume.n_missing > 0);
	handover->done = true;
	job->resume.n_missing--;
	hand_over_or_admit(job);
}
