/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job at a leaf between its beginning and its end (leaf_job.c): what the leaf tells its
 * ranks, the probes that measure how wide the path to the parent is, LeafReady and LeafStart, and
 * the messages of the leaves below this one.
 *
 * The invariant: a job says LeafReady once, with the lanes that all paths below its parent carry.
 */
#include "job/tree/leaf_run.h"

#include <stdio.h>
#include <string.h>

#include "base/least.h"
#include "control/envelope.h"
#include "control/text.h"
#include "core/renewal.h"
#include "job/members/job.h"
#include "job/peer/output.h"
#include "job/tree/leaf_job.h"
#include "job/tree/leaf_slots.h"

#define FIRST_PROBE_NS (50 * 1000000ull)
#define PROBE_NS       (250 * 1000000ull)
/* How often a running job looks whether the parent's results come. */
#define LOOK_NS (500 * 1000000ull)
/* After the parent has answered some width, this many rounds for a wider one. */
#define ROUNDS 6

/* The invariants between two inputs. What the parent says may contradict itself: not that. */
static void check(const struct sml_leaf_job *job)
{
	const struct sml_jobs *jobs = job->jobs;

	sml_assert(jobs->leaf.jobs[job->rules.job % SML_MAX_JOBS] == job);
	sml_assert(jobs->n_jobs > 0 && jobs->slots_in_use >= sml_leaf_job_slots(job));
	sml_assert(job->n_children >= 1 && job->n_children <= SML_MAX_CHILDREN);
	sml_assert(job->rules.n_ranks == job->n_children);
	sml_assert(job->has_slots || (!job->ready && !job->started));
	for (unsigned i = 0; i < job->n_children; i++) {
		sml_assert(job->children[i].n_ranks >= 1);
		sml_assert(!job->children[i].has_job || job->children[i].waits.slots != NULL);
		sml_assert(!job->children[i].ready || (job->children[i].lanes >= 1 &&
						       job->children[i].lanes <= job->rules.lanes));
	}
}

/* ---- what its ranks are told ---- */

static uint32_t count_children(const struct sml_jobs *jobs)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < SML_MAX_JOBS; i++)
		if (jobs->leaf.jobs[i] != NULL)
			n += jobs->leaf.jobs[i]->n_children;
	return n;
}

void sml_leaf_job_admit(const struct sml_proxied *proxied, SmlControl__Admitted *admitted)
{
	const struct sml_leaf_job *job = proxied->job;
	struct sml_jobs *jobs = job->jobs;
	const struct sml_pool_rules *rules = &job->rules;
	uint32_t packet = SML_HEADER_BYTES + 4u * rules->lanes;

	if (jobs->operations->window)
		admitted->window_packets = sml_least(
			admitted->window_packets ? admitted->window_packets : UINT32_MAX,
			jobs->operations->window(jobs->dataplane, packet, count_children(jobs)));
	admitted->omits &= rules->omits;
	if (proxied->peer->via != NULL)
		return;
	admitted->number = proxied->child;
	admitted->cookie = rules->cookies[proxied->child];
	admitted->tag = rules->tag;
	admitted->data_port = jobs->config.data_port;
	admitted->single_packets |= jobs->operations->wants_single_packets != NULL &&
				    jobs->operations->wants_single_packets(jobs->dataplane);
}

/* Of ranks that share memory, only the first sends packets; without memory, the job comes again. */
static bool sends_packets(const struct sml_proxied *proxied, const SmlControl__Ready *ready)
{
	return proxied->job->children[proxied->child].n_ranks == 1 ||
	       (ready->shares_memory && proxied->rank == proxied->first_of_host);
}

static const char *misses_address(const struct sml_leaf_job *job, uint8_t child)
{
	const struct sml_jobs *jobs = job->jobs;

	if (!job->has_slots)
		return "said that it was ready before its switch had slots for the job";
	return jobs->operations->misses_address
		       ? jobs->operations->misses_address(jobs->dataplane, job->rules.job, child)
		       : NULL;
}

bool sml_leaf_job_is_ready(struct sml_proxied *proxied, const SmlControl__Ready *ready)
{
	struct sml_leaf_job *job = proxied->job;
	char text[SML_SENTENCE_BYTES];
	const char *why = NULL;

	if (proxied->peer->via == NULL && sends_packets(proxied, ready))
		why = misses_address(job, proxied->child);
	if (why == NULL)
		return true;
	snprintf(text, sizeof(text), "rank %u (host %s, pid %u) %s", proxied->rank, proxied->host,
		 proxied->pid, why);
	sml_leaf_job_fail(job, SML_ERROR_PROTOCOL, text, false);
	return false;
}

/* ---- probes, and ready ---- */

static uint16_t proved(const struct sml_leaf_job *job)
{
	if (!job->has_slots)
		return 0;
	return job->jobs->operations->parent_lanes(job->jobs->dataplane, job->rules.job);
}

