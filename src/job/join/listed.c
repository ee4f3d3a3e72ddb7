/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job whose members a program has named (join.h). Without the old ranks, the switch would only
 * know how many members are missing, and they would be awaited until the others' time is over,
 * though their connections have ended.
 */
#include "job/join/join.h"

#include <stdio.h>

#include "job/members/members.h"
#include "job/states/end.h"
#include "job/states/states.h"
#include "job/states/survivors.h"
#include "switchml.h"

void sml_listed_note(struct sml_job *job, uint16_t rank, const SmlControl__PastRank *past)
{
	struct sml_member *member = &job->members[rank];

	if (past == NULL || past->members.len == 0)
		return;
	if (job->elastic.list.tag == 0) {
		job->elastic.list.tag = past->tag;
		(void)sml_ranks_unpack(&job->elastic.list.ranks, past->members.data,
				       past->members.len, past->world_size);
	}
	if (job->elastic.list.tag != past->tag)
		return;
	member->before = (uint16_t)(past->rank + 1);
	sml_kept_back(job->jobs, past->tag, past->rank);
	sml_survivors_await(job->jobs, past->tag, member->waits_until_ns);
}

/* SML_MAX_WORLD: none. */
static unsigned find_gone(const struct sml_job *job)
{
	const struct sml_failed_job *before =
		sml_jobs_find_judged(job->jobs, job->elastic.list.tag);
	struct sml_ranks gone = job->elastic.list.ranks;

	if (before == NULL || !sml_job_gathers(job))
		return SML_MAX_WORLD;
	sml_ranks_intersect(&gone, &before->gone);
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (job->members[rank].before != 0)
			sml_ranks_remove(&gone, job->members[rank].before - 1u);
	return sml_ranks_next(&gone, 0);
}

bool sml_listed_misses(struct sml_job *job)
{
	const unsigned rank = find_gone(job);
	char text[SML_SENTENCE_BYTES];

	if (rank == SML_MAX_WORLD)
		return false;
	snprintf(text, sizeof(text),
		 "rank %u of the last job has died or left, and job \"%s\" has it as a member "
		 "(sml_reconfigure())",
		 rank, job->name);
	sml_job_fail(job, SML_ERROR_RANK_DIED, text);
	return true;
}
