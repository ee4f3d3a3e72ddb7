/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job at a leaf between its beginning and its end (leaf_job.c): what the leaf tells its
 * ranks, the probes that measure how wide the path to the parent is, Ready and Start, and what it
 * tells the parent about slots.
 *
 * The invariant: a job says Ready once, with the lanes that all paths below its parent carry.
 */
#include "job/tree/leaf_job.h"

#include <stdio.h>
#include <string.h>

#include "base/least.h"
#include "control/envelope.h"
#include "core/renewal.h"
#include "job/peer/output.h"
#include "switchml.h"

#define FIRST_PROBE_NS (50 * 1000000ull)
#define PROBE_NS       (250 * 1000000ull)
/* How often a running job looks whether the parent's results come. */
#define LOOK_NS (500 * 1000000ull)
/* After the parent has answered some width, this many rounds for a wider one. */
#define ROUNDS 6

/* The invariants between two inputs. What the parent says may contradict itself: not that. */
static void check(const struct sml_leaf_job *job)
{
	const struct sml_jobs *jobs = job->pool.jobs;

	sml_assert(sml_leaf_job_find(jobs, job->pool.rules.job) == job);
	sml_assert(jobs->n_jobs > 0 && jobs->slots_in_use >= sml_job_pool_slots(&job->pool));
	sml_assert(job->pool.n_children >= 1 && job->pool.n_children <= SML_MAX_CHILDREN);
	sml_assert(job->pool.rules.n_ranks == job->pool.n_children);
	sml_assert(job->pool.has_slots || (!job->ready && !job->pool.started));
	for (unsigned i = 0; i < job->pool.n_children; i++) {
		sml_assert(job->pool.children[i].n_ranks >= 1);
		sml_assert(!job->pool.children[i].has_job ||
			   job->pool.children[i].waits.slots != NULL);
		sml_assert(!job->pool.children[i].ready ||
			   (job->pool.children[i].lanes >= 1 &&
			    job->pool.children[i].lanes <= job->pool.rules.lanes));
	}
}

/* ---- what its ranks are told ---- */

void sml_leaf_job_admit(const struct sml_proxied *proxied, SmlControl__Admitted *admitted)
{
	const struct sml_leaf_job *job = proxied->job;
	struct sml_jobs *jobs = job->pool.jobs;
	const struct sml_pool_rules *rules = &job->pool.rules;
	uint32_t packet = SML_HEADER_BYTES + 4u * rules->lanes;

	if (jobs->operations->window)
		admitted->window_packets =
			sml_least(admitted->window_packets ? admitted->window_packets : UINT32_MAX,
				  jobs->operations->window(jobs->dataplane, packet,
							   sml_job_pools_children(jobs)));
	admitted->omits &= rules->omits;
	/* If the parent has no other child, only this leaf knows. */
	admitted->adds_parts |= job->pool.adds_parts;
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
	return proxied->job->pool.children[proxied->child].n_ranks == 1 ||
	       (ready->shares_memory && proxied->rank == proxied->first_of_host);
}

bool sml_leaf_job_is_ready(struct sml_proxied *proxied, const SmlControl__Ready *ready)
{
	struct sml_leaf_job *job = proxied->job;
	char text[SML_SENTENCE_BYTES];
	const char *why = NULL;

	if (proxied->peer->via == NULL && sends_packets(proxied, ready))
		why = sml_job_pool_misses_address(&job->pool, proxied->child);
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
	if (!job->pool.has_slots)
		return 0;
	return job->pool.jobs->operations->parent_lanes(job->pool.jobs->dataplane,
							job->pool.rules.job);
}

static void send_probes(struct sml_leaf_job *job)
{
	static const uint16_t counts[] = SML_LANE_COUNTS;
	const struct sml_jobs *jobs = job->pool.jobs;

	job->probed_ns = jobs->now_ns;
	jobs->operations->probe_parent(jobs->dataplane, job->pool.rules.job, job->data_port,
				       job->pool.rules.lanes, 0);
	/* The first round asks only for the full width, which is enough for a healthy path. */
	for (unsigned i = 0; job->rounds > 0 && counts[i] != 0; i++)
		if (counts[i] < job->pool.rules.lanes && counts[i] > proved(job))
			jobs->operations->probe_parent(jobs->dataplane, job->pool.rules.job,
						       job->data_port, counts[i], 0);
	job->rounds++;
}

