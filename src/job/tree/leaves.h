/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job's leaves: see leaves.c. Of these, jobs reach the first six through the table of job/tree.h,
 * which describes them.
 */
#ifndef SML_JOB_TREE_LEAVES_H
#define SML_JOB_TREE_LEAVES_H

#include "job/members/job.h"

bool sml_leaves_begin(struct sml_job *job);
void sml_leaves_start(struct sml_job *job);
void sml_leaves_end(struct sml_job *job);
uint32_t sml_leaves_room(const struct sml_job *job);
void sml_leaves_query(struct sml_job *job);
bool sml_leaves_missing(const struct sml_job *job, const struct sml_slot_progress *slot,
			struct sml_ranks *ranks);

/* A leaf is about to go. May end the job. */
void sml_leaves_forget_branch(struct sml_job *job, const struct sml_branch *branch,
			      const char *why);

/* A leaf's message about the job. May end the job. */
void sml_leaves_message(struct sml_job *job, struct sml_branch *branch,
			const SmlControl__Envelope *message);

#endif
