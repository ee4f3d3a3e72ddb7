/* SPDX-License-Identifier: BSD-3-Clause */
/* What `switchml status` prints of a switch, for people. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "cmd/shared/columns.h"
#include "cmd/status/status.h"

/* Of a job with more, the table has the first; --json has all. */
#define MOST_RANKS 64

static void print_counters(SmlControl__Counter **counters, size_t n, const char *indent)
{
	for (size_t i = 0; i < n; i++)
		if (counters[i]->value != 0)
			printf("%s%-18s %" PRIu64 "\n", indent, counters[i]->name,
			       counters[i]->value);
}

/* The traffic of each stripe, if there are several; it shows a slow or lossy one. */
static void print_stripes(const SmlControl__JobStatus *job)
{
	/* The workers' lines show a switch's own stripe. */
	if (job->n_served == 0 || !job->served[0]->where[0])
		return;
	printf("  %6s  %-36s %14s %10s %10s %12s %12s\n", "stripe", "where", "contributions",
	       "resends", "duplicates", "MB received", "MB sent");
	for (size_t i = 0; i < job->n_served; i++) {
		const SmlControl__StripeStatus *served = job->served[i];

		printf("  %6u  %s%*s %14" PRIu64 " %10" PRIu64 " %10" PRIu64 " %12.1f %12.1f\n",
		       served->stripe, served->where, sml_columns_gap(served->where, 36), "",
		       served->contributions, served->resends, served->duplicates,
		       (double)served->bytes_received / 1e6, (double)served->bytes_sent / 1e6);
	}
}

static void print_form(const SmlControl__JobStatus *job)
{
	bool by_ranks = job->n_served > 0 && job->served[0]->where[0];

	if (job->shares_memory && job->n_served == 0)
		printf(", sharing this host's memory");
	else if (job->shares_memory)
		printf(", sharing their hosts' memory, a stripe on every host");
	else if (by_ranks && job->stripes == job->world_size)
		printf(", a stripe in every rank");
	else if (by_ranks)
		printf(", %u stripe%s in the first ranks", job->stripes, sml_plural(job->stripes));
	else if (job->stripes > 1 && job->n_served > 0)
		printf(", stripe %u of %u", job->served[0]->stripe, job->stripes);
}

static void print_worker(const SmlControl__JobStatus *job, const SmlControl__WorkerStatus *worker)
{
	const char *host = worker->host[0] ? worker->host : "-";

	/* A rank that has not come has no process. */
	if (worker->pid == 0) {
		printf("  %4u  %s%*s %8s  %-8s %10s %14s %10s\n", worker->rank, host,
		       sml_columns_gap(host, 20), "", "-", worker->state, "-", "-", "-");
		return;
	}
	printf("  %4u  %s%*s %8u  %-8s %7" PRIu64 " ms ", worker->rank, host,
	       sml_columns_gap(host, 20), "", worker->pid, worker->state, worker->last_seen_ms);
	/* Its switch has its counters. */
	if (worker->via[0])
		printf("at the leaf %s of the leaf %s", worker->leaf, worker->via);
	else if (worker->leaf[0])
		printf("at the leaf %s", worker->leaf);
	else
		printf("%14" PRIu64 " %10" PRIu64, worker->contributions, worker->resends);
	if (sml_view_host_group(job, worker) > 0)
		printf("  rank %u sends", worker->sender - 1);
	printf("\n");
}

/* What the leaves of this switch contribute to the job. */
static void print_branches(const SmlControl__JobStatus *job)
{
	for (size_t i = 0; i < job->n_branches; i++) {
		const SmlControl__BranchStatus *branch = job->branches[i];

		printf("  leaf %s with %u rank%s: %" PRIu64 " contributions, %" PRIu64 " resends\n",
		       branch->leaf, branch->ranks, sml_plural(branch->ranks),
		       branch->contributions, branch->resends);
	}
}

static void print_left_out(size_t n)
{
	if (n > 0)
		printf("  and %zu more rank%s\n", n, sml_plural(n));
}

