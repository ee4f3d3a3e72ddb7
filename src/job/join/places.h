/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which rank of which job a process was, as it says when it goes on in another membership
 * (sml_reconfigure()). Only a job's ranks and this switch know its tag.
 */
#ifndef SML_JOB_JOIN_PLACES_H
#define SML_JOB_JOIN_PLACES_H

#include "job/members/job.h"

/*
 * Returns the place that counts, of those that a process names, newest first: its place in the
 * newest job, unless this switch knows that the job never ran. NULL if none counts. Ends what still
 * waits here for that rank, and sets *before to how that job ended here, or to NULL if that is not
 * known.
 */
const SmlControl__Place *sml_place_that_counts(struct sml_jobs *jobs,
					       SmlControl__Place *const *places, size_t n,
					       struct sml_failed_job **before);

/* Whether the switch has decided on the next job of a rank that asked after this time. */
bool sml_place_was_decided_on(const struct sml_jobs *jobs, const SmlControl__Place *place,
			      uint64_t after_ns);

#endif
