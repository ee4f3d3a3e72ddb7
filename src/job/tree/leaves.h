/* SPDX-License-Identifier: BSD-3-Clause */
/* What the leaves of a job say and suffer: see leaves.c. */
#ifndef SML_JOB_TREE_LEAVES_H
#define SML_JOB_TREE_LEAVES_H

#include "job/members/pool.h"

/* A leaf is about to go. May end the job. */
void sml_leaves_forget(struct sml_job_pool *pool, const struct sml_branch *branch, const char *why);

/* A leaf's message about a job. May end the job. */
void sml_leaves_message(struct sml_jobs *jobs, const struct sml_branch *branch,
			const SmlControl__Envelope *message);

/* Two ranks disagree, as this switch or a leaf of it has found. May end the job. */
void sml_leaves_mismatch(struct sml_job_pool *pool, const struct sml_mismatch *mismatch);

#endif
