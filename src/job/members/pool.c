/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job's slots at this switch, and its children there. A child has a number, which packets carry,
 * and a cookie. Dataplanes know only children, and the rest of a job knows only ranks; this map is
 * between them. To a switch, a leaf is one child, as a rank is. Each leaf gets the job after this
 * switch has it, and starts before its ranks do. Messages on the leaf's connection keep their
 * order, so a rank's Admitted comes after the leaf's, and so does its Start.
 *
 * The invariant: children are numbered in the order of their first ranks, each rank is behind
 * exactly one of them, and what is said about a child names only ranks behind it.
 */
#include "job/members/members.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/least.h"
#include "control/envelope.h"
#include "switchml.h"

/* ---- children ---- */

static bool is_behind(const struct sml_child *child, unsigned first_of_host,
		      const struct sml_branch *via)
{
	return child->branch == via && (via != NULL || child->first_of_host == first_of_host);
}

/*
 * Put the next rank behind the leaf `via`; if that is NULL, with the others that have the same
 * first_of_host. Returns the child's number; SML_MAX_CHILDREN: there is no room for another child.
 */
static unsigned add_rank(struct sml_job_pool *pool, unsigned rank, unsigned first_of_host,
			 struct sml_branch *via)
{
	struct sml_child *child = pool->children;

	while (child < pool->children + pool->n_children && !is_behind(child, first_of_host, via))
		child++;
	if (child == pool->children + SML_MAX_CHILDREN)
		return SML_MAX_CHILDREN;
	if (child == pool->children + pool->n_children) {
		*child = (struct sml_child){.first_rank = (uint16_t)rank,
					    .first_of_host = (uint16_t)first_of_host,
					    .branch = via};
		pool->n_children++;
		if (via != NULL)
			pool->n_leaves++;
	}
	child->n_ranks++;
	sml_ranks_add(&child->ranks, rank);
	return (unsigned)(child - pool->children);
}

bool sml_job_number_children(struct sml_job *job)
{
	job->pool.n_children = job->pool.n_leaves = job->pool.n_leaves_ready = 0;
	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		struct sml_member *member = &job->members.of[rank];
		unsigned child;

		if (member->peer == NULL)
			continue;
		child = add_rank(&job->pool, rank, sml_job_sender(job, rank), member->peer->via);
		if (child == SML_MAX_CHILDREN)
			return false;
		member->child = (uint8_t)child;
	}
	return true;
}

static void report_limit(const struct sml_job *job, char *text, size_t bytes)
{
	const char *name = job->jobs->config.name;
	unsigned n_direct = 0;

	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		n_direct += sml_peer_via(job->members.of[rank].peer) == NULL;
	snprintf(text, bytes,
		 "a switch takes at most %d ranks and leaves of a job, but %u of %u ranks have "
		 "joined at the switch %s: start leaves with `switchml switch --parent %s', and "
		 "set SWITCHML_SWITCH to one of them for at most %d ranks each",
		 SML_MAX_CHILDREN, n_direct, job->n_ranks, name ? name : "itself",
		 name ? name : "HOST", SML_MAX_CHILDREN);
}

bool sml_job_form_children(struct sml_job *job, char *text, size_t bytes)
{
	sml_job_find_hosts(job);
	if (sml_job_number_children(job))
		return true;
	report_limit(job, text, bytes);
	return false;
}

/* The ranks behind the leaf. lists: of child->n_ranks each. */
static void list_ranks(const struct sml_job *job, const struct sml_child *child, uint32_t *lists,
		       SmlControl__Behind *out)
{
	out->peers = lists;
	out->ranks = lists + child->n_ranks;
	out->hosts = lists + 2 * child->n_ranks;
	out->n_peers = out->n_ranks = out->n_hosts = child->n_ranks;
	for (unsigned i = 0, rank = 0; i < child->n_ranks; i++, rank++) {
		rank = sml_ranks_next(&child->ranks, rank);
		out->peers[i] = sml_remote_of(job->members.of[rank].peer)->key.number;
		out->ranks[i] = rank;
		out->hosts[i] = sml_job_sender(job, rank);
	}
}

