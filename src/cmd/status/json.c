/* SPDX-License-Identifier: BSD-3-Clause */
/* What `switchml status --json` prints of a switch; man/switchml-status.1 has its members. */
#include <jansson.h>

#include "cmd/status/status.h"

static json_t *counters_json(SmlControl__Counter **counters, size_t n)
{
	json_t *object = json_object();

	for (size_t i = 0; i < n; i++)
		json_object_set_new(object, counters[i]->name,
				    json_integer((json_int_t)counters[i]->value));
	return object;
}

/* ---- rates ---- */

static json_t *switch_rates_json(const struct sml_view *view)
{
	struct sml_switch_rates rates;

	sml_view_switch_rates(view, &rates);
	if (!rates.known)
		return json_null();
	return json_pack("{s:f, s:f, s:f, s:f, s:f}", "seconds", sml_view_seconds(view),
			 "packets_received", rates.packets_received, "packets_sent",
			 rates.packets_sent, "bytes_received", rates.bytes_received, "bytes_sent",
			 rates.bytes_sent);
}

/* Of a rank that has told its counters twice. */
static json_t *traffic_rates_json(const struct sml_rank_rates *rates)
{
	if (!rates->has_traffic)
		return json_null();
	return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "packets_sent", rates->packets_sent,
			 "packets_received", rates->packets_received, "bytes_sent",
			 rates->bytes_sent, "bytes_received", rates->bytes_received,
			 "retransmits_timeout", rates->timeouts, "retransmits_fast", rates->fast,
			 "link_share",
			 rates->link_share < 0 ? json_null() : json_real(rates->link_share));
}

static json_t *rank_rates_json(const struct sml_rank_rates *rates)
{
	if (!rates->known && !rates->has_traffic)
		return json_null();
	if (!rates->known) /* at a leaf, which has these counters */
		return json_pack("{s:n, s:n, s:n, s:o}", "contributions", "resends", "last_share",
				 "traffic", traffic_rates_json(rates));
	return json_pack("{s:f, s:f, s:f, s:o}", "contributions", rates->contributions, "resends",
			 rates->resends, "last_share", rates->last_share, "traffic",
			 traffic_rates_json(rates));
}

/* A rate of what ranks count, if they have told it. */
static json_t *told(const struct sml_job_rates *rates, double rate)
{
	return rates->has_traffic ? json_real(rate) : json_null();
}

static json_t *job_rates_json(const struct sml_job_rates *rates)
{
	if (!rates->known)
		return json_null();
	return json_pack(
		"{s:f, s:f, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s?, s:o}", "uses",
		rates->uses, "resends", rates->resends, "duplicates", rates->duplicates,
		"packets_sent", told(rates, rates->packets_sent), "packets_received",
		told(rates, rates->packets_received), "bytes_sent", told(rates, rates->bytes_sent),
		"bytes_received", told(rates, rates->bytes_received), "retransmits_timeout",
		told(rates, rates->timeouts), "retransmits_fast", told(rates, rates->fast),
		"slowest_rank", rates->slowest < 0 ? json_null() : json_integer(rates->slowest),
		"slowest_leaf", rates->slowest_leaf, "slowest_share",
		rates->slowest_share > 0 ? json_real(rates->slowest_share) : json_null());
}

static json_t *branch_rates_json(const struct sml_view *view, const SmlControl__JobStatus *job,
				 size_t n)
{
	struct sml_branch_rates rates;

	if (!sml_view_branch_rates(view, job, n, &rates))
		return json_null();
	return json_pack("{s:f, s:f, s:f}", "contributions", rates.contributions, "resends",
			 rates.resends, "last_share", rates.last_share);
}

/* ---- what it says ---- */

static json_t *traffic_json(const SmlControl__WorkerStatus *worker)
{
	const SmlControl__Traffic *traffic = worker->traffic;

	if (traffic == NULL)
		return json_null();
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "age_ms",
			 (json_int_t)worker->traffic_age_ms, "packets_sent",
			 (json_int_t)traffic->packets_sent, "packets_received",
			 (json_int_t)traffic->packets_received, "bytes_sent",
			 (json_int_t)traffic->bytes_sent, "bytes_received",
			 (json_int_t)traffic->bytes_received, "retransmits_timeout",
			 (json_int_t)traffic->retransmits_timeout, "retransmits_fast",
			 (json_int_t)traffic->retransmits_fast, "link_mbits",
			 (json_int_t)traffic->link_mbits);
}

static json_t *worker_json(const SmlControl__WorkerStatus *worker)
{
	return json_pack("{s:i, s:s, s:i, s:s, s:I, s:I, s:I, s:I, s:b, s:s, s:s, s:o, s:o}",
			 "rank", (int)worker->rank, "host", worker->host, "pid", (int)worker->pid,
			 "state", worker->state, "last_seen_ms", (json_int_t)worker->last_seen_ms,
			 "contributions", (json_int_t)worker->contributions, "resends",
			 (json_int_t)worker->resends, "completed", (json_int_t)worker->completed,
			 "by_multicast", (int)worker->by_group, "leaf", worker->leaf, "via",
			 worker->via, "sent_by",
			 worker->sender > 0 ? json_integer(worker->sender - 1) : json_null(),
			 "traffic", traffic_json(worker));
}

