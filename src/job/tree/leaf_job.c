/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job at a leaf: its slots, and the children that contribute to them. The root decides how many
 * slots of how many lanes there are, and which ranks take part. This switch draws the tag and the
 * cookies of its own children, and no other switch knows them. This file has the job's beginning
 * and end; leaf_run.c has the time in between.
 *
 *	Admitted --> probes to the parent --all answered, all leaves of this one ready--> Ready
 *	        --Start--> runs --Abort--> gone
 *
 * The invariant: a job here has slots in the dataplane, or waits for those of ended jobs, and a new
 * epoch is a new job.
 */
#include "job/tree/leaf_job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/envelope.h"
#include "control/text.h"
#include "job/peer/output.h"
#include "switchml.h"

/* ---- the end ---- */

static void let_proxied_peers_go(struct sml_leaf_job *job)
{
	const struct sml_table *proxied_peers = &job->pool.jobs->leaf.proxied_peers;

	for (uint32_t i = 0; i < proxied_peers->room; i++) {
		struct sml_proxied *proxied = (struct sml_proxied *)sml_table_at(proxied_peers, i);

		if (proxied != NULL && proxied->job == job)
			proxied->job = NULL;
	}
}

void sml_leaf_jobs_sweep(struct sml_jobs *jobs)
{
	struct sml_leaf_job *next;

	for (; jobs->leaf.over != NULL; jobs->leaf.over = next) {
		next = jobs->leaf.over->next_over;
		free(jobs->leaf.over);
	}
}

bool sml_leaf_job_end(struct sml_leaf_job *job, const char *how, bool planned)
{
	struct sml_jobs *jobs = job->pool.jobs;

	/* A job ends once. */
	sml_assert(sml_leaf_job_find(jobs, job->pool.rules.job) == job);
	if (how[0] != '\0')
		sml_jobs_log_end(jobs, job->name, how, planned);
	sml_job_pool_end(&job->pool, how, planned);
	let_proxied_peers_go(job);
	jobs->slots_in_use -= sml_job_pool_slots(&job->pool);
	jobs->n_jobs--;
	job->next_over = jobs->leaf.over;
	jobs->leaf.over = job;
	return true;
}

static void report_failure(struct sml_jobs *jobs, uint32_t number, int error, const char *text,
			   bool again)
{
	SmlControl__Abort message = SML_CONTROL__ABORT__INIT;

	message.error = error;
	message.text = (char *)(uintptr_t)text;
	message.again = again;
	(void)sml_leaf_send(jobs, sml_envelope_of(number, ABORT, abort, &message));
}

bool sml_leaf_job_fail(struct sml_leaf_job *job, int error, const char *text, bool again)
{
	char how[2 * SML_SENTENCE_BYTES];

	report_failure(job->pool.jobs, job->pool.rules.job, error, text, again);
	snprintf(how, sizeof(how), "failed at the leaf %s: %s", job->pool.jobs->config.name, text);
	return sml_leaf_job_end(job, how, false);
}

/* ---- the beginning ---- */

/*
 * False: there are too many. From here on, the ranks' numbers at this switch are those at its
 * leaves, which get the job next.
 */
