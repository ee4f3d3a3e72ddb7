/* SPDX-License-Identifier: BSD-3-Clause */
/* For which rank the others waited. */
#ifndef SML_JOB_STATES_SLOWEST_H
#define SML_JOB_STATES_SLOWEST_H

#include "job/members/job.h"

/*
 * Writes the rank, host or leaf for which the others waited longest, as a text. Returns how long,
 * in milliseconds, or 0 if that is not known.
 */
uint64_t sml_job_slowest(const struct sml_job *job, char *text, size_t bytes);

#endif
