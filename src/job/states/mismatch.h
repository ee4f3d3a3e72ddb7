/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ranks of a job made different calls. */
#ifndef SML_JOB_STATES_MISMATCH_H
#define SML_JOB_STATES_MISMATCH_H

#include "job/members/job.h"

/*
 * Two ranks disagree: ask both, and keep the answer of each. Later, when both have answered or it
 * took too long, tell all.
 */
void sml_job_mismatch(struct sml_job *job, const struct sml_mismatch *mismatch);
void sml_job_describe_call(struct sml_job *job, unsigned which, const SmlControl__Description *in);
void sml_job_report_mismatch(struct sml_job *job);

#endif