static bool form_children(struct sml_leaf_job *job, const SmlControl__Behind *in)
{
	const struct sml_table *proxied_peers = &job->pool.jobs->leaf.proxied_peers;

	for (size_t i = 0; i < in->n_peers; i++) {
		struct sml_proxied *proxied =
			(struct sml_proxied *)sml_table_find(proxied_peers, in->peers[i]);
		unsigned child;

		/* It has ended in the meantime, and the root hears of that next. */
		if (proxied == NULL || proxied->job != NULL)
			continue;
		child = sml_job_pool_add_rank(&job->pool, in->ranks[i], in->hosts[i],
					      proxied->peer->via);
		if (child == SML_MAX_CHILDREN)
			return false;
		proxied->rank = (uint16_t)in->ranks[i];
		proxied->first_of_host = (uint16_t)in->hosts[i];
		proxied->job = job;
		proxied->child = (uint8_t)child;
		if (proxied->peer->via != NULL)
			in->peers[i] = sml_remote_of(proxied->peer)->key.number;
	}
	return job->pool.n_children > 0;
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

static bool is_possible(const SmlControl__Admitted *in)
{
	return in->job_number > 0 && in->lanes > 0 && in->lanes <= SML_MAX_LANES &&
	       in->shards > 0 && in->shards <= SML_MAX_SHARDS && in->head_slots >= in->shards &&
	       in->data_slots >= in->shards && in->head_slots <= SML_MAX_SLOTS &&
	       in->data_slots <= SML_MAX_SLOTS - in->head_slots && in->number < SML_MAX_CHILDREN &&
	       in->data_port > 0 && in->data_port <= 65535 && are_ranks(in->behind);
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
static struct sml_leaf_job *new_job(struct sml_jobs *jobs, const SmlControl__Admitted *in)
{
	struct sml_leaf_job *job = calloc(1, sizeof(*job));

	if (job == NULL)
		return NULL;
	sml_text_copy(job->name, sizeof(job->name), in->behind->job);
	job->pool.jobs = jobs;
	job->pool.name = job->name;
	job->pool.n_ranks = (uint16_t)in->behind->world_size;
	job->data_port = (uint16_t)in->data_port;
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
	jobs->pools[in->job_number % SML_MAX_JOBS] = &job->pool;
	jobs->slots_in_use += sml_job_pool_slots(&job->pool);
	jobs->n_jobs++;
	return job;
}

bool sml_leaf_job_try_slots(struct sml_leaf_job *job)
{
	int rc = sml_job_pool_add(&job->pool);

	if (rc == 0 || rc == -EAGAIN)
		return true;
	sml_leaf_job_fail(job, SML_ERROR_REFUSED,
			  rc == -ENOSPC ? "its pool has room for the job, but in pieces: wait for "
					  "a job to end, or start it with more --slots"
					: "it has no memory for the job's slots",
			  true);
	return false;
}

void sml_leaf_job_begin(struct sml_jobs *jobs, const SmlControl__Admitted *in)
{
	struct sml_leaf_job *job = sml_leaf_job_at(jobs, in->job_number % SML_MAX_JOBS);
	char text[SML_SENTENCE_BYTES];

	/* Its place is free: the parent has ended the job before. */
	if (job != NULL)
		sml_leaf_job_end(job, "", false);
	if (!is_possible(in)) {
		report_failure(jobs, in->job_number, SML_ERROR_PROTOCOL,
			       "the parent sends a job with impossible numbers", false);
		return;
	}
	if (lacks_room(jobs, in, text, sizeof(text)) != NULL) {
		report_failure(jobs, in->job_number, SML_ERROR_REFUSED, text, true);
		return;
	}
	job = new_job(jobs, in);
	if (job == NULL) {
		report_failure(jobs, in->job_number, SML_ERROR_REFUSED, "it has no memory", true);
		return;
	}
	if (!form_children(job, in->behind)) {
		snprintf(text, sizeof(text),
			 "a switch takes at most %d ranks and leaves of a job, but the leaf %s has "
			 "more (or none): start leaves of it with `switchml switch --parent %s', "
			 "and set SWITCHML_SWITCH to one of them for at most %d ranks each",
			 SML_MAX_CHILDREN, jobs->config.name, jobs->config.name, SML_MAX_CHILDREN);
		sml_leaf_job_fail(job, SML_ERROR_REFUSED, text, false);
		return;
	}
	job->pool.rules.tag = sml_jobs_random(jobs);
	sml_job_pool_draw(&job->pool, (unsigned)in->behind->n_ranks);
	if (!sml_leaf_job_try_slots(job))
		return;
	if (!sml_job_pool_give(&job->pool, in->behind))
		sml_leaf_job_fail(job, SML_ERROR_REFUSED, "it has no memory", true);
	else
		sml_leaf_job_tick(job);
}
