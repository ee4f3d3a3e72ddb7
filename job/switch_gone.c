/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that died after they had asked to leave. Such a rank had all its results, so the others can
 * finish without it, unless they make a call that it did not make. Then a slot would wait for it
 * forever, so the slots are checked now and then.
 */
#include <stdio.h>
#include <stdlib.h>

#include "control/text.h"
#include "job/switch_job.h"

/* For each check, every thread of the dataplane walks its slots. */
#define LOOK_NS (SML_SECOND_NS / 2)

void sml_job_note_gone(struct sml_job *job, uint8_t rank, const char *why)
{
	job->gone |= (uint64_t)1 << rank;
	sml_text_copy(job->gone_why, sizeof(job->gone_why), why);
	job->gone_looked_ns = job->jobs->now_ns;
}

uint64_t sml_job_gone_due(const struct sml_job *job)
{
	return job->gone ? job->gone_looked_ns + LOOK_NS : UINT64_MAX;
}

/* The ranks that have died, and that a slot may wait for. */
static uint64_t look(const struct sml_job *job)
{
	uint32_t n = (uint32_t)job->rules.head_slots + job->rules.data_slots;
	struct sml_slot_progress *slots = calloc(n, sizeof(*slots));
	uint64_t missing = 0, ranks;

	if (slots == NULL)
		return 0; /* the next look may find memory */
	n = sml_job_slot_states(job, slots, n);
	for (uint32_t i = 0; i < n; i++)
		if (sml_job_ranks_missing(job, &slots[i], &ranks))
			missing |= ranks;
	free(slots);
	return missing & job->gone;
}

bool sml_job_misses_gone(struct sml_job *job)
{
	char text[SML_SENTENCE_BYTES];
	uint64_t missed;
	unsigned rank = 0;

	if (job->jobs->now_ns < sml_job_gone_due(job))
		return false;
	job->gone_looked_ns = job->jobs->now_ns;
	missed = look(job);
	/* For the next look. */
	sml_job_ask_leaves(job);
	if (missed == 0)
		return false;
	while (!(missed >> rank & 1))
		rank++;
	snprintf(text, sizeof(text),
		 "rank %u (host %s, pid %u) died after it had asked to leave, but other ranks are "
		 "waiting for it in a call that it did not make: %s",
		 rank, job->members[rank].host, job->members[rank].pid, job->gone_why);
	sml_job_fail(job, SML_ERROR_RANK_DIED, text);
	return true;
}