/* False: no memory. */
static bool give_to(struct sml_job *job, unsigned number)
{
	struct sml_child *child = &job->pool.children[number];
	const struct sml_pool_rules *rules = &job->pool.rules;
	SmlControl__Admitted out = SML_CONTROL__ADMITTED__INIT;
	SmlControl__Behind behind = SML_CONTROL__BEHIND__INIT;
	uint32_t *lists = calloc(3 * (size_t)child->n_ranks, sizeof(*lists));

	if (lists == NULL ||
	    !sml_waits_init(&child->waits, sml_job_pool_slots(job), job->n_ranks)) {
		free(lists);
		return false;
	}
	child->has_job = true;
	child->branch->slots_in_use += sml_job_pool_slots(job);
	out.job_number = rules->job;
	out.epoch = rules->epoch;
	out.lanes = rules->lanes;
	out.head_slots = rules->head_slots;
	out.data_slots = rules->data_slots;
	out.shards = rules->n_shards;
	out.number = number;
	out.cookie = rules->cookies[number];
	out.tag = rules->tag;
	out.omits = rules->omits;
	out.floats = rules->floats;
	out.data_port = job->jobs->config.data_port;
	behind.job = job->name;
	behind.world_size = job->n_ranks;
	list_ranks(job, child, lists, &behind);
	out.behind = &behind;
	(void)sml_link_send(job->jobs, &child->branch->link,
			    sml_envelope_of(rules->job, ADMITTED, admitted, &out));
	free(lists);
	return true;
}

bool sml_job_give(struct sml_job *job)
{
	for (unsigned i = 0; i < job->pool.n_children; i++)
		if (job->pool.children[i].branch != NULL && !give_to(job, i))
			return false;
	return true;
}

bool sml_job_is_child(const struct sml_job *job, unsigned rank)
{
	const struct sml_child *child = &job->pool.children[job->members.of[rank].child];

	return child->n_ranks == 1 && child->branch == NULL;
}

void sml_job_pool_draw(struct sml_job *job, unsigned n_behind)
{
	job->pool.rules.n_ranks = job->pool.n_children;
	job->pool.rules.divisor = sml_divisor_of(job->pool.n_children, n_behind, job->n_ranks);
	job->pool.adds_parts = job->pool.n_children > 1 && job->pool.n_children < n_behind;
	for (unsigned i = 0; i < job->pool.n_children; i++)
		job->pool.rules.cookies[i] = sml_jobs_random(job->jobs);
}

uint32_t sml_job_pools_children(const struct sml_jobs *jobs)
{
	uint32_t n = 0;

	for (const struct sml_job *job = NULL; (job = sml_jobs_next(jobs, job)) != NULL;)
		n += sml_job_has_begun(job) ? job->pool.n_children : 0;
	return n;
}

struct sml_child *sml_job_pool_leaf(struct sml_job *job, const struct sml_branch *branch)
{
	for (unsigned i = 0; i < job->pool.n_children; i++)
		if (job->pool.children[i].branch == branch)
			return &job->pool.children[i];
	return NULL;
}

bool sml_job_pool_forget(struct sml_job *job, const struct sml_branch *branch)
{
	struct sml_child *child = sml_job_pool_leaf(job, branch);

	if (child == NULL)
		return false;
	child->branch = NULL;
	child->asked = child->answered = false;
	return true;
}

/* ---- the dataplane, and leaves ---- */

int sml_job_pool_add(struct sml_job *job)
{
	struct sml_jobs *jobs = job->jobs;
	int rc = jobs->operations->add_job
			 ? jobs->operations->add_job(jobs->dataplane, &job->pool.rules)
			 : 0;

	job->pool.has_slots = rc == 0;
	job->pool.tries_again_ns = rc == -EAGAIN ? jobs->now_ns + SML_TICK_NS : 0;
	return rc;
}

