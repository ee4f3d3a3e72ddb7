/* SPDX-License-Identifier: BSD-3-Clause */
/* Admission, and the start. */
#ifndef SML_JOB_STATES_ADMIT_H
#define SML_JOB_STATES_ADMIT_H

#include "job/members/job.h"

/* Give the job its slots in the dataplane, and send every rank its admission. */
void sml_job_admit(struct sml_job *job, uint32_t epoch);

/* Start the job if all ranks are ready. */
void sml_job_check_ready(struct sml_job *job);

#endif
