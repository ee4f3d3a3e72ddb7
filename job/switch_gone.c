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

void sml_job_note_gone(struct sml_job *job, uint16_t rank, const char *why)
{
	sml_assert(job->members[rank].peer == NULL && job->members[rank].leaving);
	sml_assert(!sml_ranks_has(&job->gone, rank) && job->n_gone < job->n_ranks);
	sml_ranks_add(&job->gone, rank);
	job->n_gone++;
	sml_text_copy(job->gone_why, sizeof(job->gone_why), why);
	job->gone_looked_ns = job->jobs->now_ns;
}

uint64_t sml_job_gone_due(const struct sml_job *job)
{
	return job->n_gone ? job->gone_looked_ns + LOOK_NS : UINT64_MAX;
}

/* The ranks that have died, and that a slot may wait for. */
static void look(const struct sml_job *job, struct sml_ranks *missing)
{
	uint32_t n = (uint32_t)job->rules.head_slots + job->rules.data_slots;
	struct sml_slot_progress *slots = calloc(n, sizeof(*slots));
	struct sml_ranks ranks;

	*missing = (struct sml_ranks){{0}};
	if (slots == NULL)
		return; /* the next look may find memory */
	n = sml_job_slot_states(job, slots, n);
	for (uint32_t i = 0; i < n; i++)
		if (sml_job_ranks_missing(job, &slots[i], &ranks))
			sml_ranks_unite(missing, &ranks);
	free(slots);
	sml_ranks_intersect(missing, &job->gone);
}

bool sml_job_misses_gone(struct sml_job *job)
{
	char text[2 * SML_SENTENCE_BYTES];
	struct sml_ranks missed;
	unsigned rank;

	if (job->jobs->now_ns < sml_job_gone_due(job))
		return false;
	job->gone_looked_ns = job->jobs->now_ns;
	look(job, &missed);
	/* For the next look. */
	sml_job_ask_leaves(job);
	rank = sml_ranks_next(&missed, 0);
	if (rank == SML_MAX_WORLD)
		return false;
	snprintf(text, sizeof(text),
		 "rank %u (host %s, pid %u) died after it had asked to leave, but other ranks are "
		 "waiting for it in a call that it did not make: %s",
		 rank, job->members[rank].host, job->members[rank].pid, job->gone_why);
	sml_job_fail_without(job, (uint16_t)rank, text);
	return true;
}
