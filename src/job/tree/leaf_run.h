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

/* Tell the parent if all are ready. The job may fail. And the parent starts it. */
void sml_leaf_job_check_ready(struct sml_leaf_job *job);
void sml_leaf_job_start(struct sml_leaf_job *job);

/* Tell the parent that two ranks disagree. */
void sml_leaf_job_mismatch(const struct sml_leaf_job *job, const struct sml_mismatch *mismatch);

/*
 * The parent wants to know what slots wait for. This switch asks its own leaves, and answers once
 * they have answered, or when it took too long.
 */
void sml_leaf_job_report_slots(struct sml_leaf_job *job);
void sml_leaf_job_look_for_answers(struct sml_leaf_job *job);

/* The job may fail. */
void sml_leaf_job_tick(struct sml_leaf_job *job);
uint64_t sml_leaf_job_deadline(const struct sml_leaf_job *job);

#endif
