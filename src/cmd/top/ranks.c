/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/top/screen.h"

#include <ncurses.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"

#define NAME_COLUMNS 40 /* at most, of a rank and its host */
#define NAME_BYTES   160

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

unsigned sml_top_count_hosts(const SmlControl__JobStatus *job)
{
	const char **names = calloc(job->n_workers + 1, sizeof(const char *));
	unsigned n = 0;

	if (names == NULL)
		return 0;
	for (size_t i = 0; i < job->n_workers; i++)
		names[i] = job->workers[i]->host;
	qsort(names, job->n_workers, sizeof(const char *), compare_names);
	for (size_t i = 0; i < job->n_workers; i++)
		n += i == 0 || strcmp(names[i - 1], names[i]) != 0;
	free(names);
	return n;
}

struct rank {
	const SmlControl__WorkerStatus *worker;
	const struct sml_rank_rates *rates;
	double key;
};

/* For qsort(), which has no context. */
static bool sort_by_position;

/* A rank's place in the tree: a leaf of the switch, a leaf of that leaf, a host; "": none. */
#define DEPTH 3

static const char *position_at(const struct rank *rank, int depth)
{
	const SmlControl__WorkerStatus *worker = rank->worker;

	if (depth == DEPTH - 1)
		return worker->host;
	if (depth == 0)
		return worker->via[0] ? worker->via : worker->leaf;
	return worker->via[0] ? worker->leaf : "";
}

/* As far as this depth. */
static int compare_positions(const struct rank *one, const struct rank *other, int depth)
{
	int order = 0;

	for (int i = 0; i <= depth && order == 0; i++)
		order = strcmp(position_at(one, i), position_at(other, i));
	return order;
}

static int compare_ranks(const void *a, const void *b)
{
	const struct rank *one = a, *other = b;
	int order = sort_by_position ? compare_positions(one, other, DEPTH - 1) : 0;

	if (order == 0)
		order = sml_top_compare(one->key, other->key);
	return order != 0 ? order : sml_top_compare(other->worker->rank, one->worker->rank);
}

/* How often the others wait for a rank stays however narrow the screen is. */
static const struct sml_column rank_columns[] = {
	{"RANK HOST", 17, 0, true}, {"STATE", 8, 8, true},	{"MB/S OUT", 8, 9, false},
	{"MB/S IN", 8, 7, false},   {"PACKETS/S", 9, 1, false}, {"TIMER/S", 7, 3, false},
	{"LATER/S", 7, 2, false},   {"LOST/S", 7, 5, false},	{"WAITED", 6, 0, false},
	{"LINK", 5, 6, false},	    {"SEEN S", 8, 4, false},
};
#define RANK_COLUMNS (sizeof(rank_columns) / sizeof(rank_columns[0]))
/* What a leaf or a host has instead of the rest. */
#define FIRST_NUMBER 2
#define TRAFFIC	     5
#define END_OF_SUMS  9

/* The cells from MB/S OUT to LATER/S. */
static void set_traffic(const char *cells[TRAFFIC], char t[TRAFFIC][16],
			const struct sml_traffic_rates *rates)
{
	cells[0] = sml_top_number(t[0], rates->known, rates->bytes_sent / 1e6);
	cells[1] = sml_top_number(t[1], rates->known, rates->bytes_received / 1e6);
	cells[2] =
		sml_top_number(t[2], rates->known, rates->packets_sent + rates->packets_received);
	cells[3] = sml_top_number(t[3], rates->known, rates->timeouts);
	cells[4] = sml_top_number(t[4], rates->known, rates->fast);
}

