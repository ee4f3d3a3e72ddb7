/* SPDX-License-Identifier: BSD-3-Clause */
/* What a leaf tells its parent about the slots of a job: see leaf_slots.c. */
#ifndef SML_JOB_TREE_LEAF_SLOTS_H
#define SML_JOB_TREE_LEAF_SLOTS_H

#include "job/tree/leaf_job.h"

/* Tell the parent: one that the dataplane has found, or one that a leaf of this leaf reports. */
void sml_leaf_job_mismatch(struct sml_jobs *jobs, const struct sml_mismatch *mismatch);
void sml_leaf_job_pass_mismatch(struct sml_leaf_job *job, unsigned child,
				SmlControl__LeafMismatch *in);

/* The parent asks what slots wait for. This leaf first asks its own leaves, and then answers. */
void sml_leaf_job_report_slots(struct sml_jobs *jobs, uint32_t number);
void sml_leaf_job_take_slots(struct sml_leaf_job *job, unsigned child,
			     const SmlControl__LeafSlots *in);

/* The time at which the answer is due; and the answer without the leaves that have not answered. */
uint64_t sml_leaf_job_slots_due(const struct sml_leaf_job *job);
void sml_leaf_job_send_known_slots(struct sml_leaf_job *job);

#endif
