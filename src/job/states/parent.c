/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job at a leaf, to its parent: what a rank is to its switch. The root decides what becomes of
 * the job, how many slots of how many lanes there are, and which ranks take part. This switch draws
 * the tag and the cookies of its own children, and no other switch knows them. It measures how wide
 * the path to the parent is.
 *
 *	Admitted --> probes to the parent --all answered, all leaves of this one ready--> Ready
 *	        --Start--> runs --Abort--> gone
 *
 * The invariant: a job says Ready once, with the lanes that all paths below its parent carry. A new
 * epoch is a new job.
 */
#include "job/states/states.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/least.h"
#include "control/envelope.h"
#include "core/renewal.h"
#include "switchml.h"

#define FIRST_PROBE_NS (50 * 1000000ull)
#define PROBE_NS       (250 * 1000000ull)
/* How often a running job looks whether the parent's results come. */
#define LOOK_NS (500 * 1000000ull)
/* After the parent has answered some width, this many rounds for a wider one. */
#define ROUNDS 6

/* The invariants between two inputs. What the parent says may contradict itself: not that. */
static void check(const struct sml_job *job)
{
	const struct sml_job_pool *pool = &job->pool;

	sml_assert(sml_job_pool_slots(job) > 0 && sml_job_find(job->jobs, pool->rules.job) == job);
	sml_assert(pool->n_children >= 1 && pool->n_children <= SML_MAX_CHILDREN);
	sml_assert(pool->rules.n_ranks == pool->n_children);
	sml_assert(job->state == SML_JOB_PROBING || job->state == SML_JOB_RUNNING);
	sml_assert(pool->has_slots || (!job->parent.knows_ready && job->state == SML_JOB_PROBING));
	for (unsigned i = 0; i < pool->n_children; i++) {
		const struct sml_child *child = &pool->children[i];

		sml_assert(child->n_ranks >= 1 && (!child->has_job || child->waits.slots != NULL));
		sml_assert(!child->ready ||
			   (child->lanes >= SML_MIN_LANES && child->lanes <= pool->rules.lanes));
	}
}

/* Are the slots of ended jobs free now? False if the job has failed, and the parent knows why. */
static bool try_slots(struct sml_job *job)
{
	int rc = sml_job_pool_add(job);

	if (rc == 0 || rc == -EAGAIN)
		return true;
	sml_job_fail_for_now(
		job, rc == -ENOSPC ? "its pool has room for the job, but in pieces: wait for a job "
				     "to end, or start it with more --slots"
				   : "it has no memory for the job's slots");
	return false;
}

/* ---- probes, and ready ---- */

static uint16_t proved(const struct sml_job *job)
{
	if (!job->pool.has_slots)
		return 0;
	return job->jobs->operations->parent_lanes(job->jobs->dataplane, job->pool.rules.job);
}

static void send_probes(struct sml_job *job)
{
	static const uint16_t counts[] = SML_LANE_COUNTS;
	const struct sml_jobs *jobs = job->jobs;

	job->parent.probed_ns = jobs->now_ns;
	jobs->operations->probe_parent(jobs->dataplane, job->pool.rules.job, job->parent.data_port,
				       job->pool.rules.lanes, 0);
	/* The first round asks only for the full width, which is enough for a healthy path. */
	for (unsigned i = 0; job->parent.rounds > 0 && counts[i] != 0; i++)
		if (counts[i] < job->pool.rules.lanes && counts[i] > proved(job))
			jobs->operations->probe_parent(jobs->dataplane, job->pool.rules.job,
						       job->parent.data_port, counts[i], 0);
	job->parent.rounds++;
}

/* The lanes that all of its paths carry; 0: not known yet. */
static uint32_t agreed_lanes(const struct sml_job *job)
{
	uint32_t lanes = proved(job);

	if (lanes == 0 || (lanes < job->pool.rules.lanes && job->parent.answered_ns == 0) ||
	    (lanes < job->pool.rules.lanes &&
	     job->jobs->now_ns < job->parent.answered_ns + ROUNDS * PROBE_NS))
		return 0;
	for (unsigned i = 0; i < job->pool.n_children; i++) {
		if (job->pool.children[i].branch == NULL)
			continue;
		if (!job->pool.children[i].ready)
			return 0;
		lanes = sml_least(lanes, job->pool.children[i].lanes);
	}
	return lanes;
}

/* False: the job has failed, and the parent knows why. */
static bool knows_parent(struct sml_job *job)
{
	const struct sml_jobs *jobs = job->jobs;
	const char *why = NULL;

	if (jobs->operations->misses_parent)
		why = jobs->operations->misses_parent(jobs->dataplane, job->pool.rules.job);
	if (why == NULL)
		return true;
	sml_job_fail(job, SML_ERROR_REFUSED, "its parent %s %s", jobs->config.parent, why);
	return false;
}

void sml_parent_check_ready(struct sml_job *job)
{
	SmlControl__Ready message = SML_CONTROL__READY__INIT;

	if (job->parent.knows_ready)
		return;
	if (job->parent.answered_ns == 0 && proved(job) > 0)
		job->parent.answered_ns = job->jobs->now_ns;
	message.lanes = agreed_lanes(job);
	if (message.lanes == 0 || !knows_parent(job))
		return;
	job->parent.knows_ready = true;
	(void)sml_link_send(job->jobs, &job->jobs->leaf.up,
			    sml_envelope_of(job->pool.rules.job, READY, ready, &message));
}

static uint64_t next_probe(const struct sml_job *job)
{
	return job->parent.rounds == 0	 ? 0
	       : job->parent.rounds == 1 ? job->parent.probed_ns + FIRST_PROBE_NS
					 : job->parent.probed_ns + PROBE_NS;
}

