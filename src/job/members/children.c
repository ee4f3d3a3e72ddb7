/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who contributes to a job's slots at this switch.
 *
 * The invariant: children are numbered in the order of their first ranks.
 */
#include "job/members/members.h"

#include <stdio.h>
#include <stdlib.h>

#include "control/envelope.h"
#include "job/peer/peer.h"

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
	    !sml_waits_init(&child->waits, sml_job_pool_slots(&job->pool), job->n_ranks)) {
		free(lists);
		return false;
	}
	child->has_job = true;
	child->branch->slots_in_use += sml_job_pool_slots(&job->pool);
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

bool sml_job_is_in_host(const struct sml_job *job, unsigned rank)
{
	const struct sml_child *child = &job->pool.children[job->members.of[rank].child];

	return child->n_ranks > 1 && child->branch == NULL;
}

bool sml_job_is_child(const struct sml_job *job, unsigned rank)
{
	const struct sml_child *child = &job->pool.children[job->members.of[rank].child];

	return child->n_ranks == 1 && child->branch == NULL;
}
