/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job's leaves: to the root, each is a child that stands for the ranks behind it. Each leaf gets
 * the job after this switch has it, and starts before its ranks do. Messages on the leaf's
 * connection keep their order, so a rank's Admitted comes after the LeafJob, and its Start after
 * the LeafStart.
 */
#include "job/tree/leaves.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/envelope.h"
#include "control/text.h"
#include "job/members/hosts.h"
#include "job/peer/output.h"
#include "job/states/admit.h"
#include "job/states/end.h"
#include "job/states/mismatch.h"
#include "job/states/stall.h"

/* ---- what a leaf gets ---- */

static uint32_t held(const struct sml_job *job)
{
	return (uint32_t)job->rules.head_slots + job->rules.data_slots;
}

/* lists: of child->n_ranks each. */
static void list_ranks(const struct sml_job *job, const struct sml_child *child, uint32_t *lists,
		       SmlControl__LeafJob *out)
{
	out->peers = lists;
	out->ranks = lists + child->n_ranks;
	out->hosts = lists + 2 * (size_t)child->n_ranks;
	for (unsigned rank = sml_ranks_next(&child->ranks, 0); rank < SML_MAX_WORLD;
	     rank = sml_ranks_next(&child->ranks, rank + 1)) {
		out->peers[out->n_peers++] = sml_remote_of(job->members[rank].peer)->key.number;
		out->ranks[out->n_ranks++] = rank;
		out->hosts[out->n_hosts++] =
			sml_job_is_grouped(job, rank) ? job->members[rank].first_of_host : rank;
	}
}

/* False: no memory. */
static bool send_job(const struct sml_job *job, unsigned number)
{
	const struct sml_child *child = &job->children[number];
	const struct sml_pool_rules *rules = &job->rules;
	SmlControl__LeafJob out = SML_CONTROL__LEAF_JOB__INIT;
	uint32_t *lists = calloc(3 * (size_t)child->n_ranks, sizeof(*lists));

	if (lists == NULL)
		return false;
	out.job_number = rules->job;
	out.job = (char *)(uintptr_t)job->name;
	out.epoch = rules->epoch;
	out.lanes = rules->lanes;
	out.head_slots = rules->head_slots;
	out.data_slots = rules->data_slots;
	out.shards = rules->n_shards;
	out.world_size = job->n_ranks;
	out.number = number;
	out.cookie = rules->cookies[number];
	out.tag = rules->tag;
	out.omits = rules->omits;
	out.floats = rules->floats;
	out.data_port = job->jobs->config.data_port;
	list_ranks(job, child, lists, &out);
	(void)sml_branch_send(child->branch, sml_envelope(LEAF_JOB, leaf_job, &out));
	free(lists);
	return true;
}

bool sml_leaves_begin(struct sml_job *job)
{
	job->n_leaves_ready = 0;
	for (unsigned i = 0; i < job->n_children; i++) {
		struct sml_child *child = &job->children[i];

		if (child->branch == NULL)
			continue;
		if (!sml_waits_init(&child->waits, held(job), job->n_ranks))
			return false;
		child->has_job = true;
		child->branch->slots_in_use += held(job);
		if (!send_job(job, i))
			return false;
	}
	return true;
}

uint32_t sml_leaves_room(const struct sml_job *job)
{
	uint32_t least = UINT32_MAX;

	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		const struct sml_peer *peer = job->members[rank].peer;
		uint32_t room = UINT32_MAX;

		if (sml_peer_via(peer) != NULL)
			room = sml_remote_slots(sml_remote_of(peer));
		least = room < least ? room : least;
	}
	return least;
}

void sml_leaves_start(struct sml_job *job)
{
	SmlControl__LeafStart start = SML_CONTROL__LEAF_START__INIT;

	start.job_number = job->rules.job;
	for (unsigned i = 0; i < job->n_children; i++)
		if (job->children[i].branch != NULL)
			(void)sml_branch_send(job->children[i].branch,
					      sml_envelope(LEAF_START, leaf_start, &start));
}

void sml_leaves_end(struct sml_job *job)
{
	SmlControl__LeafEnd end = SML_CONTROL__LEAF_END__INIT;

	end.job_number = job->rules.job;
	end.how = (char *)(uintptr_t)job->how;
	end.planned = job->planned;
	for (unsigned i = 0; i < job->n_children; i++) {
		struct sml_child *child = &job->children[i];

		if (child->branch != NULL && child->has_job) {
			child->branch->slots_in_use -= held(job);
			(void)sml_branch_send(child->branch,
					      sml_envelope(LEAF_END, leaf_end, &end));
		}
		if (child->has_job)
			sml_waits_fini(&child->waits);
		child->has_job = false;
	}
}

void sml_leaves_forget_branch(struct sml_job *job, const struct sml_branch *branch, const char *why)
{
	bool is_used = false;

	for (unsigned i = 0; i < job->n_children; i++) {
		if (job->children[i].branch != branch)
			continue;
		is_used = true;
		job->children[i].branch = NULL;
	}
	if (is_used && job->state >= SML_JOB_PROBING)
		sml_job_disband(job, why);
}

/* ---- what slots at leaves wait for ---- */

void sml_leaves_query(struct sml_job *job)
{
	SmlControl__LeafStalls request = SML_CONTROL__LEAF_STALLS__INIT;

	request.job_number = job->rules.job;
	for (unsigned i = 0; i < job->n_children; i++) {
		struct sml_child *child = &job->children[i];

		if (child->branch == NULL || child->asked)
			continue;
		child->asked = true;
		child->asked_ns = job->jobs->now_ns;
		(void)sml_branch_send(child->branch,
				      sml_envelope(LEAF_STALLS, leaf_stalls, &request));
	}
}

