/* SPDX-License-Identifier: BSD-3-Clause */
/* The time in which this switch itself did not run: see absence.c. */
#ifndef SML_JOB_INPUT_ABSENCE_H
#define SML_JOB_INPUT_ABSENCE_H

#include "job/switch.h"

/*
 * Note the time of the input that is handled now. This may find that the switch did not run for a
 * while.
 */
void sml_jobs_set_time(struct sml_jobs *jobs, uint64_t now_ns);

/* Whether any peer could notice that this switch does not run. */
bool sml_jobs_has_dependents(const struct sml_jobs *jobs);

#endif
