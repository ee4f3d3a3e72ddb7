/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a job begins at a leaf: its slots, and the children that contribute to them. The root decides
 * how many slots of how many lanes there are, and which ranks take part. This switch draws the tag
 * and the cookies of its own children, and no other switch knows them. From then on, it is a job as
 * at the root, except that the root decides what becomes of it: states/parent.c.
 *
 * The invariant: a job here has slots in the dataplane, or waits for those of ended jobs, and a new
 * epoch is a new job.
 */
#include <stdio.h>
#include <string.h>

#include "job/states/states.h"
#include "job/tree/branches.h"
#include "switchml.h"

static void add_member(struct sml_job *job, const struct sml_proxied *proxied, uint32_t rank,
		       uint32_t first_of_host)
{
	struct sml_member *member = &job->members.of[rank];

	member->peer = proxied->key.peer;
	member->peer->job = job;
	member->peer->rank = (uint16_t)rank;
	member->pid = proxied->pid;
	member->heartbeat_ms = proxied->key.peer->heartbeat_ms;
	memcpy(member->host, proxied->host, sizeof(member->host));
	member->first_of_host = (uint16_t)first_of_host;
	/* Only to be shown: all ranks say the same. */
	if (job->members.n++ == 0) {
		job->terms.stripe = proxied->stripe;
		job->terms.stripes = proxied->stripes;
	}
}

static void add_members(struct sml_job *job, const SmlControl__Behind *in)
{
	const struct sml_table *proxied_peers = &job->jobs->leaf.up.ranks;

	for (size_t i = 0; i < in->n_peers; i++) {
		const struct sml_proxied *proxied =
			(struct sml_proxied *)sml_table_find(proxied_peers, in->peers[i]);

		job->members.of[in->hosts[i]].n_of_host++;
		/* It may have ended, and the root hears of that next; or the rank is there twice.
		 */
		if (proxied != NULL && proxied->key.peer->job == NULL &&
		    job->members.of[in->ranks[i]].peer == NULL)
			add_member(job, proxied, in->ranks[i], in->hosts[i]);
	}
}

static bool are_ranks(const SmlControl__Behind *in)
{
	if (in == NULL || in->world_size < 1 || in->world_size > SML_MAX_WORLD ||
	    in->n_peers != in->n_ranks || in->n_hosts != in->n_ranks || in->n_ranks < 1 ||
	    in->n_ranks > in->world_size)
		return false;
	for (size_t i = 0; i < in->n_ranks; i++)
		if (in->ranks[i] >= in->world_size || in->hosts[i] > in->ranks[i])
			return false;
	return true;
}

/* NULL: yes. */
static const char *lacks_room(const struct sml_jobs *jobs, const SmlControl__Admitted *in,
			      char *text, size_t bytes)
{
	if (jobs->n_jobs >= jobs->config.max_jobs || jobs->n_jobs >= SML_MAX_JOBS)
		snprintf(text, bytes,
			 "it is at its limit of %u jobs: wait for one to end, or start it with "
			 "more --jobs",
			 jobs->n_jobs);
	else if (jobs->config.max_slots - jobs->slots_in_use < in->head_slots + in->data_slots)
		snprintf(text, bytes,
			 "its pool is full: the job needs %u slots, %u of %u are free; wait for a "
			 "job to end, or start it with more --slots",
			 in->head_slots + in->data_slots,
			 jobs->config.max_slots - jobs->slots_in_use, jobs->config.max_slots);
	else
		return NULL;
	return text;
}

/* In its place, without slots. NULL: no memory. */
static struct sml_job *new_job(struct sml_jobs *jobs, const SmlControl__Admitted *in)
{
	struct sml_job *job = sml_job_new(jobs, in->behind->job, in->behind->world_size);

	if (job == NULL)
		return NULL;
	job->state = SML_JOB_PROBING;
	job->parent.data_port = (uint16_t)in->data_port;
	/* The number is the root's: all switches of the tree know the job by it. */
	job->pool.rules = (struct sml_pool_rules){
		.job = in->job_number,
		.epoch = in->epoch,
		.head_slots = (uint16_t)in->head_slots,
		.data_slots = (uint16_t)in->data_slots,
		.lanes = (uint16_t)in->lanes,
		.n_shards = (uint8_t)in->shards,
		.is_leaf = true,
		.rounds = jobs->operations->rounds,
		/* Its sum may be without lanes, too. */
		.omits = in->omits && jobs->operations->omits,
		/* Only if all leaves do: the parent has asked (Relay.only_integers). */
		.floats = in->floats && jobs->operations->floats,
		.parent = {.cookie = in->cookie,
			   .tag = in->tag,
			   .job = in->job_number,
			   .rank = (uint8_t)in->number},
	};
	jobs->slots_in_use += sml_job_pool_slots(job);
	sml_job_take_place(job, in->job_number % SML_MAX_JOBS);
	return job;
}

void sml_leaf_job_begin(struct sml_jobs *jobs, const SmlControl__Admitted *in)
{
	struct sml_job *job = jobs->jobs[in->job_number % SML_MAX_JOBS];
	char text[SML_SENTENCE_BYTES];

	/* Its place is free: the parent has ended the job before. */
	if (job != NULL)
		sml_job_end_at_leaf(job, "", false);
	if (in->job_number == 0 || !sml_rules_admit(in, SML_MAX_SHARDS) || !are_ranks(in->behind)) {
		sml_leaf_send_failure(jobs, in->job_number, SML_ERROR_PROTOCOL,
				      "the parent sends a job with impossible numbers", false);
		return;
	}
	if (lacks_room(jobs, in, text, sizeof(text)) != NULL) {
		sml_leaf_send_failure(jobs, in->job_number, SML_ERROR_REFUSED, text, true);
		return;
	}
	job = new_job(jobs, in);
	if (job == NULL) {
		sml_leaf_send_failure(jobs, in->job_number, SML_ERROR_REFUSED, "it has no memory",
				      true);
		return;
	}
	add_members(job, in->behind);
	if (job->members.n == 0 || !sml_job_number_children(job)) {
		sml_job_fail(
			job, SML_ERROR_REFUSED,
			"a switch takes at most %d ranks and leaves of a job, but the leaf %s has "
			"more (or none): start leaves of it with `switchml switch --parent %s', "
			"and set SWITCHML_SWITCH to one of them for at most %d ranks each",
			SML_MAX_CHILDREN, jobs->config.name, jobs->config.name, SML_MAX_CHILDREN);
		return;
	}
	job->pool.rules.tag = sml_jobs_random(jobs);
	sml_job_pool_draw(job, (unsigned)in->behind->n_ranks);
	if (!sml_parent_try_slots(job))
		return;
	if (sml_job_give(job)) {
		sml_parent_tick(job);
		return;
	}
	job->end.lacks_room = true;
	sml_job_fail(job, SML_ERROR_REFUSED, "it has no memory");
}

/* ---- what its ranks are told ---- */

void sml_leaf_job_admit(const struct sml_peer *peer, SmlControl__Admitted *admitted)
{
	const struct sml_job *job = peer->job;
	const struct sml_jobs *jobs = job->jobs;

	sml_job_describe_rank(job, peer->rank, admitted);
	admitted->omits &= job->pool.rules.omits;
	/* If the parent has no other child, only this leaf knows. */
	admitted->adds_parts |= job->pool.adds_parts;
	if (peer->via != NULL)
		return;
	admitted->data_port = jobs->config.data_port;
	admitted->single_packets |= jobs->operations->wants_single_packets != NULL &&
				    jobs->operations->wants_single_packets(jobs->dataplane);
}