/* The lanes that all of its paths carry; 0: not known yet. */
static uint32_t agreed_lanes(const struct sml_leaf_job *job)
{
	uint32_t lanes = proved(job);

	if (lanes == 0 || (lanes < job->pool.rules.lanes && job->answered_ns == 0) ||
	    (lanes < job->pool.rules.lanes &&
	     job->pool.jobs->now_ns < job->answered_ns + ROUNDS * PROBE_NS))
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
static bool knows_parent(struct sml_leaf_job *job)
{
	const struct sml_jobs *jobs = job->pool.jobs;
	char text[SML_SENTENCE_BYTES];
	const char *why = NULL;

	if (jobs->operations->misses_parent)
		why = jobs->operations->misses_parent(jobs->dataplane, job->pool.rules.job);
	if (why == NULL)
		return true;
	snprintf(text, sizeof(text), "its parent %s %s", jobs->config.parent, why);
	sml_leaf_job_fail(job, SML_ERROR_REFUSED, text, false);
	return false;
}

void sml_leaf_job_check_ready(struct sml_leaf_job *job)
{
	SmlControl__Ready message = SML_CONTROL__READY__INIT;

	if (job->ready)
		return;
	if (job->answered_ns == 0 && proved(job) > 0)
		job->answered_ns = job->pool.jobs->now_ns;
	message.lanes = agreed_lanes(job);
	if (message.lanes == 0 || !knows_parent(job))
		return;
	job->ready = true;
	(void)sml_leaf_send(job->pool.jobs,
			    sml_envelope_of(job->pool.rules.job, READY, ready, &message));
}

static uint64_t next_probe(const struct sml_leaf_job *job)
{
	return job->rounds == 0	  ? 0
	       : job->rounds == 1 ? job->probed_ns + FIRST_PROBE_NS
				  : job->probed_ns + PROBE_NS;
}

static bool probes(const struct sml_leaf_job *job)
{
	return !job->ready && proved(job) < job->pool.rules.lanes;
}

/* ---- addresses that a NAT has changed ---- */

void sml_leaf_job_renew_rank(const struct sml_proxied *proxied, const SmlControl__Renew *in)
{
	if (proxied->job != NULL && proxied->peer->via == NULL)
		sml_job_pool_renew(&proxied->job->pool, proxied->child, in->shard, in->number);
}

static bool has_looked_enough(const struct sml_leaf_job *job)
{
	return !job->pool.started || job->pool.jobs->operations->job_counters == NULL ||
	       job->pool.jobs->now_ns < job->renewal.looked_ns + LOOK_NS;
}

/* Ranks ask for results that the parent sends, perhaps to an address that is no longer this one. */
static void look_for_results(struct sml_leaf_job *job)
{
	SmlControl__Renew message = SML_CONTROL__RENEW__INIT;
	struct sml_jobs *jobs = job->pool.jobs;
	struct sml_job_counters counters = {0};
	uint64_t sent_again, results;

	jobs->operations->job_counters(jobs->dataplane, job->pool.rules.job, &counters);
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
		message.number = job->renewal.number;
		(void)sml_leaf_send(jobs,
				    sml_envelope_of(job->pool.rules.job, RENEW, renew, &message));
	}
	/* The number may come after the first of these. */
	jobs->operations->probe_parent(jobs->dataplane, job->pool.rules.job, job->data_port, 0,
				       job->renewal.number);
}

void sml_leaf_job_start(struct sml_leaf_job *job)
{
	const struct sml_jobs *jobs = job->pool.jobs;
	char text[SML_SENTENCE_BYTES];
	int rc;

	if (job->pool.started || !job->pool.has_slots)
		return;
	rc = sml_job_pool_start(&job->pool);
	if (rc < 0) {
		snprintf(text, sizeof(text), "its kernel refuses the job's addresses: %s",
			 strerror(-rc));
		sml_leaf_job_fail(job, SML_ERROR_REFUSED, text, false);
		return;
	}
	job->renewal.looked_ns = jobs->now_ns;
	if (jobs->config.debug >= SML_LOG_TRACE)
		sml_jobs_log(jobs, SML_JOBS_INFO,
			     "job \"%s\" runs: %u children of this leaf, epoch %u, %u slots",
			     job->name, job->pool.n_children, job->pool.rules.epoch,
			     sml_job_pool_slots(&job->pool));
}

/* ---- what the parent is told about slots ---- */

void sml_leaf_job_mismatch(const struct sml_leaf_job *job, const struct sml_mismatch *mismatch)
{
	SmlControl__Mismatch message = SML_CONTROL__MISMATCH__INIT;
	uint32_t ranks[] = {mismatch->ranks[0], mismatch->ranks[1]};

	message.slot = mismatch->slot;
	message.use = mismatch->use;
	message.chunk = mismatch->chunk;
	message.ranks = ranks;
	message.n_ranks = 2;
	(void)sml_leaf_send(job->pool.jobs,
			    sml_envelope_of(job->pool.rules.job, MISMATCH, mismatch, &message));
}

static void send_slots(const struct sml_leaf_job *job)
{
	struct sml_waits_message message;
	struct sml_waits waits;
	bool known = sml_job_pool_look(&job->pool, &waits);

	sml_waits_pack(known ? &waits : NULL, SML_WAITS_ROOM, &message);
	if (known)
		sml_waits_fini(&waits);
	(void)sml_leaf_send(job->pool.jobs, sml_envelope_of(job->pool.rules.job, STALL_REPORT,
							    stall_report, &message.report));
	sml_waits_free(&message);
}

void sml_leaf_job_look_for_answers(struct sml_leaf_job *job)
{
	if (sml_job_pool_is_answered(&job->pool))
		send_slots(job);
}

void sml_leaf_job_report_slots(struct sml_leaf_job *job)
{
	job->pool.leaves_queried = true;
	sml_job_pool_ask(&job->pool);
	sml_leaf_job_look_for_answers(job);
}

/* ---- time ---- */

uint64_t sml_leaf_job_deadline(const struct sml_leaf_job *job)
{
	uint64_t due_ns = !job->pool.has_slots ? job->pool.tries_again_ns
			  : probes(job)	       ? next_probe(job)
			  : job->pool.started && job->pool.jobs->operations->job_counters
				  ? job->renewal.looked_ns + LOOK_NS
				  : UINT64_MAX;

	return sml_earlier(due_ns, sml_job_pool_answers_due(&job->pool));
}

void sml_leaf_job_tick(struct sml_leaf_job *job)
{
	check(job);
	sml_leaf_job_look_for_answers(job);
	if (!job->pool.has_slots && job->pool.jobs->now_ns >= job->pool.tries_again_ns &&
	    !sml_leaf_job_try_slots(job))
		return;
	if (!job->pool.has_slots)
		return;
	if (probes(job) && job->pool.jobs->now_ns >= next_probe(job))
		send_probes(job);
	if (!has_looked_enough(job))
		look_for_results(job);
	sml_leaf_job_check_ready(job);
}
