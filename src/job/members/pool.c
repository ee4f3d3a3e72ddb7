/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job's slots at this switch, and its children there. A child has a number, which packets carry,
 * and a cookie. Dataplanes know only children, and the rest of a job knows only ranks; this map is
 * between them. To a switch, a leaf is one child, as a rank is. Each leaf gets the job after this
 * switch has it, and starts before its ranks do. Messages on the leaf's connection keep their
 * order, so a rank's Admitted comes after the leaf's, and so does its Start.
 *
 * The invariant: each rank is behind exactly one child, and what is said about a child names only
 * ranks behind it.
 */
#include "job/members/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/least.h"
#include "control/envelope.h"
#include "job/peer/peer.h"
#include "switchml.h"

/* The job whose pool this is. */
static struct sml_job *job_of(const struct sml_job_pool *pool)
{
	return (struct sml_job *)((uintptr_t)pool - offsetof(struct sml_job, pool));
}

/* ---- children ---- */

void sml_job_pool_draw(struct sml_job_pool *pool, unsigned n_behind)
{
	pool->rules.n_ranks = pool->n_children;
	pool->rules.divisor = sml_divisor_of(pool->n_children, n_behind, job_of(pool)->n_ranks);
	pool->adds_parts = pool->n_children > 1 && pool->n_children < n_behind;
	for (unsigned i = 0; i < pool->n_children; i++)
		pool->rules.cookies[i] = sml_jobs_random(job_of(pool)->jobs);
}

uint32_t sml_job_pools_children(const struct sml_jobs *jobs)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < SML_MAX_JOBS; i++)
		n += sml_job_begun_at(jobs, i) != NULL ? jobs->jobs[i]->pool.n_children : 0;
	return n;
}

struct sml_child *sml_job_pool_leaf(struct sml_job_pool *pool, const struct sml_branch *branch)
{
	for (unsigned i = 0; i < pool->n_children; i++)
		if (pool->children[i].branch == branch)
			return &pool->children[i];
	return NULL;
}

bool sml_job_pool_forget(struct sml_job_pool *pool, const struct sml_branch *branch)
{
	struct sml_child *child = sml_job_pool_leaf(pool, branch);

	if (child == NULL)
		return false;
	child->branch = NULL;
	child->asked = child->answered = false;
	return true;
}

/* ---- the dataplane, and leaves ---- */

int sml_job_pool_add(struct sml_job_pool *pool)
{
	struct sml_jobs *jobs = job_of(pool)->jobs;
	int rc = jobs->operations->add_job(jobs->dataplane, &pool->rules);

	pool->has_slots = rc == 0;
	pool->tries_again_ns = rc == -EAGAIN ? jobs->now_ns + SML_TICK_NS : 0;
	return rc;
}

bool sml_job_pool_start(struct sml_job_pool *pool, char *text, size_t bytes)
{
	SmlControl__Start start = SML_CONTROL__START__INIT;
	struct sml_jobs *jobs = job_of(pool)->jobs;
	int rc = jobs->operations->start_job(jobs->dataplane, pool->rules.job);

	if (rc < 0) {
		snprintf(text, bytes, "%s kernel refuses the job's addresses: %s",
			 sml_jobs_is_leaf(jobs) ? "its" : "the switch's", strerror(-rc));
		return false;
	}
	pool->started = true;
	for (unsigned i = 0; i < pool->n_children; i++)
		if (pool->children[i].branch != NULL)
			(void)sml_link_send(job_of(pool)->jobs, &pool->children[i].branch->link,
					    sml_envelope_of(pool->rules.job, START, start, &start));
	return true;
}

void sml_job_pool_end(struct sml_job_pool *pool, const char *how, bool planned)
{
	SmlControl__Abort end = SML_CONTROL__ABORT__INIT;
	struct sml_jobs *jobs = job_of(pool)->jobs;

	end.text = (char *)(uintptr_t)how;
	end.planned = planned;
	for (unsigned i = 0; i < pool->n_children; i++) {
		struct sml_child *child = &pool->children[i];

		if (child->branch != NULL && child->has_job) {
			child->branch->slots_in_use -= sml_job_pool_slots(pool);
			(void)sml_link_send(job_of(pool)->jobs, &child->branch->link,
					    sml_envelope_of(pool->rules.job, ABORT, abort, &end));
		}
		if (child->has_job)
			sml_waits_fini(&child->waits);
		child->has_job = false;
	}
	if (pool->has_slots)
		jobs->operations->remove_job(jobs->dataplane, pool->rules.job);
	pool->has_slots = pool->started = false;
}

bool sml_job_pool_name_ranks(const struct sml_job_pool *pool, struct sml_mismatch *mismatch)
{
	for (unsigned i = 0; i < 2; i++) {
		if (mismatch->ranks[i] >= pool->n_children)
			return false;
		mismatch->ranks[i] = pool->children[mismatch->ranks[i]].first_rank;
	}
	return true;
}

