/* SPDX-License-Identifier: BSD-3-Clause */
/* The place of a job whose members change: see kept.c. */
#ifndef SML_JOB_STATES_KEPT_H
#define SML_JOB_STATES_KEPT_H

#include "job/members/job.h"

/* The job ends. If ranks of it may go on, its place is kept for their next job. */
void sml_kept_begin(const struct sml_job *job);

/* That of the job with this tag; NULL if none is kept. */
struct sml_failed_job *sml_kept_find(const struct sml_jobs *jobs, uint64_t tag);

/* It is free. Nothing if it was not kept. */
void sml_kept_end(struct sml_jobs *jobs, struct sml_failed_job *job);

/* It is kept again, until the same time: the next job did not begin to gather. */
void sml_kept_again(struct sml_jobs *jobs, struct sml_failed_job *job, uint64_t until_ns);

/* None of its ranks asks any more, so it is kept no longer than for ranks that may still come. */
void sml_kept_unasked(struct sml_jobs *jobs, uint64_t tag);

/* The rank may go on; or has gone, and when all have, the place is free. */
void sml_kept_for(struct sml_failed_job *job, unsigned rank);
void sml_kept_without(struct sml_jobs *jobs, struct sml_failed_job *job, unsigned rank);

uint64_t sml_kept_deadline(const struct sml_jobs *jobs);
void sml_kept_tick(struct sml_jobs *jobs);

#endif
