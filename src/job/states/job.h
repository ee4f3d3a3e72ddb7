/* SPDX-License-Identifier: BSD-3-Clause */
/* A job's states: who has joined, who leaves, and what is due when. */
#ifndef SML_JOB_STATES_JOB_H
#define SML_JOB_STATES_JOB_H

#include "job/members/job.h"

/* The newcomer is a member now: admit the job if all ranks have joined. */
void sml_job_joined(struct sml_job *job, const struct sml_peer *newcomer);

/* A member asks to leave. */
void sml_job_leave(struct sml_job *job, uint16_t rank);

/*
 * A member's connection has ended, or counts as ended: why says how. may_live: that is no
 * sign of a death, while the job gathers.
 */
void sml_job_lost(struct sml_peer *peer, const char *why, bool may_live);

/*
 * A member has gone before all ranks have joined. It may come again: launchers restart processes
 * that fail early. why says how it was lost, or is NULL if it went by itself. May end the job.
 */
void sml_job_forget_member(struct sml_job *job, uint16_t gone, const char *why);

/* What is due; may end the job. And when something is. */
void sml_job_tick(struct sml_job *job);
uint64_t sml_job_deadline(const struct sml_job *job);

#endif