const char *sml_job_pool_misses_address(const struct sml_job_pool *pool, unsigned child)
{
	const struct sml_jobs *jobs = job_of(pool)->jobs;

	if (!pool->has_slots)
		return "said that it was ready before its switch had slots for the job";
	return jobs->operations->misses_address
		       ? jobs->operations->misses_address(jobs->dataplane, pool->rules.job,
							  (uint8_t)child)
		       : NULL;
}

void sml_job_pool_renew(const struct sml_job_pool *pool, unsigned child, uint32_t shard,
			uint32_t number)
{
	const struct sml_jobs *jobs = job_of(pool)->jobs;

	if (pool->started && jobs->operations->renew_address && shard < pool->rules.n_shards)
		jobs->operations->renew_address(jobs->dataplane, pool->rules.job, (uint8_t)child,
						(uint8_t)shard, number);
}

void sml_job_pool_count(const struct sml_job_pool *pool, struct sml_job_counters *counters)
{
	const struct sml_jobs *jobs = job_of(pool)->jobs;

	if (jobs->operations->job_counters && pool->has_slots)
		jobs->operations->job_counters(jobs->dataplane, pool->rules.job, counters);
}

/* ---- what slots wait for ---- */

void sml_job_pool_ask(struct sml_job_pool *pool)
{
	SmlControl__StallRequest request = SML_CONTROL__STALL_REQUEST__INIT;

	for (unsigned i = 0; i < pool->n_children; i++) {
		struct sml_child *child = &pool->children[i];

		if (child->branch == NULL || child->asked)
			continue;
		child->asked = true;
		child->asked_ns = job_of(pool)->jobs->now_ns;
		(void)sml_link_send(
			job_of(pool)->jobs, &child->branch->link,
			sml_envelope_of(pool->rules.job, STALL_REQUEST, stall_request, &request));
	}
}

void sml_job_pool_note_answer(const struct sml_job_pool *pool, struct sml_child *child,
			      const SmlControl__StallReport *in)
{
	if (in->n_slots > sml_job_pool_slots(pool) || !child->has_job)
		return;
	/* A leaf that loses a rank says it without being asked. */
	child->asked = child->silent = false;
	child->answered = true;
	sml_waits_unpack(&child->waits, in, &child->ranks);
}

uint64_t sml_job_pool_answers_due(const struct sml_job_pool *pool)
{
	uint64_t due_ns = 0;

	for (unsigned i = 0; i < pool->n_children; i++)
		if (pool->children[i].asked)
			due_ns = sml_later(due_ns, pool->children[i].asked_ns +
							   sml_answer_ns(job_of(pool)->jobs));
	return pool->leaves_queried ? due_ns : UINT64_MAX;
}

/* What it said long ago would blame the wrong ranks. */
static void doubt(const struct sml_job_pool *pool, struct sml_child *child)
{
	if (!child->silent && job_of(pool)->jobs->config.debug >= SML_LOG_INFO)
		sml_jobs_log(job_of(pool)->jobs, SML_JOBS_WARNING,
			     "job \"%s\": the leaf %s does not say for which ranks its slots wait",
			     job_of(pool)->name, child->branch->name);
	child->answered = false;
	child->silent = true;
}

bool sml_job_pool_is_answered(struct sml_job_pool *pool)
{
	if (job_of(pool)->jobs->now_ns < sml_job_pool_answers_due(pool))
		return false;
	for (unsigned i = 0; i < pool->n_children; i++)
		if (pool->children[i].asked)
			doubt(pool, &pool->children[i]);
	pool->leaves_queried = false;
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
static void note(struct sml_waits *waits, const struct sml_job_pool *pool,
		 const struct sml_slot_progress *slot)
{
	struct sml_ranks ranks = {{0}};
	bool knows_all = true;

	for (unsigned i = 0; i < pool->n_children; i++)
		if (slot->missing >> i & 1)
			knows_all &= add_missing(&pool->children[i], slot, &ranks);
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
static void note_below(struct sml_waits *waits, const struct sml_job_pool *pool,
		       const struct sml_waits *below)
{
	for (uint32_t i = 0; i < waits->n_slots; i++)
		if (is_ahead(below, waits, i))
			note(waits, pool,
			     &(struct sml_slot_progress){.slot = (uint16_t)i,
							 .use = below->slots[i].use,
							 .missing = UINT64_MAX});
}

bool sml_job_pool_look(const struct sml_job_pool *pool, struct sml_waits *waits)
{
	const struct sml_jobs *jobs = job_of(pool)->jobs;
	uint32_t most = sml_job_pool_slots(pool), n = 0;
	struct sml_slot_progress *states = calloc(most + 1, sizeof(*states));

	if (states == NULL || !sml_waits_init(waits, most, job_of(pool)->n_ranks)) {
		free(states);
		return false;
	}
	if (jobs->operations->slot_states != NULL && pool->has_slots)
		n = jobs->operations->slot_states(jobs->dataplane, pool->rules.job, states, most);
	for (uint32_t i = 0; i < n; i++)
		note(waits, pool, &states[i]);
	free(states);
	for (unsigned i = 0; i < pool->n_children; i++)
		if (pool->children[i].answered)
			note_below(waits, pool, &pool->children[i].waits);
	return true;
}
