/* SPDX-License-Identifier: BSD-3-Clause */
/* See view.h. A counter that has become smaller gives the rate 0. */
#include "cmd/shared/view.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cmd/shared/status_client.h"

/*
 * Bytes of a packet on the wire that its UDP payload does not have: Ethernet's gap, preamble,
 * header and checksum, IPv4 and UDP.
 */
#define FRAME_BYTES 66

/* ---- answers ---- */

static void forget(SmlControl__Envelope *answer)
{
	if (answer != NULL)
		sml_control__envelope__free_unpacked(answer, NULL);
}

void sml_view_take(struct sml_view *view, SmlControl__Envelope *answer)
{
	/* After a failure, too: who answers next may be another switch. */
	forget(view->before);
	view->before = view->now;
	view->now = answer;
	if (answer != NULL)
		view->error[0] = '\0';
}

int sml_view_query(struct sml_view *view, int timeout_ms)
{
	SmlControl__Envelope *answer = NULL;
	struct sml_status_client client;
	int rc = sml_status_client_open(&client, view->address, timeout_ms);
	bool is_open = rc == 0;

	if (rc == 0)
		rc = sml_status_client_query(&client, &answer);
	view->fix = client.fix;
	/* Where it could not be opened, the text names the address already. */
	if (rc < 0)
		snprintf(view->error, sizeof(view->error), "%s%s%s", is_open ? view->address : "",
			 is_open ? ": " : "", client.talk.text);
	sml_status_client_close(&client);
	sml_view_take(view, answer);
	return rc;
}

const char *sml_view_fix(const struct sml_view *view)
{
	if (view->fix == NULL)
		return "";
	if (view->is_rank_0)
		return "without --switch and SWITCHML_SWITCH, this command asks rank 0 of a job "
		       "without a switch: name the switch, or name rank 0's host with "
		       "SWITCHML_MASTER_ADDR and SWITCHML_MASTER_PORT";
	return view->fix;
}

void sml_view_free(struct sml_view *view)
{
	forget(view->now);
	forget(view->before);
	view->now = view->before = NULL;
}

/* ---- rates ---- */

static double seconds_between(uint64_t before_ms, uint64_t now_ms)
{
	return now_ms > before_ms ? (double)(now_ms - before_ms) / 1e3 : 0;
}

double sml_view_seconds(const struct sml_view *view)
{
	if (view->now == NULL || view->before == NULL)
		return 0;
	return seconds_between(view->before->status->uptime_ms, view->now->status->uptime_ms);
}

/* The seconds are more than 0. */
static double rate(uint64_t before, uint64_t now, double seconds)
{
	return now > before ? (double)(now - before) / seconds : 0;
}

/* 0 if there is no such counter. */
static uint64_t counter_of(SmlControl__Counter *const *counters, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(counters[i]->name, name) == 0)
			return counters[i]->value;
	return 0;
}

static double switch_rate(const struct sml_view *view, const char *name)
{
	const SmlControl__Status *before = view->before->status, *now = view->now->status;

	return rate(counter_of(before->counters, before->n_counters, name),
		    counter_of(now->counters, now->n_counters, name), sml_view_seconds(view));
}

void sml_view_switch_rates(const struct sml_view *view, struct sml_switch_rates *rates)
{
	*rates = (struct sml_switch_rates){.known = sml_view_seconds(view) > 0};
	if (!rates->known)
		return;
	rates->seconds = sml_view_seconds(view);
	rates->packets_received = switch_rate(view, "packets-received");
	rates->packets_sent = switch_rate(view, "packets-sent");
	rates->bytes_received = switch_rate(view, "bytes-received");
	rates->bytes_sent = switch_rate(view, "bytes-sent");
}

/* The same job in the answer before. A new epoch has fresh counters. */
static const SmlControl__JobStatus *job_before(const struct sml_view *view,
					       const SmlControl__JobStatus *job)
{
	const SmlControl__Status *before = view->before->status;

	for (size_t i = 0; i < before->n_jobs; i++)
		if (before->jobs[i]->job_number == job->job_number &&
		    before->jobs[i]->epoch == job->epoch &&
		    before->jobs[i]->n_workers == job->n_workers &&
		    strcmp(before->jobs[i]->job, job->job) == 0)
			return before->jobs[i];
	return NULL;
}