static void send_probes(struct sml_leaf_job *job)
{
	static const uint16_t counts[] = SML_LANE_COUNTS;
	const struct sml_jobs *jobs = job->jobs;

	job->probed_ns = jobs->now_ns;
	jobs->operations->probe_parent(jobs->dataplane, job->rules.job, job->data_port,
				       job->rules.lanes, 0);
	/* The first round asks only for the full width, which is enough for a healthy path. */
	for (unsigned i = 0; job->rounds > 0 && counts[i] != 0; i++)
		if (counts[i] < job->rules.lanes && counts[i] > proved(job))
			jobs->operations->probe_parent(jobs->dataplane, job->rules.job,
						       job->data_port, counts[i], 0);
	job->rounds++;
}

/* The lanes that all of its paths carry; 0: not known yet. */
static uint32_t agreed_lanes(const struct sml_leaf_job *job)
{
	uint32_t lanes = proved(job);

	if (lanes == 0 || (lanes < job->rules.lanes && job->answered_ns == 0) ||
	    (lanes < job->rules.lanes && job->jobs->now_ns < job->answered_ns + ROUNDS * PROBE_NS))
		return 0;
	for (unsigned i = 0; i < job->n_children; i++) {
		if (job->children[i].branch == NULL)
			continue;
		if (!job->children[i].ready)
			return 0;
		lanes = sml_least(lanes, job->children[i].lanes);
	}
	return lanes;
}

/* False: the job has failed, and the parent knows why. */
static bool knows_parent(struct sml_leaf_job *job)
{
	const struct sml_jobs *jobs = job->jobs;
	char text[SML_SENTENCE_BYTES];
	const char *why = NULL;

	if (jobs->operations->misses_parent)
		why = jobs->operations->misses_parent(jobs->dataplane, job->rules.job);
	if (why == NULL)
		return true;
	snprintf(text, sizeof(text), "its parent %s %s", jobs->config.parent, why);
	sml_leaf_job_fail(job, SML_ERROR_REFUSED, text, false);
	return false;
}

/* The job may fail. */
static void check_ready(struct sml_leaf_job *job)
{
	SmlControl__LeafReady message = SML_CONTROL__LEAF_READY__INIT;

	if (job->ready)
		return;
	if (job->answered_ns == 0 && proved(job) > 0)
		job->answered_ns = job->jobs->now_ns;
	message.lanes = agreed_lanes(job);
	if (message.lanes == 0 || !knows_parent(job))
		return;
	job->ready = true;
	message.job_number = job->rules.job;
	(void)sml_leaf_send(job->jobs, sml_envelope(LEAF_READY, leaf_ready, &message));
}

static uint64_t next_probe(const struct sml_leaf_job *job)
{
	return job->rounds == 0	  ? 0
	       : job->rounds == 1 ? job->probed_ns + FIRST_PROBE_NS
				  : job->probed_ns + PROBE_NS;
}

static bool probes(const struct sml_leaf_job *job)
{
	return !job->ready && proved(job) < job->rules.lanes;
}

/* ---- addresses that a NAT has changed ---- */

static void renew_child(const struct sml_leaf_job *job, uint8_t child, uint8_t shard,
			uint32_t number)
{
	const struct sml_jobs *jobs = job->jobs;

	if (job->started && jobs->operations->renew_address && shard < job->rules.n_shards)
		jobs->operations->renew_address(jobs->dataplane, job->rules.job, child, shard,
						number);
}

void sml_leaf_job_renew_rank(const struct sml_proxied *proxied, const SmlControl__Renew *in)
{
	if (proxied->job != NULL && proxied->peer->via == NULL && in->shard < SML_MAX_SHARDS)
		renew_child(proxied->job, proxied->child, (uint8_t)in->shard, in->number);
}

static bool has_looked_enough(const struct sml_leaf_job *job)
{
	return !job->started || job->jobs->operations->job_counters == NULL ||
	       job->jobs->now_ns < job->renewal.looked_ns + LOOK_NS;
}

/* Ranks ask for results that the parent sends, perhaps to an address that is no longer this one. */
static void look_for_results(struct sml_leaf_job *job)
{
	SmlControl__LeafRenew message = SML_CONTROL__LEAF_RENEW__INIT;
	struct sml_jobs *jobs = job->jobs;
	struct sml_job_counters counters = {0};
	uint64_t sent_again, results;

	jobs->operations->job_counters(jobs->dataplane, job->rules.job, &counters);
	sent_again = counters.verdicts[SML_VERDICT_RESEND_UP];
	results = counters.verdicts[SML_VERDICT_COMPLETED];
	if (sent_again == job->renewal.sent_again || results != job->renewal.results)
		job->renewal.n_silent = 0;
	else
		job->renewal.n_silent++;
	job->renewal.looked_ns = jobs->now_ns;
	job->renewal.sent_again = sent_again;
	job->renewal.results = results;
	if (job->renewal.n_silent == 0)
		return;
	if (sml_renewal_is_due(job->renewal.n_silent)) {
		job->renewal.number = (uint32_t)sml_jobs_random(jobs) | 1;
		message.job_number = job->rules.job;
		message.number = job->renewal.number;
		(void)sml_leaf_send(jobs, sml_envelope(LEAF_RENEW, leaf_renew, &message));
	}
	/* The number may come after the first of these. */
	jobs->operations->probe_parent(jobs->dataplane, job->rules.job, job->data_port, 0,
				       job->renewal.number);
}

