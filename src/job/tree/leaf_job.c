/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job at a leaf: its slots, and the children that contribute to them. The root decides how many
 * slots of how many lanes there are, and which ranks take part. This switch draws the tag and the
 * cookies of its own children, and no other switch knows them. This file has the job's beginning
 * and end; leaf_run.c has the time in between.
 *
 *	LeafJob --> probes to the parent --all answered, all leaves of this one ready--> LeafReady
 *	        --LeafStart--> runs --LeafEnd--> gone
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
#include "job/tree/leaf_run.h"
#include "switchml.h"

struct sml_leaf_job *sml_leaf_job_find(const struct sml_jobs *jobs, uint32_t number)
{
	struct sml_leaf_job *job = jobs->leaf.jobs[number % SML_MAX_JOBS];

	return job != NULL && job->rules.job == number ? job : NULL;
}

bool sml_leaf_job_runs(const struct sml_leaf_job *job)
{
	return job->started;
}

/* ---- the end ---- */

/* Its leaves end it, too. */
static void end_below(const struct sml_leaf_job *job, const char *how, bool planned)
{
	SmlControl__LeafEnd end = SML_CONTROL__LEAF_END__INIT;

	end.job_number = job->rules.job;
	end.how = (char *)(uintptr_t)how;
	end.planned = planned;
	for (unsigned i = 0; i < job->n_children; i++) {
		struct sml_branch *branch = job->children[i].branch;

		if (branch == NULL)
			continue;
		if (job->children[i].has_job)
			branch->slots_in_use -= sml_leaf_job_slots(job);
		(void)sml_branch_send(branch, sml_envelope(LEAF_END, leaf_end, &end));
	}
}

static void let_proxied_peers_go(struct sml_leaf_job *job)
{
	const struct sml_table *proxied_peers = &job->jobs->leaf.proxied_peers;

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
	struct sml_jobs *jobs = job->jobs;

	/* A job ends once. */
	sml_assert(jobs->leaf.jobs[job->rules.job % SML_MAX_JOBS] == job);

	if (how[0] != '\0')
		sml_jobs_log_end(jobs, job->name, how, planned);
	end_below(job, how, planned);
	let_proxied_peers_go(job);
	if (job->has_slots)
		jobs->operations->remove_job(jobs->dataplane, job->rules.job);
	jobs->leaf.jobs[job->rules.job % SML_MAX_JOBS] = NULL;
	jobs->slots_in_use -= sml_leaf_job_slots(job);
	jobs->n_jobs--;
	for (unsigned i = 0; i < job->n_children; i++)
		sml_waits_fini(&job->children[i].waits);
	job->next_over = jobs->leaf.over;
	jobs->leaf.over = job;
	return true;
}

static void report_failure(struct sml_jobs *jobs, uint32_t number, int error, const char *text,
			   bool again)
{
	SmlControl__LeafFailed message = SML_CONTROL__LEAF_FAILED__INIT;

	message.job_number = number;
	message.error = error;
	message.text = (char *)(uintptr_t)text;
	message.again = again;
	(void)sml_leaf_send(jobs, sml_envelope(LEAF_FAILED, leaf_failed, &message));
}

bool sml_leaf_job_fail(struct sml_leaf_job *job, int error, const char *text, bool again)
{
	char how[2 * SML_SENTENCE_BYTES];

	report_failure(job->jobs, job->rules.job, error, text, again);
	snprintf(how, sizeof(how), "failed at the leaf %s: %s", job->jobs->config.name, text);
	return sml_leaf_job_end(job, how, false);
}

void sml_leaf_job_forget(struct sml_proxied *proxied)
{
	proxied->job = NULL;
}

void sml_leaf_job_forget_branch(struct sml_leaf_job *job, const struct sml_branch *branch)
{
	for (unsigned i = 0; i < job->n_children; i++)
		if (job->children[i].branch == branch)
			job->children[i].branch = NULL;
}

/* ---- the beginning ---- */

/* Ranks behind one leaf contribute as one, and those of one host that are connected here. */
static bool is_behind(const struct sml_leaf_job *job, unsigned child,
		      const struct sml_proxied *proxied)
{
	return job->children[child].branch == proxied->peer->via &&
	       (proxied->peer->via != NULL ||
		job->children[child].first_of_host == proxied->first_of_host);
}

