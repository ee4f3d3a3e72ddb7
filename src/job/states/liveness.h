/* SPDX-License-Identifier: BSD-3-Clause */
/* Signs of life on the data path: see liveness.c. */
#ifndef SML_JOB_STATES_SIGNS_H
#define SML_JOB_STATES_SIGNS_H

#include "job/members/job.h"

/* When quiet members are next checked on the data path; and the check. */
uint64_t sml_job_liveness_due(const struct sml_job *job);
void sml_job_check_liveness(struct sml_job *job);

#endif