/* Of many ranks: how many are where. */
static void print_places(const SmlControl__JobStatus *job)
{
	for (size_t i = 0; i < job->n_workers; i++) {
		const char *leaf = job->workers[i]->leaf;
		size_t n = 0, before = 0;

		while (before < i && strcmp(job->workers[before]->leaf, leaf) != 0)
			before++;
		for (size_t j = i; before == i && j < job->n_workers; j++)
			n += strcmp(job->workers[j]->leaf, leaf) == 0;
		if (before == i)
			printf("  %zu rank%s %s %s\n", n, sml_plural(n),
			       leaf[0] ? "at the leaf" : "at this switch", leaf);
	}
}

static void print_workers(const SmlControl__JobStatus *job)
{
	size_t n = job->n_workers < MOST_RANKS ? job->n_workers : MOST_RANKS;

	if (job->n_workers > MOST_RANKS)
		print_places(job);
	printf("  %4s  %-20s %8s  %-8s %10s %14s %10s\n", "rank", "host", "pid", "state",
	       "last seen", "contributions", "resends");
	for (size_t i = 0; i < n; i++)
		print_worker(job, job->workers[i]);
	print_left_out(job->n_workers - n + job->left_out);
	print_branches(job);
}

/* Of an elastic job. */
static void print_change(const SmlControl__JobStatus *job)
{
	if (job->changes > 0)
		printf("  follows job \"%s\": change %u of the members, %u joined, %u left\n",
		       job->follows, job->changes, job->joined, job->left);
	if (job->waiting > 0)
		printf("  %u process%s to join it\n", job->waiting,
		       job->waiting == 1 ? " waits" : "es wait");
}

static void print_job(const SmlControl__JobStatus *job)
{
	printf("\njob \"%s\": %s, %u rank%s", job->job, job->state, job->world_size,
	       sml_plural(job->world_size));
	print_form(job);
	/* Before all ranks are here, nobody knows how long packets are. */
	if (job->lanes == 0)
		printf(", %u slot%s reserved\n", job->slots, sml_plural(job->slots));
	else
		printf(", epoch %u, %u slot%s of %u lanes\n", job->epoch, job->slots,
		       sml_plural(job->slots), job->lanes);
	print_change(job);
	print_workers(job);
	print_stripes(job);
	print_counters(job->counters, job->n_counters, "  ");
}

static void print_head(const struct sml_view *view)
{
	const SmlControl__Status *status = sml_view_status(view);
	char kept[SML_VIEW_KEPT_BYTES];

	printf("%s: switchml %s, %s dataplane, up %.1f s: %u of %u slots in use, %zu of %u "
	       "job%s%s\n",
	       view->address, status->version, status->dataplane, (double)status->uptime_ms / 1e3,
	       status->slots_in_use, status->slots, status->n_jobs, status->max_jobs,
	       sml_plural(status->max_jobs), sml_view_kept(status, kept));
}

/* The switches next to it in a tree. */
static void print_tree(const SmlControl__Status *status)
{
	if (status->parent[0])
		printf("  a leaf of the parent %s, %s\n", status->parent,
		       status->attached ? "attached" : "which it cannot reach");
	for (size_t i = 0; i < status->n_leaves; i++) {
		const SmlControl__LeafStatus *leaf = status->leaves[i];

		printf("  leaf %s: %u rank%s, %u of %u slots in use, last seen %" PRIu64
		       " ms ago\n",
		       leaf->name, leaf->ranks, sml_plural(leaf->ranks), leaf->slots_in_use,
		       leaf->slots, leaf->last_seen_ms);
	}
}

static void print_waiting(const SmlControl__WaitingProcess *process)
{
	char was[32] = "";

	if (!process->joins)
		snprintf(was, sizeof(was), " was rank %u and", process->rank);
	printf("  host %s, pid %u:%s waits to be in the next membership of job \"%s\", for %" PRIu64
	       " ms\n",
	       process->host, process->pid, was, process->job, process->waiting_ms);
}

void sml_status_print(const struct sml_view *view)
{
	const SmlControl__Status *status = sml_view_status(view);

	print_head(view);
	print_tree(status);
	print_counters(status->counters, status->n_counters, "  ");
	for (size_t i = 0; i < status->n_waiting; i++)
		print_waiting(status->waiting[i]);
	for (size_t i = 0; i < status->n_jobs; i++)
		print_job(status->jobs[i]);
}

