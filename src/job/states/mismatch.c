/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ranks of a job made different calls: both are asked for theirs, and then all ranks are told.
 */
#include "job/states/mismatch.h"

#include <stdio.h>

#include "control/envelope.h"
#include "job/peer/output.h"
#include "job/states/end.h"

void sml_job_mismatch(struct sml_job *job, const struct sml_mismatch *mismatch)
{
	SmlControl__Describe describe = SML_CONTROL__DESCRIBE__INIT;

	/* Before that, no rank has contributed, and ranks have nothing to describe. */
	if (job->mismatch_ns != 0 || job->state < SML_JOB_RUNNING)
		return;
	job->mismatch = *mismatch;
	job->mismatch_ns = job->jobs->now_ns;
	describe.slot = mismatch->slot;
	describe.use = mismatch->use;
	describe.chunk = mismatch->chunk;
	for (unsigned i = 0; i < 2; i++)
		if (job->members[mismatch->ranks[i]].peer != NULL)
			(void)sml_peer_send(job->jobs, job->members[mismatch->ranks[i]].peer,
					    sml_envelope(DESCRIBE, describe, &describe));
}

void sml_job_tell_mismatch(struct sml_job *job)
{
	const struct sml_mismatch *mismatch = &job->mismatch;
	char text[2 * SML_SENTENCE_BYTES];

	snprintf(text, sizeof(text),
		 "ranks of job \"%s\" made different calls: rank %u called %s; rank %u called "
		 "%s. All ranks must make the same calls in the same order",
		 job->name, mismatch->ranks[0],
		 job->beliefs[0][0] ? job->beliefs[0] : "(no answer)", mismatch->ranks[1],
		 job->beliefs[1][0] ? job->beliefs[1] : "(no answer)");
	sml_job_fail(job, SML_ERROR_MISMATCH, text);
}