static json_t *branch_json(const SmlControl__BranchStatus *branch)
{
	return json_pack("{s:s, s:i, s:I, s:I, s:I}", "leaf", branch->leaf, "ranks",
			 (int)branch->ranks, "contributions", (json_int_t)branch->contributions,
			 "resends", (json_int_t)branch->resends, "completed",
			 (json_int_t)branch->completed);
}

static json_t *stripe_json(const SmlControl__StripeStatus *served)
{
	return json_pack("{s:i, s:s, s:I, s:I, s:I, s:I, s:I}", "stripe", (int)served->stripe,
			 "where", served->where, "contributions", (json_int_t)served->contributions,
			 "resends", (json_int_t)served->resends, "duplicates",
			 (json_int_t)served->duplicates, "bytes_received",
			 (json_int_t)served->bytes_received, "bytes_sent",
			 (json_int_t)served->bytes_sent);
}

/* Also of its ranks and leaves, into the objects of the job. */
static void add_rates(const struct sml_view *view, const SmlControl__JobStatus *job, json_t *object)
{
	json_t *workers = json_object_get(object, "workers");
	json_t *leaves = json_object_get(object, "leaves");
	struct sml_rank_rates *ranks = sml_view_ranks(job);
	struct sml_job_rates rates;

	if (ranks == NULL)
		return;

	sml_view_job_rates(view, job, &rates, ranks);
	json_object_set_new(object, "rates", job_rates_json(&rates));
	for (size_t i = 0; i < job->n_workers; i++)
		json_object_set_new(json_array_get(workers, i), "rates",
				    rank_rates_json(&ranks[i]));
	for (size_t i = 0; i < job->n_branches; i++)
		json_object_set_new(json_array_get(leaves, i), "rates",
				    branch_rates_json(view, job, i));
	free(ranks);
}

static json_t *job_json(const SmlControl__JobStatus *job)
{
	json_t *workers = json_array(), *stripes = json_array(), *leaves = json_array();

	for (size_t i = 0; i < job->n_workers; i++)
		json_array_append_new(workers, worker_json(job->workers[i]));
	for (size_t i = 0; i < job->n_served; i++)
		json_array_append_new(stripes, stripe_json(job->served[i]));
	for (size_t i = 0; i < job->n_branches; i++)
		json_array_append_new(leaves, branch_json(job->branches[i]));
	return json_pack(
		"{s:s, s:I, s:i, s:i, s:i, s:i, s:s, s:i, s:s, s:b, s:o, s:o, s:o, s:i, s:o}",
		"job", job->job, "job_number", (json_int_t)job->job_number, "epoch",
		(int)job->epoch, "world_size", (int)job->world_size, "lanes", (int)job->lanes,
		"slots", (int)job->slots, "state", job->state, "stripes", (int)job->stripes,
		"multicast", job->group, "shares_memory", (int)job->shares_memory, "served",
		stripes, "leaves", leaves, "workers", workers, "workers_left_out",
		(int)job->left_out, "counters", counters_json(job->counters, job->n_counters));
}

static json_t *jobs_json(const struct sml_view *view, bool with_rates)
{
	const SmlControl__Status *status = sml_view_status(view);
	json_t *jobs = json_array();

	for (size_t i = 0; i < status->n_jobs; i++) {
		json_t *job = job_json(status->jobs[i]);

		if (with_rates && job != NULL)
			add_rates(view, status->jobs[i], job);
		json_array_append_new(jobs, job);
	}
	return jobs;
}

static json_t *leaves_json(const SmlControl__Status *status)
{
	json_t *leaves = json_array();

	for (size_t i = 0; i < status->n_leaves; i++) {
		const SmlControl__LeafStatus *leaf = status->leaves[i];

		json_array_append_new(leaves, json_pack("{s:s, s:i, s:i, s:i, s:I}", "name",
							leaf->name, "ranks", (int)leaf->ranks,
							"slots", (int)leaf->slots, "slots_in_use",
							(int)leaf->slots_in_use, "last_seen_ms",
							(json_int_t)leaf->last_seen_ms));
	}
	return leaves;
}

json_t *sml_status_json(const struct sml_view *view, bool with_rates)
{
	const SmlControl__Status *status = sml_view_status(view);
	json_t *object;

	if (status == NULL)
		return json_pack("{s:s, s:s}", "address", view->address, "error", view->error);
	object = json_pack(
		"{s:s, s:n, s:s, s:s, s:i, s:I, s:i, s:i, s:i, s:s, s:b, s:i, s:o, s:o, s:o}",
		"address", view->address, "error", "version", status->version, "dataplane",
		status->dataplane, "data_port", (int)status->data_port, "uptime_ms",
		(json_int_t)status->uptime_ms, "slots", (int)status->slots, "slots_in_use",
		(int)status->slots_in_use, "max_jobs", (int)status->max_jobs, "parent",
		status->parent, "attached", (int)status->attached, "level", (int)status->level,
		"leaves", leaves_json(status), "jobs", jobs_json(view, with_rates), "counters",
		counters_json(status->counters, status->n_counters));
	if (with_rates && object != NULL)
		json_object_set_new(object, "rates", switch_rates_json(view));
	return object;
}
