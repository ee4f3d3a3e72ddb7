/* SPDX-License-Identifier: BSD-3-Clause */
/* The switch decides who the members of the next membership are: see decide.c. */
#ifndef SML_JOB_JOIN_DECIDE_H
#define SML_JOB_JOIN_DECIDE_H

#include "job/join/applicants.h"

/* Room for " #" and a decision's number, behind the job's name. */
#define SML_DECISION_BYTES 12

extern const char sml_too_late[]; /* to a rank that asks after the decision */

/* Decide on all jobs for which that is due, or whose ranks have all asked. */
void sml_decide(struct sml_jobs *jobs);

/* The same, when the connection of a rank of a job that had failed has ended. */
void sml_decide_without(struct sml_jobs *jobs, struct sml_peer *survivor);

/* Send an applicant the ranks of its last job that have not asked. */
void sml_applicant_notify(struct sml_jobs *jobs, struct sml_applicant *applicant);

#endif