void sml_job_pool_end(struct sml_job *job, const char *how, bool planned)
{
	SmlControl__Abort end = SML_CONTROL__ABORT__INIT;
	struct sml_jobs *jobs = job->jobs;

	end.text = (char *)(uintptr_t)how;
	end.planned = planned;
	for (unsigned i = 0; i < job->pool.n_children; i++) {
		struct sml_child *child = &job->pool.children[i];

		if (child->branch != NULL && child->has_job) {
			child->branch->slots_in_use -= sml_job_pool_slots(job);
			(void)sml_link_send(
				job->jobs, &child->branch->link,
				sml_envelope_of(job->pool.rules.job, ABORT, abort, &end));
		}
		if (child->has_job)
			sml_waits_fini(&child->waits);
		child->has_job = false;
	}
	if (job->pool.has_slots && jobs->operations->remove_job)
		jobs->operations->remove_job(jobs->dataplane, job->pool.rules.job);
	job->pool.has_slots = false;
}

bool sml_job_pool_name_ranks(const struct sml_job *job, struct sml_mismatch *mismatch)
{
	for (unsigned i = 0; i < 2; i++) {
		if (mismatch->ranks[i] >= job->pool.n_children)
			return false;
		mismatch->ranks[i] = job->pool.children[mismatch->ranks[i]].first_rank;
	}
	return true;
}

const char *sml_job_pool_misses_address(const struct sml_job *job, unsigned child)
{
	const struct sml_jobs *jobs = job->jobs;

	if (!job->pool.has_slots)
		return "said that it was ready before its switch had slots for the job";
	return jobs->operations->misses_address
		       ? jobs->operations->misses_address(jobs->dataplane, job->pool.rules.job,
							  (uint8_t)child)
		       : NULL;
}

void sml_job_pool_renew(const struct sml_job *job, unsigned child, uint32_t shard, uint32_t number)
{
	const struct sml_jobs *jobs = job->jobs;

	if (job->state >= SML_JOB_RUNNING && jobs->operations->renew_address &&
	    shard < job->pool.rules.n_shards)
		jobs->operations->renew_address(jobs->dataplane, job->pool.rules.job,
						(uint8_t)child, (uint8_t)shard, number);
}

void sml_job_pool_count(const struct sml_job *job, struct sml_job_counters *counters)
{
	const struct sml_jobs *jobs = job->jobs;

	if (jobs->operations->job_counters && job->pool.has_slots)
		jobs->operations->job_counters(jobs->dataplane, job->pool.rules.job, counters);
}

/* ---- what slots wait for ---- */

void sml_job_pool_ask(struct sml_job *job)
{
	SmlControl__StallRequest request = SML_CONTROL__STALL_REQUEST__INIT;

	for (unsigned i = 0; i < job->pool.n_children; i++) {
		struct sml_child *child = &job->pool.children[i];

		if (child->branch == NULL || child->asked)
			continue;
		child->asked = true;
		child->asked_ns = job->jobs->now_ns;
		(void)sml_link_send(job->jobs, &child->branch->link,
				    sml_envelope_of(job->pool.rules.job, STALL_REQUEST,
						    stall_request, &request));
	}
}

void sml_job_pool_note_answer(const struct sml_job *job, struct sml_child *child,
			      const SmlControl__StallReport *in)
{
	if (in->n_slots > sml_job_pool_slots(job) || !child->has_job)
		return;
	/* A leaf that loses a rank says it without being asked. */
	child->asked = child->silent = false;
	child->answered = true;
	sml_waits_unpack(&child->waits, in, &child->ranks);
}

uint64_t sml_job_pool_answers_due(const struct sml_job *job)
{
	uint64_t due_ns = 0;

	for (unsigned i = 0; i < job->pool.n_children; i++)
		if (job->pool.children[i].asked)
			due_ns = sml_later(due_ns, job->pool.children[i].asked_ns +
							   sml_answer_ns(job->jobs));
	return job->pool.leaves_queried ? due_ns : UINT64_MAX;
}

