/* SPDX-License-Identifier: BSD-3-Clause */
/* A job at a leaf between its beginning and its end: see leaf_run.c. */
#ifndef SML_JOB_TREE_LEAF_RUN_H
#define SML_JOB_TREE_LEAF_RUN_H

#include "job/tree/leaf_job.h"

/* The root's Admitted for this rank gets this switch's numbers. */
void sml_leaf_job_admit(const struct sml_proxied *proxied, SmlControl__Admitted *admitted);

/* Is its path known? False if the job has failed, and the parent knows why. */
bool sml_leaf_job_is_ready(struct sml_proxied *proxied, const SmlControl__Ready *ready);

/* It gets no results here, and its address may be another one. */
void sml_leaf_job_renew_rank(const struct sml_proxied *proxied, const SmlControl__Renew *in);

void sml_leaf_job_start(struct sml_jobs *jobs, uint32_t number);

/* A message of a leaf of this leaf about a job. */
void sml_leaf_job_branch_message(struct sml_jobs *jobs, struct sml_branch *branch,
				 const SmlControl__Envelope *message);

/* The job may fail. */
void sml_leaf_job_tick(struct sml_leaf_job *job);
uint64_t sml_leaf_job_deadline(const struct sml_leaf_job *job);

#endif
