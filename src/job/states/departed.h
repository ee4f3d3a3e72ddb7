/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that have died after they had asked to leave: see departed.c. */
#ifndef SML_JOB_STATES_GONE_H
#define SML_JOB_STATES_GONE_H

#include "job/members/job.h"

void sml_job_note_departed(struct sml_job *job, uint16_t rank, const char *why);

/*
 * The time at which to check whether a slot waits for one of these ranks; and the check. Returns
 * true if so: then the job is over.
 */
uint64_t sml_job_departed_due(const struct sml_job *job);
bool sml_job_misses_departed(struct sml_job *job);

/* A rank has answered what the slots in its host's memory wait for. */
void sml_job_note_host_stalls(struct sml_job *job, uint16_t from,
			      const SmlControl__StallReport *in);

#endif