static unsigned child_for(struct sml_leaf_job *job, const struct sml_proxied *proxied)
{
	unsigned i = 0;

	while (i < job->n_children && !is_behind(job, i, proxied))
		i++;
	if (i == job->n_children && i < SML_MAX_CHILDREN) {
		job->children[i].branch = proxied->peer->via;
		job->children[i].first_rank = proxied->rank;
		job->children[i].first_of_host = proxied->first_of_host;
		job->n_children++;
	}
	/* They come in any order. */
	if (i < SML_MAX_CHILDREN && proxied->rank < job->children[i].first_rank)
		job->children[i].first_rank = proxied->rank;
	return i;
}

/* False: there are too many. */
static bool form_children(struct sml_leaf_job *job, const SmlControl__LeafJob *in)
{
	const struct sml_table *proxied_peers = &job->jobs->leaf.proxied_peers;

	for (size_t i = 0; i < in->n_peers; i++) {
		struct sml_proxied *proxied =
			(struct sml_proxied *)sml_table_find(proxied_peers, in->peers[i]);
		unsigned child;

		/* It has ended in the meantime, and the root hears of that next. */
		if (proxied == NULL || proxied->job != NULL)
			continue;
		proxied->rank = (uint16_t)in->ranks[i];
		proxied->first_of_host = (uint16_t)in->hosts[i];
		child = child_for(job, proxied);
		if (child == SML_MAX_CHILDREN)
			return false;
		proxied->job = job;
		proxied->child = (uint8_t)child;
		job->children[child].n_ranks++;
		sml_ranks_add(&job->children[child].ranks, in->ranks[i]);
	}
	return job->n_children > 0;
}

static void draw_secrets(struct sml_leaf_job *job)
{
	job->rules.tag = sml_jobs_random(job->jobs);
	job->rules.n_ranks = job->n_children;
	for (unsigned i = 0; i < job->n_children; i++)
		job->rules.cookies[i] = sml_jobs_random(job->jobs);
}

/* lists: of in->n_peers each. */
static void list_peers(const struct sml_leaf_job *job, const struct sml_branch *branch,
		       uint32_t *lists, size_t n, SmlControl__LeafJob *out)
{
	const struct sml_table *proxied_peers = &job->jobs->leaf.proxied_peers;

	out->n_peers = out->n_ranks = out->n_hosts = 0;
	out->peers = lists;
	out->ranks = lists + n;
	out->hosts = lists + 2 * n;
	for (uint32_t i = 0; i < proxied_peers->room; i++) {
		const struct sml_proxied *proxied =
			(const struct sml_proxied *)sml_table_at(proxied_peers, i);

		if (proxied == NULL || proxied->job != job || proxied->peer->via != branch)
			continue;
		out->peers[out->n_peers++] = sml_remote_of(proxied->peer)->key.number;
		out->ranks[out->n_ranks++] = proxied->rank;
		out->hosts[out->n_hosts++] = proxied->first_of_host;
	}
}

/* The leaves of this leaf get the job, as this leaf got it. False: no memory. */
static bool send_to_leaves(struct sml_leaf_job *job, const SmlControl__LeafJob *in)
{
	uint32_t *lists = calloc(3 * in->n_peers, sizeof(*lists));

	for (unsigned i = 0; lists != NULL && i < job->n_children; i++) {
		SmlControl__LeafJob out = *in;

		if (job->children[i].branch == NULL)
			continue;
		if (!sml_waits_init(&job->children[i].waits, sml_leaf_job_slots(job),
				    job->world_size))
			break;
		job->children[i].has_job = true;
		job->children[i].branch->slots_in_use += sml_leaf_job_slots(job);
		list_peers(job, job->children[i].branch, lists, in->n_peers, &out);
		out.number = i;
		out.cookie = job->rules.cookies[i];
		out.tag = job->rules.tag;
		out.data_port = job->jobs->config.data_port;
		(void)sml_branch_send(job->children[i].branch,
				      sml_envelope(LEAF_JOB, leaf_job, &out));
	}
	free(lists);
	for (unsigned i = 0; i < job->n_children; i++)
		if (job->children[i].branch != NULL && job->children[i].waits.slots == NULL)
			return false;
	return lists != NULL;
}

static bool are_ranks(const SmlControl__LeafJob *in)
{
	if (in->world_size < 1 || in->world_size > SML_MAX_WORLD || in->n_peers != in->n_ranks ||
	    in->n_hosts != in->n_ranks || in->n_ranks < 1 || in->n_ranks > in->world_size)
		return false;
	for (size_t i = 0; i < in->n_ranks; i++)
		if (in->ranks[i] >= in->world_size || in->hosts[i] > in->ranks[i])
			return false;
	return true;
}

