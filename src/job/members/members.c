/* SPDX-License-Identifier: BSD-3-Clause */
/* Members of a job, and their peers. */
#include "job/members/members.h"

#include <stdlib.h>

#include "base/least.h"
#include "control/text.h"

#define LEAST_HEARTBEAT_MS 500
/* All reports of a job, as they were sent: 16 KiB for each of 4,096 ranks, 256 of the longest. */
#define MAX_REPORTED_BYTES ((size_t)64 << 20)

struct sml_job *sml_job_new(struct sml_jobs *jobs, const char *name, uint32_t n_ranks)
{
	struct sml_job *job = calloc(1, sizeof(*job));

	if (job == NULL)
		return NULL;
	job->members.of = calloc(n_ranks, sizeof(*job->members.of));
	if (job->members.of == NULL) {
		free(job);
		return NULL;
	}
	sml_text_copy(job->name, sizeof(job->name), name);
	job->jobs = jobs;
	job->n_ranks = (uint16_t)n_ranks;
	return job;
}

void sml_decision_free(struct sml_decision *decision)
{
	if (decision != NULL) {
		free(decision->before);
		free(decision->asked);
	}
	free(decision);
}

void sml_job_free(struct sml_job *job)
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
		sml_job_free(jobs->over);
	}
}

void sml_job_take_place(struct sml_job *job, uint32_t place)
{
	job->place = place;
	job->jobs->jobs[place] = job;
	job->jobs->n_jobs++;
}

struct sml_peer *sml_job_release(struct sml_job *job, unsigned rank)
{
	struct sml_peer *peer = job->members.of[rank].peer;

	if (peer == NULL)
		return NULL;
	sml_assert(peer->job == job && peer->rank == rank);
	peer->job = NULL;
	job->members.of[rank].peer = NULL;
	job->members.of[rank].heard_ns = peer->heard_ns;
	/* At a leaf, its connection still counts. */
	if (peer->proxied != NULL)
		return peer;
	peer->missed_ns = 0;
	if (peer->via == NULL)
		job->jobs->n_members--;
	return peer;
}

void sml_job_send_all(const struct sml_job *job, const SmlControl__Envelope *message)
{
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (job->members.of[rank].peer != NULL)
			(void)sml_peer_send(job->jobs, job->members.of[rank].peer, message);
}

uint32_t sml_jobs_heartbeat_ms(const struct sml_jobs *jobs, const SmlControl__Join *join)
{
	return sml_most(sml_least(join->heartbeat_ms, jobs->config.heartbeat_ms),
			LEAST_HEARTBEAT_MS);
}

uint32_t sml_job_longest_heartbeat_ms(const struct sml_job *job)
{
	uint32_t longest_ms = 0;

	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		longest_ms = sml_most(longest_ms, job->members.of[rank].asked_ms);
	return longest_ms;
}

void sml_job_count_changes(const struct sml_job *job, uint32_t *joined, uint32_t *left)
{
	uint32_t n_stayed = 0;

	*joined = *left = 0;
	if (job->elastic.changes == 0 || job->state < SML_JOB_PROBING)
		return;
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		n_stayed += job->members.of[rank].follows;
	*joined = job->n_ranks - n_stayed;
	/* What ranks say may not fit together. */
	*left = job->elastic.follows_ranks > n_stayed ? job->elastic.follows_ranks - n_stayed : 0;
}

struct sml_failed_job *sml_jobs_find_failed(const struct sml_jobs *jobs, uint64_t tag)
{
	for (uint32_t i = 0; i < SML_FAILED_JOBS && i < jobs->n_failed; i++)
		if (jobs->failed[i].tag == tag)
			return (struct sml_failed_job *)(uintptr_t)&jobs->failed[i];
	return NULL;
}

struct sml_failed_job *sml_jobs_find_judged(const struct sml_jobs *jobs, uint64_t tag)
{
	struct sml_failed_job *found = sml_jobs_find_failed(jobs, tag);

	return found != NULL && found->was_elsewhere ? NULL : found;
}

struct sml_failed_job *sml_job_followed(const struct sml_job *job, uint16_t *rank)
{
	const struct sml_decision *decision = job->elastic.decision;
	uint32_t before;

	if (job->state >= SML_JOB_RUNNING)
		return sml_jobs_find_judged(job->jobs, job->report_tag);
	before = decision != NULL ? decision->before[*rank] : job->members.of[*rank].before;
	if (before == 0)
		return NULL;
	*rank = (uint16_t)(before - 1);
	return sml_jobs_find_judged(job->jobs,
				    decision != NULL ? decision->after : job->elastic.list.tag);
}

/* ---- what the ranks of a job that resumes report, while the job keeps it ---- */

SmlControl__Join *sml_join_copy(const SmlControl__Join *join)
{
	size_t bytes = sml_control__join__get_packed_size(join);
	uint8_t *packed = malloc(bytes);
	SmlControl__Join *copy = NULL;

	if (packed != NULL) {
		sml_control__join__pack(join, packed);
		copy = sml_control__join__unpack(NULL, bytes, packed);
		free(packed);
	}
	return copy;
}

bool sml_job_keep_report(struct sml_job *job, unsigned rank, const SmlControl__Join *join)
{
	size_t bytes = sml_control__join__get_packed_size(join);

	if (bytes > MAX_REPORTED_BYTES - job->resume.reported_bytes)
		return false;
	job->members.of[rank].resume = sml_join_copy(join);
	if (job->members.of[rank].resume == NULL)
		return false;
	job->resume.reported_bytes += bytes;
	return true;
}

void sml_job_free_report(struct sml_job *job, unsigned rank)
{
	SmlControl__Join *report = job->members.of[rank].resume;

	if (report == NULL)
		return;
	/* Its numbers may be in another order now, which takes as much. */
	job->resume.reported_bytes -= sml_control__join__get_packed_size(report);
	sml_control__join__free_unpacked(report, NULL);
	job->members.of[rank].resume = NULL;
}

void sml_job_free_plans(struct sml_job *job)
{
	for (enum sml_stream_id stream = SML_HEAD; stream < SML_STREAMS; stream++) {
		free(job->resume.plans[stream].handovers);
		free(job->resume.plans[stream].table);
		job->resume.plans[stream] = (struct sml_resume_plan){0};
	}
}
