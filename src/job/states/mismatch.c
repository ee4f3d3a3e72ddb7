/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ranks of a job made different calls: both are asked for theirs, and then all ranks are told.
 */
#include "job/states/mismatch.h"

#include <stdio.h>
#include <string.h>

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

static void describe(const struct sml_job *job, unsigned i, char *text, size_t bytes)
{
	const struct sml_member *member = &job->members[job->mismatch.ranks[i]];

	snprintf(text, bytes, "rank %u (host %.40s, pid %u) called %s", job->mismatch.ranks[i],
		 member->host, member->pid,
		 job->reported_calls[i][0] ? job->reported_calls[i] : "(no answer)");
}

/* A call's text ends with its wire: "all-reduce 3: 10 float32, sum, int32 wire". */
static size_t length_without_wire(const char *call)
{
	size_t length = strlen(call), wire = sizeof(" wire") - 1;

	if (length < wire || strcmp(call + length - wire, " wire") != 0)
		return 0;
	while (length > 0 && call[length] != ',')
		length--;
	return length;
}

/* Then a setting differs, and the program may be right. */
static bool differ_in_the_wire(const struct sml_job *job)
{
	const char *one = job->reported_calls[0], *other = job->reported_calls[1];
	size_t length = length_without_wire(one);

	return length > 0 && length == length_without_wire(other) &&
	       memcmp(one, other, length) == 0;
}

void sml_job_tell_mismatch(struct sml_job *job)
{
	char text[2 * SML_SENTENCE_BYTES], calls[2][SML_SENTENCE_BYTES];

	for (unsigned i = 0; i < 2; i++)
		describe(job, i, calls[i], sizeof(calls[i]));
	snprintf(
		text, sizeof(text),
		"ranks of job \"%s\" made different calls: %.380s; %.380s. All ranks must make the "
		"same calls in the same order%s",
		job->name, calls[0], calls[1],
		differ_in_the_wire(job) ? ", on the same wire (SWITCHML_WIRE)" : "");
	sml_job_fail(job, SML_ERROR_MISMATCH, text);
}
