/* SPDX-License-Identifier: BSD-3-Clause */
/* The time in which this switch itself did not run: see absence.c. */
#ifndef SML_JOB_INPUT_ABSENCE_H
#define SML_JOB_INPUT_ABSENCE_H

#include "job/switch.h"

/* Of the input that is handled now. May find that the switch did not run for a while. */
void sml_jobs_set_time(struct sml_jobs *jobs, uint64_t now_ns);

/* Would an absence of this switch matter to anybody? */
bool sml_jobs_has_dependents(const struct sml_jobs *jobs);

#endif
