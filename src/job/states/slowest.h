/* SPDX-License-Identifier: BSD-3-Clause */
/* Which rank the others waited for. */
#ifndef SML_JOB_STATES_SLOWEST_H
#define SML_JOB_STATES_SLOWEST_H

#include "job/members/job.h"

/*
 * Writes the rank, host or leaf that was most often the last to contribute to a slot, as a text.
 * Returns its share of the slots in percent, or 0 if that is not known.
 */
uint32_t sml_job_slowest(const struct sml_job *job, char *text, size_t bytes);

#endif