/* What it said long ago would blame the wrong ranks. */
static void doubt(const struct sml_job *job, struct sml_child *child)
{
	if (!child->silent && job->jobs->config.debug >= SML_LOG_INFO)
		sml_jobs_log(job->jobs, SML_JOBS_WARNING,
			     "job \"%s\": the leaf %s does not say for which ranks its slots wait",
			     job->name, child->branch->name);
	child->answered = false;
	child->silent = true;
}

bool sml_job_pool_is_answered(struct sml_job *job)
{
	if (job->jobs->now_ns < sml_job_pool_answers_due(job))
		return false;
	for (unsigned i = 0; i < job->pool.n_children; i++)
		if (job->pool.children[i].asked)
			doubt(job, &job->pool.children[i]);
	job->pool.leaves_queried = false;
	return true;
}

/*
 * Add the child's ranks that a slot waits for. A slot that has not come so far at a leaf waits for
 * all of them. False: the leaf has not said it, or was asked too long ago.
 */
static bool add_missing(const struct sml_child *child, const struct sml_slot_progress *slot,
			struct sml_ranks *ranks)
{
	const struct sml_waits *waits = &child->waits;
	struct sml_ranks found = child->ranks;

	if (child->has_job && !child->answered)
		return false;
	if (child->has_job && sml_waits_knows(waits, slot->slot)) {
		if (sml_serial_before(slot->use, waits->slots[slot->slot].use))
			return false;
		if (waits->slots[slot->slot].use == slot->use)
			sml_waits_get(waits, slot->slot, &found);
	} else if (child->has_job && waits->is_partial) {
		return false;
	}
	sml_ranks_unite(ranks, &found);
	return true;
}

/* Note a use of a slot, and the ranks that it waits for, from the bits of its children. */
static void note(struct sml_waits *waits, const struct sml_job *job,
		 const struct sml_slot_progress *slot)
{
	struct sml_ranks ranks = {{0}};
	bool knows_all = true;

	for (unsigned i = 0; i < job->pool.n_children; i++)
		if (slot->missing >> i & 1)
			knows_all &= add_missing(&job->pool.children[i], slot, &ranks);
	/* Only leaves know one, and have not said it. */
	if (!knows_all && sml_ranks_is_empty(&ranks))
		waits->is_partial = true;
	else
		sml_waits_note(waits, slot->slot, slot->use, &ranks);
}

static bool is_ahead(const struct sml_waits *below, const struct sml_waits *here, uint32_t slot)
{
	return sml_waits_knows(below, slot) && !sml_waits_is_complete(below, slot) &&
	       (!sml_waits_knows(here, slot) ||
		sml_serial_before(here->slots[slot].use, below->slots[slot].use));
}

/*
 * Note uses in which a leaf waits, if they are newer than what is known here. It has not sent them
 * up, so no other child has contributed to them.
 */
static void note_below(struct sml_waits *waits, const struct sml_job *job,
		       const struct sml_waits *below)
{
	for (uint32_t i = 0; i < waits->n_slots; i++)
		if (is_ahead(below, waits, i))
			note(waits, job,
			     &(struct sml_slot_progress){.slot = (uint16_t)i,
							 .use = below->slots[i].use,
							 .missing = UINT64_MAX});
}

bool sml_job_pool_look(const struct sml_job *job, struct sml_waits *waits)
{
	const struct sml_jobs *jobs = job->jobs;
	uint32_t most = sml_job_pool_slots(job), n = 0;
	struct sml_slot_progress *states = calloc(most + 1, sizeof(*states));

	if (states == NULL || !sml_waits_init(waits, most, job->n_ranks)) {
		free(states);
		return false;
	}
	if (jobs->operations->slot_states != NULL && job->pool.has_slots)
		n = jobs->operations->slot_states(jobs->dataplane, job->pool.rules.job, states,
						  most);
	for (uint32_t i = 0; i < n; i++)
		note(waits, job, &states[i]);
	free(states);
	for (unsigned i = 0; i < job->pool.n_children; i++)
		if (job->pool.children[i].answered)
			note_below(waits, job, &job->pool.children[i].waits);
	return true;
}
