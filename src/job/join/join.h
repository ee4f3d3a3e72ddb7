/* SPDX-License-Identifier: BSD-3-Clause */
/* Joining: see join.c. */
#ifndef SML_JOB_JOIN_JOIN_H
#define SML_JOB_JOIN_JOIN_H

#include "job/members/job.h"

/* A worker asks to join. May refuse it, or fail a whole job. */
void sml_job_join(struct sml_jobs *jobs, struct sml_peer *peer, const SmlControl__Join *join);

/* Continue a join when it is certain which rank of which job the peer is. */
void sml_job_join_as(struct sml_jobs *jobs, struct sml_peer *peer, const SmlControl__Join *join);

/*
 * Makes a job of these terms that is not in the list of the switch's jobs. The caller frees the job
 * and its members.
 */
struct sml_job *sml_job_with_terms(struct sml_jobs *jobs, const SmlControl__Join *join);

#endif
