/* SPDX-License-Identifier: BSD-3-Clause */
/* How the switch's slots are divided: see slots.c. */
#ifndef SML_JOB_MEMBERS_SLOTS_H
#define SML_JOB_MEMBERS_SLOTS_H

#include "job/members/job.h"

/* Reserve the minimum for a job. Returns false if there is not even that, and sets the text. */
bool sml_job_reserve_slots(struct sml_job *job, char *text, size_t bytes);

/*
 * The packets' length is known: give the job the slots that it wants, or its share of those that
 * are free. Returns false if a leaf has not even the minimum.
 */
bool sml_job_take_slots(struct sml_job *job);

/*
 * The free slots were fragmented: give the job half as many, if that is enough. Returns false if it
 * had the minimum.
 */
bool sml_job_take_fewer_slots(struct sml_job *job);

/*
 * Right after that, if the job has to wait: it holds what it reserved again, and no more meanwhile.
 */
void sml_job_keep_reserve(struct sml_job *job);

/* What a job reserves while it gathers, and how many it wants in addition. */
uint32_t sml_job_fewest_slots(const struct sml_job *job, uint32_t *more);

void sml_job_give_back_slots(struct sml_job *job);

#endif
