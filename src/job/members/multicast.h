/* SPDX-License-Identifier: BSD-3-Clause */
/* Results by multicast: see multicast.c. */
#ifndef SML_JOB_MEMBERS_MULTICAST_H
#define SML_JOB_MEMBERS_MULTICAST_H

#include "job/members/job.h"

/* What a rank must know of its group, in this message's memory. Nothing if there is no group. */
struct sml_group;
void sml_job_describe_group(const struct sml_job *job, struct sml_group *group,
			    SmlControl__Group *message, SmlControl__Admitted *admitted);

/* Note whether a packet to the group reaches the rank, as it has just said. */
void sml_job_note_group(struct sml_job *job, uint16_t rank, bool reached);

/* Log, once for each, the ranks that the group does not reach, or no longer reaches. */
void sml_job_watch_group(struct sml_job *job);

/* The time of the next check; UINT64_MAX if there is none. */
uint64_t sml_job_watch_ends(const struct sml_job *job);

/* Whether results go to the rank by multicast. */
bool sml_job_is_by_group(const struct sml_job *job, uint16_t rank);

#endif
