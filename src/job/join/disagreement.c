/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that disagree about their job: see join.h. */
#include "job/join/join.h"

#include <stdio.h>
#include <string.h>

#include "job/members/members.h"

void sml_disagreement_note(struct sml_jobs *jobs, const struct sml_job *job,
			   const SmlControl__Join *newcomer, const struct sml_refusal *refusal)
{
	const char *name = "";

	if (newcomer != NULL)
		name = newcomer->job;
	else if (job != NULL)
		name = job->name;
	memset(&jobs->disagreement, 0, sizeof(jobs->disagreement));
	snprintf(jobs->disagreement.job, sizeof(jobs->disagreement.job), "%s", name);
	snprintf(jobs->disagreement.text, sizeof(jobs->disagreement.text), "%s", refusal->text);
	jobs->disagreement.error = refusal->error;
	jobs->disagreement.at_ns = jobs->now_ns;
	for (unsigned rank = 0; rank < SML_MAX_WORLD; rank++)
		if ((newcomer != NULL && rank == newcomer->rank) ||
		    (job != NULL && rank < job->n_ranks && job->members.of[rank].peer != NULL))
			jobs->disagreement.has_it[rank / 64] |= UINT64_C(1) << rank % 64;
}

bool sml_disagreement_recall(struct sml_jobs *jobs, const SmlControl__Join *join,
			     struct sml_refusal *refusal)
{
	uint64_t *has_it = &jobs->disagreement.has_it[join->rank / 64];
	uint64_t bit = UINT64_C(1) << join->rank % 64;

	if (sml_join_resumes(join) || strcmp(jobs->disagreement.job, join->job) != 0)
		return false;
	if ((*has_it & bit) || jobs->now_ns - jobs->disagreement.at_ns > SML_TURNED_AWAY_NS) {
		jobs->disagreement.job[0] = '\0';
		return false;
	}
	*has_it |= bit;
	refusal->error = jobs->disagreement.error;
	snprintf(refusal->text, sizeof(refusal->text), "%s", jobs->disagreement.text);
	return true;
}