static double link_share(const struct sml_traffic_rates *rates, uint32_t link_mbits)
{
	double sent = rates->bytes_sent + FRAME_BYTES * rates->packets_sent;
	double received = rates->bytes_received + FRAME_BYTES * rates->packets_received;

	if (link_mbits == 0)
		return -1;
	return (sent > received ? sent : received) * 8 / (link_mbits * 1e6);
}

/* The part of the interval for which the others waited. Reports are not quite as old as answers. */
static double waited_share(uint64_t then_ms, uint64_t now_ms, double seconds)
{
	double share = rate(then_ms, now_ms, seconds) / 1000;

	return share < 1 ? share : 1;
}

/* A rank tells its counters only now and then: its interval is from one time to another. */
static void add_traffic(const struct sml_view *view, const SmlControl__WorkerStatus *before,
			const SmlControl__WorkerStatus *now, struct sml_rank_rates *rates)
{
	const SmlControl__Traffic *then = before->traffic, *traffic = now->traffic;
	struct sml_traffic_rates *moved = &rates->traffic;
	double seconds = seconds_between(view->before->status->uptime_ms - before->traffic_age_ms,
					 view->now->status->uptime_ms - now->traffic_age_ms);

	if (then == NULL || traffic == NULL || seconds <= 0)
		return;
	moved->known = true;
	moved->packets_sent = rate(then->packets_sent, traffic->packets_sent, seconds);
	moved->packets_received = rate(then->packets_received, traffic->packets_received, seconds);
	moved->bytes_sent = rate(then->bytes_sent, traffic->bytes_sent, seconds);
	moved->bytes_received = rate(then->bytes_received, traffic->bytes_received, seconds);
	moved->timeouts = rate(then->retransmits_timeout, traffic->retransmits_timeout, seconds);
	moved->fast = rate(then->retransmits_fast, traffic->retransmits_fast, seconds);
	rates->link_share = link_share(moved, traffic->link_mbits);
	rates->waited_inside = waited_share(then->waited_ms, traffic->waited_ms, seconds);
}

static void rank_rates(const struct sml_view *view, const SmlControl__WorkerStatus *before,
		       const SmlControl__WorkerStatus *now, struct sml_rank_rates *rates)
{
	double seconds = sml_view_seconds(view);

	/* The leaf counts what a rank behind it contributes. */
	rates->known = now->leaf[0] == '\0';
	rates->contributions = rate(before->contributions, now->contributions, seconds);
	rates->resends = rate(before->resends, now->resends, seconds);
	add_traffic(view, before, now, rates);
}

void sml_view_add_traffic(struct sml_traffic_rates *sum, const struct sml_traffic_rates *more)
{
	sum->known |= more->known;
	sum->packets_sent += more->packets_sent;
	sum->packets_received += more->packets_received;
	sum->bytes_sent += more->bytes_sent;
	sum->bytes_received += more->bytes_received;
	sum->timeouts += more->timeouts;
	sum->fast += more->fast;
}

const SmlControl__BranchStatus *sml_view_branch(const SmlControl__JobStatus *job, const char *leaf)
{
	for (size_t i = 0; i < job->n_branches; i++)
		if (strcmp(job->branches[i]->leaf, leaf) == 0)
			return job->branches[i];
	return NULL;
}

static bool branch_rates(const SmlControl__JobStatus *before, const SmlControl__BranchStatus *now,
			 double seconds, struct sml_branch_rates *rates)
{
	const SmlControl__BranchStatus *then = before ? sml_view_branch(before, now->leaf) : NULL;

	*rates = (struct sml_branch_rates){.contributions = 0};
	if (then == NULL)
		return false;
	rates->contributions = rate(then->contributions, now->contributions, seconds);
	rates->resends = rate(then->resends, now->resends, seconds);
	rates->waited_share = waited_share(then->waited_ms, now->waited_ms, seconds);
	return true;
}

/*
 * The first rank of a host stands for it at the switch. While others waited for the host, its own
 * ranks waited for one of them: what is left is the first one's.
 */
