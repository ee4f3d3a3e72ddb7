/* SPDX-License-Identifier: BSD-3-Clause */
/* Joining: see join.c. */
#ifndef SML_JOB_JOIN_JOIN_H
#define SML_JOB_JOIN_JOIN_H

#include "job/switch.h"

/* A worker asks to join. May refuse it, or fail a whole job. */
void sml_job_join(struct sml_jobs *jobs, struct sml_peer *peer, const SmlControl__Join *join);

#endif
