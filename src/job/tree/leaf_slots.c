/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a leaf tells its parent about the slots of a job: mismatches, and the ranks that slots wait
 * for.
 *
 * The invariant: a report about a child names only ranks behind that child.
 */
#include "job/tree/leaf_slots.h"

#include <stdlib.h>

#include "control/envelope.h"
#include "job/peer/output.h"
#include "job/tree/leaf_job.h"

/* ---- mismatches ---- */

static void report_mismatch(struct sml_jobs *jobs, SmlControl__LeafMismatch *message)
{
	(void)sml_leaf_send(jobs, sml_envelope(LEAF_MISMATCH, leaf_mismatch, message));
}

void sml_leaf_job_mismatch(struct sml_jobs *jobs, const struct sml_mismatch *mismatch)
{
	const struct sml_leaf_job *job = sml_leaf_job_find(jobs, mismatch->job);
	SmlControl__LeafMismatch message = SML_CONTROL__LEAF_MISMATCH__INIT;
	uint32_t ranks[2];

	if (job == NULL || mismatch->ranks[0] >= job->n_children ||
	    mismatch->ranks[1] >= job->n_children)
		return;
	for (unsigned i = 0; i < 2; i++)
		ranks[i] = job->children[mismatch->ranks[i]].first_rank;
	message.job_number = mismatch->job;
	message.slot = mismatch->slot;
	message.use = mismatch->use;
	message.chunk = mismatch->chunk;
	message.ranks = ranks;
	message.n_ranks = 2;
	report_mismatch(jobs, &message);
}

/* It speaks only for its own ranks. */
void sml_leaf_job_pass_mismatch(struct sml_leaf_job *job, unsigned child,
				SmlControl__LeafMismatch *in)
{
	const struct sml_ranks *ranks = &job->children[child].ranks;

	if (in->n_ranks == 2 && in->ranks[0] < job->world_size && in->ranks[1] < job->world_size &&
	    sml_ranks_has(ranks, in->ranks[0]) && sml_ranks_has(ranks, in->ranks[1]))
		report_mismatch(job->jobs, in);
}

/* ---- what slots wait for ---- */

/* False: a leaf knows it, and has not had room to say it. */
static bool find_missing(const void *self, const struct sml_slot_progress *slot,
			 struct sml_ranks *ranks)
{
	const struct sml_leaf_job *job = self;

	*ranks = (struct sml_ranks){{0}};
	for (unsigned i = 0; i < job->n_children; i++) {
		const struct sml_waits *waits = &job->children[i].waits;
		struct sml_ranks found = job->children[i].ranks;

		if (!(slot->missing >> i & 1))
			continue;
		if (!sml_waits_knows(waits, slot->slot) && waits->is_partial)
			return false;
		if (sml_waits_knows(waits, slot->slot) && waits->slots[slot->slot].use == slot->use)
			sml_waits_get(waits, slot->slot, &found);
		sml_ranks_unite(ranks, &found);
	}
	return true;
}

/* False: no memory. */
static bool look_at_slots(const struct sml_leaf_job *job, struct sml_waits *waits)
{
	const struct sml_jobs *jobs = job->jobs;
	struct sml_slot_progress *states = calloc(sml_leaf_job_slots(job), sizeof(*states));
	uint32_t n = 0;

	if (states == NULL || !sml_waits_init(waits, sml_leaf_job_slots(job), job->world_size)) {
		free(states);
		return false;
	}
	if (jobs->operations->slot_states && job->has_slots)
		n = jobs->operations->slot_states(jobs->dataplane, job->rules.job, states,
						  sml_leaf_job_slots(job));
	sml_waits_add(waits, states, n, find_missing, job);
	free(states);
	for (unsigned i = 0; i < job->n_children; i++)
		sml_waits_add_below(waits, &job->children[i].waits, find_missing, job);
	return true;
}

static void send_slots(struct sml_leaf_job *job)
{
	SmlControl__LeafSlots message = SML_CONTROL__LEAF_SLOTS__INIT;
	struct sml_waits_message packed = {.is_partial = true};
	struct sml_waits waits;

	job->slots_requested = false;
	message.job_number = job->rules.job;
	if (look_at_slots(job, &waits)) {
		if (!sml_waits_pack(&waits, SML_WAITS_ROOM, &packed))
			packed.is_partial = true;
		sml_waits_fini(&waits);
	}
	message.slots = packed.slots;
	message.n_slots = packed.n_slots;
	message.sets = packed.sets;
	message.n_sets = packed.n_sets;
	message.partial = packed.is_partial;
	(void)sml_leaf_send(job->jobs, sml_envelope(LEAF_SLOTS, leaf_slots, &message));
	sml_waits_free(&packed);
}

/* What the others said long ago would blame the wrong ranks. */
void sml_leaf_job_send_known_slots(struct sml_leaf_job *job)
{
	for (unsigned i = 0; i < job->n_children; i++) {
		if (job->children[i].branch == NULL || job->children[i].answered)
			continue;
		sml_waits_clear(&job->children[i].waits);
		job->children[i].waits.is_partial = true;
	}
	send_slots(job);
}

void sml_leaf_job_report_slots(struct sml_jobs *jobs, uint32_t number)
{
	struct sml_leaf_job *job = sml_leaf_job_find(jobs, number);
	SmlControl__LeafStalls request = SML_CONTROL__LEAF_STALLS__INIT;
	bool waits = false;

	if (job == NULL)
		return;
	request.job_number = number;
	for (unsigned i = 0; i < job->n_children; i++) {
		if (job->children[i].branch == NULL)
			continue;
		waits = true;
		job->children[i].answered = false;
		(void)sml_branch_send(job->children[i].branch,
				      sml_envelope(LEAF_STALLS, leaf_stalls, &request));
	}
	job->slots_requested = waits;
	job->slots_requested_ns = jobs->now_ns;
	if (!waits)
		send_slots(job);
}

void sml_leaf_job_take_slots(struct sml_leaf_job *job, unsigned child,
			     const SmlControl__LeafSlots *in)
{
	if (!job->slots_requested || in->n_slots > sml_leaf_job_slots(job))
		return;
	job->children[child].answered = true;
	sml_waits_unpack(&job->children[child].waits, in->slots, in->n_slots, in->sets, in->n_sets,
			 &job->children[child].ranks);
	job->children[child].waits.is_partial |= in->partial;
	for (unsigned i = 0; i < job->n_children; i++)
		if (job->children[i].branch != NULL && !job->children[i].answered)
			return;
	send_slots(job);
}

uint64_t sml_leaf_job_slots_due(const struct sml_leaf_job *job)
{
	return job->slots_requested ? job->slots_requested_ns + sml_answer_ns(job->jobs)
				    : UINT64_MAX;
}
