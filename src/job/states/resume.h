/* SPDX-License-Identifier: BSD-3-Clause */
/* Going on after another switch's death: see resume.c. */
#ifndef SML_JOB_STATES_RESUME_H
#define SML_JOB_STATES_RESUME_H

#include "job/members/job.h"

/* All ranks are here and have reported: hand over, then sml_job_admit(). */
void sml_job_resume(struct sml_job *job);

/* A keeper's answer, for the ranks that lack the result. */
void sml_job_result(struct sml_job *job, const SmlControl__Result *result);

#endif