/* indent: where the rank begins in the tree; 0: it is in a list, with its host. */
static void draw_rank(int y, int indent, const struct rank *rank, const struct sml_columns *layout)
{
	const struct sml_rank_rates *rates = rank->rates;
	char t[8][16], host[NAME_BYTES], who[NAME_BYTES + 16], seen[16];

	if (indent > 0)
		snprintf(who, sizeof(who), "%*srank %u", indent, "", rank->worker->rank);
	else
		snprintf(who, sizeof(who), "%4u %s", rank->worker->rank,
			 sml_top_plain(host, sizeof(host), rank->worker->host));
	/* A rank that has not come was never seen. */
	snprintf(seen, sizeof(seen), rank->worker->pid ? "%.1f" : "-",
		 (double)rank->worker->last_seen_ms / 1e3);
	const char *cells[RANK_COLUMNS] = {
		who,
		rank->worker->state,
		[FIRST_NUMBER + TRAFFIC] = sml_top_number(t[5], rates->known, rates->resends),
		sml_top_share(t[6], rates->waited_share),
		sml_top_share(t[7], rates->traffic.known ? rates->link_share : -1),
		seen,
	};

	set_traffic(cells + FIRST_NUMBER, t, &rates->traffic);
	sml_top_draw_cells(y, false, layout, cells);
}

/* Does one of these ranks send for all of them? */
static bool send_as_one(const struct rank *ranks, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (ranks[i].worker->sender != ranks->worker->sender)
			return false;
	return n > 1 && ranks->worker->sender > 0;
}

/* A leaf or a host, with the sums of its n ranks. */
static void draw_branch(int y, int indent, int depth, const struct sml_top_row *row,
			const struct rank *ranks, size_t n, const struct sml_columns *layout)
{
	struct sml_traffic_rates sum = {.known = false};
	struct sml_branch_rates leaf = {.resends = 0};
	const SmlControl__BranchStatus *branch =
		depth == 0 ? sml_view_branch(row->job, position_at(ranks, depth)) : NULL;
	bool is_leaf = branch && sml_view_branch_rates(row->view, row->job, branch, &leaf);
	const int room = sml_columns_width(layout, 0, FIRST_NUMBER) - indent - 3;
	char name[NAME_BYTES], sends[32] = "", t[8][16];
	char line[SML_COLUMNS_LINE];
	size_t length;

	for (size_t i = 0; i < n; i++)
		sml_view_add_traffic(&sum, &ranks[i].rates->traffic);
	if (depth == DEPTH - 1 && send_as_one(ranks, n))
		snprintf(sends, sizeof(sends), ", rank %u sends", ranks->worker->sender - 1);
	const char *cells[END_OF_SUMS - FIRST_NUMBER] = {
		[TRAFFIC] = sml_top_number(t[5], is_leaf, leaf.resends),
		is_leaf ? sml_top_share(t[6], leaf.waited_share) : "-",
	};

	set_traffic(cells, t, &sum);
	sml_top_plain(name, sizeof(name), position_at(ranks, depth));
	length = (size_t)snprintf(line, sizeof(line), "%*s+- ", indent, "");
	length += sml_columns_put(line + length, sizeof(line) - length, name, room);
	length = sml_columns_add(layout, FIRST_NUMBER, END_OF_SUMS, cells, line, length);
	snprintf(line + length, sizeof(line) - length, "  %zu rank%s%s", n, sml_plural(n), sends);
	sml_top_put(y, false, line);
}

/* Lines of a table: the first ones are above the screen. */
struct lines {
	int y, end, skip;
};

static bool has_line(struct lines *lines)
{
	return lines->skip-- <= 0 && lines->y < lines->end;
}

static void draw_tree(struct lines *lines, const struct sml_top_row *row, const struct rank *ranks,
		      size_t n, const struct sml_columns *layout)
{
	if (has_line(lines))
		sml_top_print(lines->y++, false, "%s", row->view->address);
	for (size_t i = 0; i < n; i++) {
		int indent = 2;

		for (int depth = 0; depth < DEPTH; depth++) {
			size_t same = i + 1;

			if (*position_at(&ranks[i], depth) == '\0')
				continue;
			indent += 2;
			if (i > 0 && compare_positions(&ranks[i - 1], &ranks[i], depth) == 0)
				continue;
			while (same < n && compare_positions(&ranks[i], &ranks[same], depth) == 0)
				same++;
			if (has_line(lines))
				draw_branch(lines->y++, indent - 2, depth, row, &ranks[i], same - i,
					    layout);
		}
		if (has_line(lines))
			draw_rank(lines->y++, indent, &ranks[i], layout);
	}
}

