/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that disagree about their job all get the same error, in whatever order they come. The
 * switch keeps the last such error for those that have not come yet.
 */
#ifndef SML_JOB_JOIN_DISAGREEMENT_H
#define SML_JOB_JOIN_DISAGREEMENT_H

#include "job/join/terms.h"
#include "job/members/job.h"

/* A launcher starts its ranks within this time. */
#define SML_TURNED_AWAY_NS (10 * SML_SECOND_NS)

/*
 * job's members, and the newcomer, get the error now. Either may be NULL: the newcomer is the first
 * that has come, or a member is the one that disagrees.
 */
void sml_disagreement_note(struct sml_jobs *jobs, const struct sml_job *job,
			   const SmlControl__Join *newcomer, const struct sml_refusal *refusal);

/*
 * The rank comes too late to a job whose ranks disagreed: it gets their error. Whoever comes again
 * after the error is of the next run.
 */
bool sml_disagreement_recall(struct sml_jobs *jobs, const SmlControl__Join *join,
			     struct sml_refusal *refusal);

#endif