static double waited_for_host(const SmlControl__JobStatus *before, const SmlControl__JobStatus *now,
			      size_t first, double seconds, const struct sml_rank_rates *ranks)
{
	const SmlControl__WorkerStatus *worker = now->workers[first];
	double share = waited_share(before->workers[first]->waited_ms, worker->waited_ms, seconds);

	for (size_t i = 0; i < now->n_workers && share > 0 && worker->sender > 0; i++)
		if (now->workers[i]->sender == worker->sender)
			share -= ranks[i].waited_inside;
	return share > 0 ? share : 0;
}

/* For which rank or leaf did the others wait longest? */
static void find_slowest(const SmlControl__JobStatus *before, const SmlControl__JobStatus *now,
			 double seconds, struct sml_job_rates *rates, struct sml_rank_rates *ranks)
{
	double most = 0;

	for (size_t i = 0; i < now->n_workers; i++) {
		double share =
			ranks[i].waited_inside + waited_for_host(before, now, i, seconds, ranks);

		/* Only its leaf knows for how long the others waited there. */
		ranks[i].waited_share = ranks[i].known || share > 0 ? share : -1;
		if (share > most) {
			most = rates->slowest_share = share;
			rates->slowest = (int)now->workers[i]->rank;
		}
	}
	for (size_t i = 0; i < now->n_branches; i++) {
		struct sml_branch_rates leaf;

		if (branch_rates(before, now->branches[i], seconds, &leaf) &&
		    leaf.waited_share > most) {
			most = rates->slowest_share = leaf.waited_share;
			rates->slowest = -1;
			rates->slowest_leaf = now->branches[i]->leaf;
		}
	}
}

/* Where ranks have the slots, each stripe tells its own. */
static SmlControl__StripeStatus sum_of_stripes(const SmlControl__JobStatus *job)
{
	SmlControl__StripeStatus sum = SML_CONTROL__STRIPE_STATUS__INIT;

	for (size_t i = 0; i < job->n_served; i++) {
		sum.completed += job->served[i]->completed;
		sum.resends += job->served[i]->resends;
		sum.duplicates += job->served[i]->duplicates;
	}
	return sum;
}

void sml_view_job_rates(const struct sml_view *view, const SmlControl__JobStatus *job,
			struct sml_job_rates *rates, struct sml_rank_rates *ranks)
{
	const double seconds = sml_view_seconds(view);
	const SmlControl__JobStatus *before = seconds > 0 ? job_before(view, job) : NULL;
	SmlControl__StripeStatus then, now;

	*rates = (struct sml_job_rates){
		.known = before != NULL, .slowest = -1, .slowest_share = -1, .link_share = -1};
	for (size_t i = 0; i < job->n_workers; i++)
		ranks[i] = (struct sml_rank_rates){.link_share = -1, .waited_share = -1};
	if (before == NULL)
		return;
	for (size_t i = 0; i < job->n_workers; i++) {
		rank_rates(view, before->workers[i], job->workers[i], &ranks[i]);
		sml_view_add_traffic(&rates->traffic, &ranks[i].traffic);
		if (ranks[i].link_share > rates->link_share)
			rates->link_share = ranks[i].link_share;
	}
	find_slowest(before, job, seconds, rates, ranks);
	then = sum_of_stripes(before);
	now = sum_of_stripes(job);
	rates->uses = rate(then.completed, now.completed, seconds);
	rates->resends = rate(then.resends, now.resends, seconds);
	rates->duplicates = rate(then.duplicates, now.duplicates, seconds);
}

bool sml_view_branch_rates(const struct sml_view *view, const SmlControl__JobStatus *job,
			   const SmlControl__BranchStatus *branch, struct sml_branch_rates *rates)
{
	const double seconds = sml_view_seconds(view);

	return branch_rates(seconds > 0 ? job_before(view, job) : NULL, branch, seconds, rates);
}

/* ---- hosts ---- */

size_t sml_view_host_group(const SmlControl__JobStatus *job, const SmlControl__WorkerStatus *worker)
{
	size_t n = 0;

	for (size_t i = 0; i < job->n_workers && worker->sender > 0; i++)
		n += job->workers[i]->sender == worker->sender;
	return n > 1 ? n : 0;
}