/* What the job is, and whom its ranks wait for. Returns the line after it. */
static int draw_summary(const struct sml_top_row *row, const struct sml_job_rates *rates, int y)
{
	const SmlControl__JobStatus *job = row->job;
	unsigned n_hosts = sml_top_count_hosts(job);
	char name[64], lanes[32] = "";

	if (job->lanes != 0)
		snprintf(lanes, sizeof(lanes), " of %u lanes", job->lanes);
	sml_top_print(y++, false, "job %s at %s: %s, %u rank%s on %u host%s, epoch %u, %u slot%s%s",
		      sml_top_plain(name, sizeof(name), job->job), row->view->address, job->state,
		      job->world_size, sml_plural(job->world_size), n_hosts, sml_plural(n_hosts),
		      job->epoch, job->slots, sml_plural(job->slots), lanes);
	if (job->changes > 0)
		sml_top_print(y++, false,
			      "follows job %s: change %u of the members, %u joined, %u left",
			      sml_top_plain(name, sizeof(name), job->follows), job->changes,
			      job->joined, job->left);
	if (job->waiting > 0)
		sml_top_print(y++, false, "%u process%s to join it", job->waiting,
			      job->waiting == 1 ? " waits" : "es wait");
	if (rates->slowest_leaf != NULL)
		sml_top_print(y++, false,
			      "slowest: the others waited for the leaf %s for %.0f%% of the time",
			      rates->slowest_leaf, 100 * rates->slowest_share);
	else if (rates->slowest >= 0)
		sml_top_print(y++, false,
			      "slowest: the others waited for rank %d for %.0f%% of the time",
			      rates->slowest, 100 * rates->slowest_share);
	else
		y++;
	return y;
}

void sml_top_draw_ranks(struct sml_top_screen *screen, const struct sml_top_row *row, int y,
			int end)
{
	struct sml_rank_rates *rates = sml_view_ranks(row->job);
	size_t n = row->job->n_workers;
	struct rank *ranks = calloc(n + 1, sizeof(*ranks));
	const struct sml_columns layout =
		sml_columns_fit(rank_columns, RANK_COLUMNS, NAME_COLUMNS, COLS - 1);
	struct lines lines = {.end = end};
	struct sml_job_rates job;

	if (rates == NULL || ranks == NULL)
		goto free_ranks;
	sml_view_job_rates(row->view, row->job, &job, rates);
	for (size_t i = 0; i < n; i++)
		ranks[i] = (struct rank){row->job->workers[i], &rates[i],
					 sml_top_key_of(screen->sort, &rates[i].traffic,
							rates[i].resends, rates[i].waited_share)};
	sort_by_position = screen->is_tree;
	qsort(ranks, n, sizeof(ranks[0]), compare_ranks);
	y = draw_summary(row, &job, y);
	sml_top_draw_heads(y++, &layout);
	/* The switch, and at most two leaves, a host and a line for each rank. */
	if (screen->first > (DEPTH + 1) * (int)n)
		screen->first = (DEPTH + 1) * (int)n;
	lines.y = y;
	lines.skip = screen->first;
	if (screen->is_tree)
		draw_tree(&lines, row, ranks, n, &layout);
	for (size_t i = 0; !screen->is_tree && i < n; i++)
		if (has_line(&lines))
			draw_rank(lines.y++, 0, &ranks[i], &layout);
free_ranks:
	free(ranks);
	free(rates);
}
