/* SPDX-License-Identifier: BSD-3-Clause */
/* Members of a job and their peers; and what a dataplane need not have. */
#ifndef SML_JOB_MEMBERS_MEMBERS_H
#define SML_JOB_MEMBERS_MEMBERS_H

#include "job/members/job.h"

/*
 * Makes a job without members that is not in the list of the switch's jobs; the caller frees the
 * job and its members. Returns NULL if there is no memory. And puts it at a free place there.
 */
struct sml_job *sml_job_new(struct sml_jobs *jobs, const char *name, uint32_t n_ranks);
void sml_job_take_place(struct sml_job *job, uint32_t place);

/* Separates the rank from its peer. Returns the peer; NULL if there was none. */
struct sml_peer *sml_job_release(struct sml_job *job, unsigned rank);

/*
 * Of the ranks, those that were not in the job that this one follows, and that job's ranks that are
 * not in this one. 0 until all ranks are here, and if it follows none.
 */
void sml_job_count_changes(const struct sml_job *job, uint32_t *joined, uint32_t *left);

/*
 * Do ranks still come? Not when all are here, even if the job waits for slots of ended jobs: then a
 * rank that goes ends it, as it does later.
 */
static inline bool sml_job_gathers(const struct sml_job *job)
{
	return job->state == SML_JOB_JOINING && job->members.n < job->n_ranks;
}

/* The heartbeat of a rank that joins, within this switch's bounds. */
uint32_t sml_jobs_heartbeat_ms(const struct sml_jobs *jobs, const SmlControl__Join *join);

/* Each rank takes a silent switch for dead after its own heartbeat. */
uint32_t sml_job_longest_heartbeat_ms(const struct sml_job *job);

/* To all members that are here. */
void sml_job_send_all(const struct sml_job *job, const SmlControl__Envelope *message);

/* A job that has come to a bad end here, by its tag; NULL if none is known. */
struct sml_failed_job *sml_jobs_find_failed(const struct sml_jobs *jobs, uint64_t tag);

/*
 * The same, if this switch knows which of its ranks can be in another membership: not if it ran
 * elsewhere, and never went on here, because some of its ranks may be there again.
 */
struct sml_failed_job *sml_jobs_find_judged(const struct sml_jobs *jobs, uint64_t tag);

/*
 * What the rank's next membership follows: this job, which has failed; but the job before it if
 * this one has never run, and then *rank becomes the rank in that one. NULL if it follows none.
 */
struct sml_failed_job *sml_job_followed(const struct sml_job *job, uint16_t *rank);

/* Does this switch take no lanes of two int16? */
static inline bool sml_jobs_only_int32(const struct sml_jobs *jobs)
{
	return jobs->operations->only_int32 != NULL &&
	       jobs->operations->only_int32(jobs->dataplane);
}

/* Does it round sums of narrow lanes? Not if it has no narrow lanes. */
static inline bool sml_jobs_round(const struct sml_jobs *jobs)
{
	return jobs->operations->rounds && !sml_jobs_only_int32(jobs);
}

/* A rank that resumes may have results. One that begins, or has never begun, has none. */
static inline bool sml_join_resumes(const SmlControl__Join *join)
{
	return join->resume != NULL && !join->resume->begins;
}

#endif