void sml_leaf_job_start(struct sml_jobs *jobs, uint32_t number)
{
	SmlControl__LeafStart start = SML_CONTROL__LEAF_START__INIT;
	struct sml_leaf_job *job = sml_leaf_job_find(jobs, number);
	char text[SML_SENTENCE_BYTES];
	int rc;

	if (job == NULL || job->started || !job->has_slots)
		return;
	rc = jobs->operations->start_job(jobs->dataplane, number);
	if (rc < 0) {
		snprintf(text, sizeof(text), "its kernel refuses the job's addresses: %s",
			 strerror(-rc));
		sml_leaf_job_fail(job, SML_ERROR_REFUSED, text, false);
		return;
	}
	job->started = true;
	job->renewal.looked_ns = jobs->now_ns;
	start.job_number = number;
	for (unsigned i = 0; i < job->n_children; i++)
		if (job->children[i].branch != NULL)
			(void)sml_branch_send(job->children[i].branch,
					      sml_envelope(LEAF_START, leaf_start, &start));
	if (jobs->config.debug >= 2)
		sml_jobs_log(jobs, SML_JOBS_INFO,
			     "job \"%s\" runs: %u children of this leaf, epoch %u, %u slots",
			     job->name, job->n_children, job->rules.epoch, sml_leaf_job_slots(job));
}

/* ---- time ---- */

uint64_t sml_leaf_job_deadline(const struct sml_leaf_job *job)
{
	uint64_t due_ns = !job->has_slots ? job->tries_again_ns
			  : probes(job)	  ? next_probe(job)
			  : job->started && job->jobs->operations->job_counters
				  ? job->renewal.looked_ns + LOOK_NS
				  : UINT64_MAX;

	return sml_leaf_job_slots_due(job) < due_ns ? sml_leaf_job_slots_due(job) : due_ns;
}

void sml_leaf_job_tick(struct sml_leaf_job *job)
{
	check(job);
	if (job->jobs->now_ns >= sml_leaf_job_slots_due(job))
		sml_leaf_job_send_known_slots(job);
	if (!job->has_slots && job->jobs->now_ns >= job->tries_again_ns &&
	    !sml_leaf_job_try_slots(job))
		return;
	if (!job->has_slots)
		return;
	if (probes(job) && job->jobs->now_ns >= next_probe(job))
		send_probes(job);
	if (!has_looked_enough(job))
		look_for_results(job);
	check_ready(job);
}

/* ---- what the leaves of this leaf say ---- */

static void take_failure(struct sml_leaf_job *job, const struct sml_branch *branch,
			 const SmlControl__LeafFailed *in)
{
	char reason[SML_REASON_BYTES], text[SML_SENTENCE_BYTES];

	sml_text_copy(reason, sizeof(reason), in->text);
	snprintf(text, sizeof(text), "its leaf %s: %s", branch->name, reason);
	sml_leaf_job_fail(job, in->error, text, in->again);
}

void sml_leaf_job_branch_message(struct sml_jobs *jobs, struct sml_branch *branch,
				 const SmlControl__Envelope *message)
{
	struct sml_leaf_job *job = sml_leaf_job_find(jobs, message->leaf_ready->job_number);
	unsigned child = 0;

	while (job != NULL && child < job->n_children && job->children[child].branch != branch)
		child++;
	if (job == NULL || child == job->n_children)
		return;
	check(job);
	switch (message->body_case) {
	case SML_CONTROL__ENVELOPE__BODY_LEAF_READY:
		job->children[child].lanes =
			sml_least(message->leaf_ready->lanes, job->rules.lanes);
		job->children[child].ready = job->children[child].lanes > 0;
		check_ready(job);
		break;
	case SML_CONTROL__ENVELOPE__BODY_LEAF_FAILED:
		take_failure(job, branch, message->leaf_failed);
		break;
	case SML_CONTROL__ENVELOPE__BODY_LEAF_MISMATCH:
		sml_leaf_job_pass_mismatch(job, child, message->leaf_mismatch);
		break;
	case SML_CONTROL__ENVELOPE__BODY_LEAF_SLOTS:
		sml_leaf_job_take_slots(job, child, message->leaf_slots);
		break;
	case SML_CONTROL__ENVELOPE__BODY_LEAF_RENEW:
		for (uint8_t shard = 0; shard < job->rules.n_shards; shard++)
			renew_child(job, (uint8_t)child, shard, message->leaf_renew->number);
		break;
	default:
		break;
	}
}