static bool is_possible(const SmlControl__LeafJob *in)
{
	return in->lanes > 0 && in->lanes <= SML_MAX_LANES && in->shards > 0 &&
	       in->shards <= SML_MAX_SHARDS && in->head_slots >= in->shards &&
	       in->data_slots >= in->shards && in->head_slots <= SML_MAX_SLOTS &&
	       in->data_slots <= SML_MAX_SLOTS - in->head_slots && in->number < SML_MAX_CHILDREN &&
	       in->data_port > 0 && in->data_port <= 65535 && are_ranks(in);
}

/* NULL: yes. */
static const char *lacks_room(const struct sml_jobs *jobs, const SmlControl__LeafJob *in,
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

static struct sml_leaf_job *new_job(struct sml_jobs *jobs, const SmlControl__LeafJob *in)
{
	struct sml_leaf_job *job = calloc(1, sizeof(*job));

	if (job == NULL)
		return NULL;
	job->jobs = jobs;
	sml_text_copy(job->name, sizeof(job->name), in->job);
	job->world_size = in->world_size;
	job->data_port = (uint16_t)in->data_port;
	/* The number is the root's: all switches of the tree know the job by it. */
	job->rules = (struct sml_pool_rules){
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
	return job;
}

/*
 * 0, or a negative errno. The slots of ended jobs may be free only in a moment: then the job waits
 * for them, and everything else goes on.
 */
static int add_slots(struct sml_leaf_job *job)
{
	struct sml_jobs *jobs = job->jobs;
	int rc = jobs->operations->add_job(jobs->dataplane, &job->rules);

	job->has_slots = rc == 0;
	job->tries_again_ns = jobs->now_ns + SML_TICK_NS;
	return rc == -EAGAIN ? 0 : rc;
}

static const char *no_slots(int rc)
{
	return rc == -ENOSPC ? "its pool has room for the job, but in pieces: wait for a job to "
			       "end, or start it with more --slots"
			     : "it has no memory for the job's slots";
}

bool sml_leaf_job_try_slots(struct sml_leaf_job *job)
{
	int rc = add_slots(job);

	if (rc < 0)
		sml_leaf_job_fail(job, SML_ERROR_REFUSED, no_slots(rc), true);
	return rc >= 0;
}

/* Its slots, then its place. 0, or a negative errno. */
static int add_job(struct sml_leaf_job *job)
{
	struct sml_jobs *jobs = job->jobs;
	int rc = add_slots(job);

	if (rc < 0)
		return rc;
	jobs->leaf.jobs[job->rules.job % SML_MAX_JOBS] = job;
	jobs->slots_in_use += sml_leaf_job_slots(job);
	jobs->n_jobs++;
	return 0;
}

void sml_leaf_job_begin(struct sml_jobs *jobs, const SmlControl__LeafJob *in)
{
	struct sml_leaf_job *job = jobs->leaf.jobs[in->job_number % SML_MAX_JOBS];
	char text[SML_SENTENCE_BYTES];
	int rc;

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
	if (!form_children(job, in)) {
		let_proxied_peers_go(job);
		free(job);
		snprintf(text, sizeof(text),
			 "a switch takes at most %d ranks and leaves of a job, but the leaf %s has "
			 "more (or none): start leaves of it with `switchml switch --parent %s', "
			 "and set SWITCHML_SWITCH to one of them for at most %d ranks each",
			 SML_MAX_CHILDREN, jobs->config.name, jobs->config.name, SML_MAX_CHILDREN);
		report_failure(jobs, in->job_number, SML_ERROR_REFUSED, text, false);
		return;
	}
	draw_secrets(job);
	job->rules.divisor =
		sml_divisor_of(job->n_children, (unsigned)in->n_ranks, job->world_size);
	rc = add_job(job);
	if (rc < 0) {
		let_proxied_peers_go(job);
		free(job);
		report_failure(jobs, in->job_number, SML_ERROR_REFUSED, no_slots(rc), true);
		return;
	}
	job->begun_ns = jobs->now_ns;
	if (!send_to_leaves(job, in))
		sml_leaf_job_fail(job, SML_ERROR_REFUSED, "it has no memory", true);
	else
		sml_leaf_job_tick(job);
}
