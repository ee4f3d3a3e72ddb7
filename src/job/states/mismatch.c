/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ranks of a job made different calls: both are asked for theirs, and then all ranks are told.
 */
#include "job/states/states.h"

#include <stdio.h>

#include "control/envelope.h"
#include "control/text.h"
#include "job/peer/output.h"
#include "job/states/end.h"

void sml_job_mismatch(struct sml_job *job, const struct sml_mismatch *mismatch)
{
	SmlControl__Describe describe = SML_CONTROL__DESCRIBE__INIT;

	if (sml_jobs_is_leaf(job->jobs)) {
		sml_parent_mismatch(job, mismatch);
		return;
	}
	/* Before that, no rank has contributed, and ranks have nothing to describe. */
	if (job->mismatch.since_ns != 0 || job->state < SML_JOB_RUNNING)
		return;
	job->mismatch.found = *mismatch;
	job->mismatch.since_ns = job->jobs->now_ns;
	describe.slot = mismatch->slot;
	describe.use = mismatch->use;
	describe.chunk = mismatch->chunk;
	for (unsigned i = 0; i < 2; i++)
		if (job->members.of[mismatch->ranks[i]].peer != NULL)
			(void)sml_peer_send(job->jobs, job->members.of[mismatch->ranks[i]].peer,
					    sml_envelope(DESCRIBE, describe, &describe));
}

static void describe(const struct sml_job *job, unsigned i, char *text, size_t bytes)
{
	const struct sml_member *member = &job->members.of[job->mismatch.found.ranks[i]];

	snprintf(text, bytes, "rank %u (host %.40s, pid %u) called %s",
		 job->mismatch.found.ranks[i], member->host, member->pid,
		 job->mismatch.calls[i].text[0] ? job->mismatch.calls[i].text : "(no answer)");
}

void sml_job_describe_call(struct sml_job *job, unsigned which, const SmlControl__Description *in)
{
	struct sml_reported_call *call = &job->mismatch.calls[which];

	sml_text_copy(call->text, sizeof(call->text), in->text);
	call->call = in->call ? *in->call : (SmlControl__Call){.wire = 0};
}

/* Where only the wire differs, the program may be right, and a setting differs. */
static const char *advice(const struct sml_job *job)
{
	const SmlControl__Call *one = &job->mismatch.calls[0].call;
	const SmlControl__Call *other = &job->mismatch.calls[1].call;

	if (one->wire == 0 || other->wire == 0 || one->wire == other->wire ||
	    one->collective != other->collective || one->number != other->number ||
	    one->count != other->count || one->type != other->type || one->op != other->op ||
	    one->root != other->root)
		return "";
	return one->residual == other->residual ? ", on the same wire (SWITCHML_WIRE)"
						: ", on the same wire (SWITCHML_WIRE), all "
						  "with a residual or all without one";
}

void sml_job_report_mismatch(struct sml_job *job)
{
	char text[2 * SML_SENTENCE_BYTES], calls[2][SML_SENTENCE_BYTES];

	for (unsigned i = 0; i < 2; i++)
		describe(job, i, calls[i], sizeof(calls[i]));
	snprintf(
		text, sizeof(text),
		"ranks of job \"%s\" made different calls: %.360s; %.360s. All ranks must make the "
		"same calls in the same order%s",
		job->name, calls[0], calls[1], advice(job));
	sml_job_fail(job, SML_ERROR_MISMATCH, text);
}
