/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the leaves of a job say. At a root, that concerns the job itself; at a leaf with leaves of
 * its own, it goes on to the parent. What job/members/pool.c knows is the same at both.
 */
#include "job/tree/branches.h"

#include <stdio.h>

#include "base/least.h"
#include "control/text.h"
#include "job/members/job.h"
#include "job/states/states.h"

void sml_leaves_forget(struct sml_job *job, const struct sml_branch *branch, const char *why)
{
	if (sml_job_pool_forget(&job->pool, branch) && !sml_jobs_is_leaf(job->jobs))
		sml_job_disband(job, why);
}

static void on_ready(struct sml_job *job, struct sml_child *child, const SmlControl__Ready *in)
{
	struct sml_job_pool *pool = &job->pool;
	char text[SML_SENTENCE_BYTES];
	const char *why;

	if (pool->started || child->ready)
		return;
	why = sml_job_pool_misses_address(pool, (unsigned)(child - pool->children));
	if (why == NULL && (in->lanes == 0 || in->lanes > pool->rules.lanes))
		why = "is ready with impossible packets";
	if (why != NULL) {
		snprintf(text, sizeof(text), "the leaf %s %s", child->branch->name, why);
		sml_job_fail(job, SML_ERROR_PROTOCOL, text);
		return;
	}
	child->lanes = in->lanes;
	child->ready = true;
	pool->n_leaves_ready++;
	sml_job_check_ready(job);
}

static void on_failed(struct sml_job *job, const struct sml_child *child,
		      const SmlControl__Abort *in)
{
	char text[SML_SENTENCE_BYTES], reason[SML_REASON_BYTES];

	sml_text_copy(reason, sizeof(reason), in->text);
	snprintf(text, sizeof(text), "%s leaf %s: %s", sml_jobs_is_leaf(job->jobs) ? "its" : "the",
		 child->branch->name, reason);
	/* No rank has begun here. */
	if (job->resume.runs && job->state <= SML_JOB_PROBING) {
		sml_job_disband(job, text);
		return;
	}
	job->end.lacks_room = in->again;
	sml_job_fail(job, in->error < 0 ? in->error : SML_ERROR_PROTOCOL, text);
}

/* It speaks only for its own ranks. */
static void on_mismatch(struct sml_job *job, const struct sml_child *child,
			const SmlControl__Mismatch *in)
{
	struct sml_mismatch mismatch = {
		.job = job->pool.rules.job,
		.slot = (uint16_t)in->slot,
		.use = in->use,
		.chunk = in->chunk,
	};

	if (in->n_ranks != 2)
		return;
	for (unsigned i = 0; i < 2; i++) {
		if (in->ranks[i] >= job->n_ranks || !sml_ranks_has(&child->ranks, in->ranks[i]))
			return;
		mismatch.ranks[i] = (uint16_t)in->ranks[i];
	}
	sml_job_mismatch(job, &mismatch);
}

static void on_slots(struct sml_job *job, struct sml_child *child,
		     const SmlControl__StallReport *in)
{
	sml_job_pool_note_answer(&job->pool, child, in);
	sml_job_look_for_answers(job);
}

void sml_leaves_message(struct sml_jobs *jobs, const struct sml_branch *branch,
			const SmlControl__Envelope *message)
{
	struct sml_job *job = sml_job_find(jobs, message->job);
	struct sml_child *child = job != NULL ? sml_job_pool_leaf(&job->pool, branch) : NULL;

	if (child == NULL)
		return;
	switch (message->body_case) {
	case SML_CONTROL__ENVELOPE__BODY_READY:
		on_ready(job, child, message->ready);
		break;
	case SML_CONTROL__ENVELOPE__BODY_ABORT:
		on_failed(job, child, message->abort);
		break;
	case SML_CONTROL__ENVELOPE__BODY_MISMATCH:
		on_mismatch(job, child, message->mismatch);
		break;
	case SML_CONTROL__ENVELOPE__BODY_STALL_REPORT:
		on_slots(job, child, message->stall_report);
		break;
	case SML_CONTROL__ENVELOPE__BODY_RENEW:
		for (uint8_t shard = 0; shard < job->pool.rules.n_shards; shard++)
			sml_job_pool_renew(&job->pool, (unsigned)(child - job->pool.children),
					   shard, message->renew->number);
		break;
	default:
		break;
	}
}