/* ---- rates ---- */

static void print_share(double share)
{
	if (share < 0)
		printf(" %6s", "-");
	else
		printf(" %5.1f%%", 100 * share);
}

static void print_rank_rates(const SmlControl__WorkerStatus *worker,
			     const struct sml_rank_rates *rates)
{
	const struct sml_traffic_rates *traffic = &rates->traffic;

	printf("  %4u  %s%*s ", worker->rank, worker->host, sml_columns_gap(worker->host, 20), "");
	if (traffic->known)
		printf("%10.2f %10.2f %10.0f %8.1f %8.1f", traffic->bytes_sent / 1e6,
		       traffic->bytes_received / 1e6,
		       traffic->packets_sent + traffic->packets_received, traffic->timeouts,
		       traffic->fast);
	else
		printf("%10s %10s %10s %8s %8s", "-", "-", "-", "-", "-");
	if (rates->known)
		printf(" %9.1f", rates->resends);
	else
		printf(" %9s", "-");
	print_share(rates->waited_share);
	print_share(traffic->known ? rates->link_share : -1);
	printf("\n");
}

static void print_branch_rates(const struct sml_view *view, const SmlControl__JobStatus *job)
{
	struct sml_branch_rates rates;

	for (size_t i = 0; i < job->n_branches; i++) {
		const SmlControl__BranchStatus *branch = job->branches[i];

		if (sml_view_branch_rates(view, job, branch, &rates))
			printf("  leaf %s with %u rank%s: %.0f contributions/s, lost/s %.1f, "
			       "waited for %.1f%%\n",
			       branch->leaf, branch->ranks, sml_plural(branch->ranks),
			       rates.contributions, rates.resends, 100 * rates.waited_share);
	}
}

static void print_job_rates(const struct sml_view *view, const SmlControl__JobStatus *job)
{
	struct sml_rank_rates *ranks = sml_view_ranks(job);
	size_t n = job->n_workers < MOST_RANKS ? job->n_workers : MOST_RANKS;
	struct sml_job_rates rates;

	if (ranks == NULL)
		return;
	sml_view_job_rates(view, job, &rates, ranks);
	printf("job \"%s\": %s, %u rank%s", job->job, job->state, job->world_size,
	       sml_plural(job->world_size));
	if (!rates.known) {
		printf(", no rates yet\n");
		free(ranks);
		return;
	}
	printf(", %.0f uses/s", rates.uses);
	if (rates.slowest_leaf != NULL)
		printf(", the others waited for the leaf %s for %.0f %% of the time",
		       rates.slowest_leaf, 100 * rates.slowest_share);
	else if (rates.slowest >= 0)
		printf(", the others waited for rank %d for %.0f %% of the time", rates.slowest,
		       100 * rates.slowest_share);
	printf("; came again: %.1f/s because the result was lost, %.1f/s while ranks were "
	       "missing\n",
	       rates.resends, rates.duplicates);
	printf("  %4s  %-20s %10s %10s %10s %8s %8s %9s %6s %6s\n", "rank", "host", "MB/s sent",
	       "received", "packets/s", "timer/s", "later/s", "lost/s", "waited", "link");
	for (size_t i = 0; i < n; i++)
		print_rank_rates(job->workers[i], &ranks[i]);
	print_left_out(job->n_workers - n + job->left_out);
	print_branch_rates(view, job);
	free(ranks);
}

void sml_status_print_rates(const struct sml_view *view)
{
	const SmlControl__Status *status = sml_view_status(view);
	struct sml_switch_rates rates;

	sml_view_switch_rates(view, &rates);
	printf("\n");
	print_head(view);
	print_tree(status);
	if (rates.packets_received + rates.packets_sent > 0)
		printf("  %.2f MB/s and %.0f packets/s received, %.2f MB/s and %.0f packets/s "
		       "sent\n",
		       rates.bytes_received / 1e6, rates.packets_received, rates.bytes_sent / 1e6,
		       rates.packets_sent);
	for (size_t i = 0; i < status->n_jobs; i++)
		print_job_rates(view, status->jobs[i]);
}