/*
 * Add the leaf's ranks that a slot waits for. A slot that has not come so far there waits for all
 * of them. False: the leaf has not said it, or was asked too long ago.
 */
static bool add_missing(const struct sml_child *child, const struct sml_slot_progress *slot,
			struct sml_ranks *ranks)
{
	struct sml_ranks found = child->ranks;

	if (!child->answered)
		return false;
	if (sml_waits_knows(&child->waits, slot->slot)) {
		uint32_t use = child->waits.slots[slot->slot].use;

		if (sml_serial_before(slot->use, use))
			return false;
		if (use == slot->use)
			sml_waits_get(&child->waits, slot->slot, &found);
	} else if (child->waits.is_partial) {
		return false;
	}
	sml_ranks_unite(ranks, &found);
	return true;
}

bool sml_leaves_missing(const struct sml_job *job, const struct sml_slot_progress *slot,
			struct sml_ranks *ranks)
{
	bool knows_all = true;

	*ranks = (struct sml_ranks){{0}};
	for (unsigned i = 0; i < job->n_children; i++) {
		const struct sml_child *child = &job->children[i];

		if (!(slot->missing >> i & 1))
			continue;
		if (child->branch == NULL)
			sml_ranks_unite(ranks, &child->ranks);
		else
			knows_all &= add_missing(child, slot, ranks);
	}
	return knows_all || !sml_ranks_is_empty(ranks);
}

/* ---- what a leaf says ---- */

static struct sml_child *child_of(struct sml_job *job, const struct sml_branch *branch)
{
	for (unsigned i = 0; i < job->n_children; i++)
		if (job->children[i].branch == branch)
			return &job->children[i];
	return NULL;
}

static void on_ready(struct sml_job *job, struct sml_child *child, const SmlControl__LeafReady *in)
{
	const struct sml_jobs *jobs = job->jobs;
	char text[SML_SENTENCE_BYTES];
	const char *why = NULL;

	if (job->state != SML_JOB_PROBING || child->ready)
		return;
	if (jobs->operations->misses_address)
		why = jobs->operations->misses_address(jobs->dataplane, job->rules.job,
						       (uint8_t)(child - job->children));
	if (why != NULL || in->lanes == 0 || in->lanes > job->rules.lanes) {
		snprintf(text, sizeof(text), "the leaf %s %s", child->branch->name,
			 why ? why : "is ready with impossible packets");
		sml_job_fail(job, SML_ERROR_PROTOCOL, text);
		return;
	}
	child->lanes = in->lanes;
	child->ready = true;
	job->n_leaves_ready++;
	sml_job_check_ready(job);
}

static void on_failed(struct sml_job *job, const struct sml_child *child,
		      const SmlControl__LeafFailed *in)
{
	char text[SML_SENTENCE_BYTES], reason[SML_REASON_BYTES];

	sml_text_copy(reason, sizeof(reason), in->text);
	snprintf(text, sizeof(text), "the leaf %s: %s", child->branch->name, reason);
	/* No rank has begun here. */
	if (job->resumes && job->state <= SML_JOB_PROBING) {
		sml_job_disband(job, text);
		return;
	}
	job->lacks_room = in->again;
	sml_job_fail(job, in->error < 0 ? in->error : SML_ERROR_PROTOCOL, text);
}

static void on_mismatch(struct sml_job *job, const struct sml_child *child,
			const SmlControl__LeafMismatch *in)
{
	struct sml_mismatch mismatch = {
		.job = job->rules.job,
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

static void on_slots(struct sml_job *job, struct sml_child *child, const SmlControl__LeafSlots *in)
{
	if (in->n_slots > held(job) || !child->has_job)
		return;
	/* A leaf that loses a rank says it without being asked. */
	child->asked = child->silent = false;
	child->answered = true;
	sml_waits_unpack(&child->waits, in->slots, in->n_slots, in->sets, in->n_sets,
			 &child->ranks);
	child->waits.is_partial |= in->partial;
	sml_job_look_for_answers(job);
}

static void on_renew(struct sml_job *job, const struct sml_child *child,
		     const SmlControl__LeafRenew *in)
{
	const struct sml_jobs *jobs = job->jobs;

	if (job->state < SML_JOB_RUNNING || jobs->operations->renew_address == NULL)
		return;
	for (uint8_t shard = 0; shard < job->rules.n_shards; shard++)
		jobs->operations->renew_address(jobs->dataplane, job->rules.job,
						(uint8_t)(child - job->children), shard,
						in->number);
}

void sml_leaves_message(struct sml_job *job, struct sml_branch *branch,
			const SmlControl__Envelope *message)
{
	struct sml_child *child = child_of(job, branch);

	if (child == NULL || job->state < SML_JOB_PROBING)
		return;
	switch (message->body_case) {
	case SML_CONTROL__ENVELOPE__BODY_LEAF_READY:
		on_ready(job, child, message->leaf_ready);
		break;
	case SML_CONTROL__ENVELOPE__BODY_LEAF_FAILED:
		on_failed(job, child, message->leaf_failed);
		break;
	case SML_CONTROL__ENVELOPE__BODY_LEAF_MISMATCH:
		on_mismatch(job, child, message->leaf_mismatch);
		break;
	case SML_CONTROL__ENVELOPE__BODY_LEAF_SLOTS:
		on_slots(job, child, message->leaf_slots);
		break;
	case SML_CONTROL__ENVELOPE__BODY_LEAF_RENEW:
		on_renew(job, child, message->leaf_renew);
		break;
	default:
		break;
	}
}
