/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which rank of which job a process was, as it says when it goes on in another membership
 * (sml_reconfigure()). Only a job's ranks and this switch know its tag.
 */
#ifndef SML_JOB_JOIN_PLACES_H
#define SML_JOB_JOIN_PLACES_H

#include "job/members/job.h"

/*
 * Which of the places counts, the newest being the first: that of the newest job, unless this
 * switch knows that it never ran. NULL: none. Ends what still waits for this rank. Then *before is
 * what is known of that job's end here, or NULL.
 */
const SmlControl__Place *sml_place_that_counts(struct sml_jobs *jobs,
					       SmlControl__Place *const *places, size_t n,
					       struct sml_failed_job **before);

/* Whether the switch has decided on the next job of a rank that asked after this time. */
bool sml_place_was_decided_on(const struct sml_jobs *jobs, const SmlControl__Place *place,
			      uint64_t after_ns);

#endif
