/* SPDX-License-Identifier: BSD-3-Clause */
/* What the ranks of a job that resumes report, and the plans that are made of it. */
#ifndef SML_JOB_STATES_REPORTS_H
#define SML_JOB_STATES_REPORTS_H

#include "job/members/job.h"

/* The number of a job's results that are handed over after a death, to all ranks together. */
#define SML_MAX_HANDED_BYTES ((size_t)1 << 30)

/* All reports of a job, as they were sent: 16 KiB for each of 4,096 ranks, 256 of the longest. */
#define SML_MAX_REPORTED_BYTES ((size_t)64 << 20)

void sml_job_free_plans(struct sml_job *job);

/* The reader of a message frees it. NULL if there is no memory. To be freed as an unpacked one. */
SmlControl__Join *sml_join_copy(const SmlControl__Join *join);

/*
 * Keep what a member reports with its Join. False if there is no memory, or the job has reported
 * too much.
 */
bool sml_job_keep_report(struct sml_job *job, unsigned rank, const SmlControl__Join *join);
void sml_job_free_report(struct sml_job *job, unsigned rank);

#endif
