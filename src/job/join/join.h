/* SPDX-License-Identifier: BSD-3-Clause */
/* Joining: see join.c. */
#ifndef SML_JOB_JOIN_JOIN_H
#define SML_JOB_JOIN_JOIN_H

#include "job/members/job.h"

/* A worker asks to join. May refuse it, or fail a whole job. */
void sml_job_join(struct sml_jobs *jobs, struct sml_peer *peer, const SmlControl__Join *join);

/* The same, once it is certain which rank of which job it is. */
void sml_job_join_as(struct sml_jobs *jobs, struct sml_peer *peer, const SmlControl__Join *join);

/* A job of these terms, which is not one of the switch's. The caller frees it and its members. */
struct sml_job *sml_job_with_terms(struct sml_jobs *jobs, const SmlControl__Join *join);

#endif