static bool probes(const struct sml_job *job)
{
	return !job->parent.knows_ready && proved(job) < job->pool.rules.lanes;
}

/* ---- addresses that a NAT has changed ---- */

/* UINT64_MAX: never. */
static uint64_t next_look(const struct sml_job *job)
{
	return job->state >= SML_JOB_RUNNING && job->jobs->operations->job_counters
		       ? job->parent.renewal.looked_ns + LOOK_NS
		       : UINT64_MAX;
}

/* Ranks ask for results that the parent sends, perhaps to an address that is no longer this one. */
static void look_for_results(struct sml_job *job)
{
	SmlControl__Renew message = SML_CONTROL__RENEW__INIT;
	struct sml_jobs *jobs = job->jobs;
	struct sml_job_renewal *renewal = &job->parent.renewal;
	struct sml_job_counters counters = {0};
	uint64_t sent_again, results;

	jobs->operations->job_counters(jobs->dataplane, job->pool.rules.job, &counters);
	sent_again = counters.verdicts[SML_VERDICT_RESEND_UP];
	results = counters.verdicts[SML_VERDICT_COMPLETED];
	if (sent_again == renewal->sent_again || results != renewal->results)
		renewal->n_silent = 0;
	else
		renewal->n_silent++;
	renewal->looked_ns = jobs->now_ns;
	renewal->sent_again = sent_again;
	renewal->results = results;
	if (renewal->n_silent == 0)
		return;
	if (sml_renewal_is_due(renewal->n_silent)) {
		renewal->number = (uint32_t)sml_jobs_random(jobs) | 1;
		message.number = renewal->number;
		(void)sml_link_send(jobs, &jobs->leaf.up,
				    sml_envelope_of(job->pool.rules.job, RENEW, renew, &message));
	}
	/* The number may come after the first of these. */
	jobs->operations->probe_parent(jobs->dataplane, job->pool.rules.job, job->parent.data_port,
				       0, renewal->number);
}

void sml_parent_start(struct sml_job *job)
{
	const struct sml_jobs *jobs = job->jobs;

	if (job->state >= SML_JOB_RUNNING || !job->pool.has_slots || !sml_job_start(job))
		return;
	job->parent.renewal.looked_ns = jobs->now_ns;
	if (jobs->config.debug >= SML_LOG_TRACE)
		sml_jobs_log(jobs, SML_JOBS_INFO,
			     "job \"%s\" runs: %u children of this leaf, epoch %u, %u slots",
			     job->name, job->pool.n_children, job->pool.rules.epoch,
			     sml_job_pool_slots(job));
}

/* ---- mismatches ---- */

void sml_parent_mismatch(const struct sml_job *job, const struct sml_mismatch *mismatch)
{
	SmlControl__Mismatch message = SML_CONTROL__MISMATCH__INIT;
	uint32_t ranks[] = {mismatch->ranks[0], mismatch->ranks[1]};

	message.slot = mismatch->slot;
	message.use = mismatch->use;
	message.chunk = mismatch->chunk;
	message.ranks = ranks;
	message.n_ranks = 2;
	(void)sml_link_send(job->jobs, &job->jobs->leaf.up,
			    sml_envelope_of(job->pool.rules.job, MISMATCH, mismatch, &message));
}

/* ---- what its ranks are told ---- */

void sml_parent_admit(const struct sml_peer *peer, SmlControl__Admitted *admitted)
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

/* ---- time ---- */

uint64_t sml_parent_deadline(const struct sml_job *job)
{
	uint64_t due_ns = !job->pool.has_slots ? job->pool.tries_again_ns
			  : probes(job)	       ? next_probe(job)
					       : next_look(job);

	return sml_earlier(due_ns, sml_job_pool_answers_due(job));
}

void sml_parent_tick(struct sml_job *job)
{
	check(job);
	sml_job_look_for_answers(job);
	if (!job->pool.has_slots && job->jobs->now_ns >= job->pool.tries_again_ns &&
	    !try_slots(job))
		return;
	if (!job->pool.has_slots)
		return;
	if (probes(job) && job->jobs->now_ns >= next_probe(job))
		send_probes(job);
	if (job->jobs->now_ns >= next_look(job))
		look_for_results(job);
	sml_parent_check_ready(job);
}

/* ---- the beginning ---- */

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

/* True: the text says why. */
static bool lacks_room(const struct sml_jobs *jobs, const SmlControl__Admitted *in, char *text,
		       size_t bytes)
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
		return false;
	return true;
}

/* In its place, without slots. NULL: there is no room for it, as the text says. */
static struct sml_job *new_job(struct sml_jobs *jobs, const SmlControl__Admitted *in, char *text,
			       size_t bytes)
{
	struct sml_job *job;

	if (lacks_room(jobs, in, text, bytes))
		return NULL;
	job = sml_job_new(jobs, in->behind->job, in->behind->world_size);
	if (job == NULL) {
		snprintf(text, bytes, "it has no memory");
		return NULL;
	}
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

void sml_parent_begin(struct sml_jobs *jobs, const SmlControl__Admitted *in)
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
	job = new_job(jobs, in, text, sizeof(text));
	if (job == NULL) {
		sml_leaf_send_failure(jobs, in->job_number, SML_ERROR_REFUSED, text, true);
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
	if (!try_slots(job))
		return;
	if (sml_job_give(job)) {
		sml_parent_tick(job);
		return;
	}
	sml_job_fail_for_now(job, "it has no memory");
}
