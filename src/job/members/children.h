/* SPDX-License-Identifier: BSD-3-Clause */
/* Who contributes to a job's slots: see children.c. */
#ifndef SML_JOB_MEMBERS_CHILDREN_H
#define SML_JOB_MEMBERS_CHILDREN_H

#include "job/members/job.h"

/*
 * All ranks have joined: number the children. Returns false if there are more than a switch can
 * have, and sets the text.
 */
bool sml_job_form_children(struct sml_job *job, char *text, size_t bytes);

/*
 * The same, when hosts are known, of those ranks that are here: at a leaf, some may have gone since
 * the root has admitted the job. Returns false if there are too many.
 */
bool sml_job_number_children(struct sml_job *job);

/* Give the job to its leaves, once the dataplane has it. Returns false if there is no memory. */
bool sml_job_give(struct sml_job *job);

/*
 * Whether the rank is a child by itself. If it is not, what a child does proves nothing about one
 * rank.
 */
bool sml_job_is_child(const struct sml_job *job, unsigned rank);

/* Whether the rank is one of several ranks that share memory, and are one child of this switch. */
bool sml_job_is_in_host(const struct sml_job *job, unsigned rank);

#endif
