/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See screen.h. Each line is made in memory and cut off at the screen's right edge. Tables are made
 * to fit (columns.h).
 */
#include "cmd/top/screen.h"

#include <ncurses.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/plural.h"
#include "cmd/shared/columns.h"

#define LINE_BYTES 512
#define ESCAPE	   27

/* ---- lines ---- */

/* Nothing is written outside the screen, however small it is. */
static void put(int y, bool marked, const char *text)
{
	if (y < 0 || y >= LINES || COLS <= 1)
		return;
	if (marked)
		attron(A_REVERSE);
	mvaddnstr(y, 0, text, COLS - 1);
	if (marked)
		attroff(A_REVERSE);
}

__attribute__((format(printf, 3, 4))) static void print(int y, bool marked, const char *format, ...)
{
	char line[LINE_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	put(y, marked, line);
}

/* Columns need one byte for each character. */
static const char *plain(char *to, size_t bytes, const char *from)
{
	size_t n = 0;

	for (; *from != '\0' && n + 1 < bytes; from++)
		to[n++] = *from >= ' ' && *from <= '~' ? *from : '?';
	to[n] = '\0';
	return to;
}

static const char *share(char text[16], double value)
{
	if (value < 0)
		return "-";
	snprintf(text, 16, "%.0f%%", 100 * value);
	return text;
}

static const char *number(char text[16], bool known, double value)
{
	if (!known)
		return "-";
	snprintf(text, 16, value < 100 ? "%.1f" : "%.0f", value);
	return text;
}

/* ---- rows ---- */

static double again(const struct sml_job_rates *rates)
{
	return rates->timeouts + rates->fast + rates->resends + rates->duplicates;
}

static enum sml_top_sort sort_of_rows; /* for qsort(), which has no context */

static int compare(double a, double b)
{
	return (a < b) - (a > b);
}

static int compare_rows(const void *a, const void *b)
{
	const struct sml_top_row *one = a, *other = b;
	int order = 0;

	if (sort_of_rows == SML_TOP_BY_BYTES)
		order = compare(one->rates.bytes_sent + one->rates.bytes_received,
				other->rates.bytes_sent + other->rates.bytes_received);
	else if (sort_of_rows == SML_TOP_BY_AGAIN)
		order = compare(again(&one->rates), again(&other->rates));
	else if (sort_of_rows == SML_TOP_BY_LAST)
		order = compare(one->rates.slowest_share, other->rates.slowest_share);
	if (order == 0)
		order = strcmp(one->job->job, other->job->job);
	if (order == 0)
		order = strcmp(one->view->address, other->view->address);
	return order != 0 ? order : compare(other->job->job_number, one->job->job_number);
}

static bool is_chosen(const struct sml_top_screen *screen, const struct sml_top_row *row)
{
	return row->job->job_number == screen->number && strcmp(row->job->job, screen->name) == 0 &&
	       strcmp(row->view->address, screen->address) == 0;
}

static void choose(struct sml_top_screen *screen, const struct sml_top_row *row)
{
	snprintf(screen->name, sizeof(screen->name), "%s", row->job->job);
	snprintf(screen->address, sizeof(screen->address), "%s", row->view->address);
	screen->number = row->job->job_number;
}

static void look_at_job(struct sml_top_row *row)
{
	struct sml_rank_rates *ranks = sml_view_ranks(row->job);

	row->rates = (struct sml_job_rates){.slowest = -1, .slowest_share = -1, .link_share = -1};
	if (ranks != NULL)
		sml_view_job_rates(row->view, row->job, &row->rates, ranks);
	free(ranks);
}

/* The selection follows its job, when rows move. */
static void gather(struct sml_top_screen *screen, const struct sml_view *views, size_t n)
{
	screen->n_rows = 0;
	for (size_t i = 0; i < n; i++) {
		const SmlControl__Status *status = sml_view_status(&views[i]);

		for (size_t j = 0; status != NULL && j < status->n_jobs; j++) {
			struct sml_top_row *row = &screen->rows[screen->n_rows];

			if (screen->n_rows == SML_TOP_ROWS)
				break;
			row->view = &views[i];
			row->job = status->jobs[j];
			look_at_job(row);
			screen->n_rows++;
		}
	}
	sort_of_rows = screen->sort;
	qsort(screen->rows, (size_t)screen->n_rows, sizeof(screen->rows[0]), compare_rows);
	for (int i = 0; i < screen->n_rows; i++)
		if (is_chosen(screen, &screen->rows[i]))
			screen->selected = i;
	if (screen->selected >= screen->n_rows)
		screen->selected = screen->n_rows > 0 ? screen->n_rows - 1 : 0;
	if (screen->n_rows > 0 && !screen->is_open)
		choose(screen, &screen->rows[screen->selected]);
}

/* ---- jobs ---- */

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static unsigned count_hosts(const SmlControl__JobStatus *job)
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

/* The slowest rank stays however narrow the screen is. */
static const struct sml_column job_columns[] = {
	{"JOB", 12, 0, true},	  {"STATE", 8, 10, true},    {"RANKS", 5, 11, false},
	{"HOSTS", 5, 5, false},	  {"SLOTS", 5, 1, false},    {"MB/S OUT", 8, 12, false},
	{"MB/S IN", 8, 9, false}, {"USES/S", 8, 6, false},   {"LINK", 5, 8, false},
	{"TIMER/S", 7, 4, false}, {"LATER/S", 7, 3, false},  {"LOST/S", 7, 7, false},
	{"DUP/S", 7, 2, false},	  {"SLOWEST", 11, 0, false},
};
#define JOB_COLUMNS  (sizeof(job_columns) / sizeof(job_columns[0]))
#define NAME_COLUMNS 40 /* at most, of a job's name, and of a rank and its host */

static void draw_cells(int y, bool marked, const struct sml_columns *layout,
		       const char *const *cells)
{
	char line[SML_COLUMNS_LINE] = "";

	sml_columns_add(layout, 0, layout->n, cells, line, 0);
	put(y, marked, line);
}

static void draw_heads(int y, const struct sml_columns *layout)
{
	char line[SML_COLUMNS_LINE];

	sml_columns_heads(layout, line);
	put(y, true, line);
}

static void draw_job(int y, bool marked, const struct sml_top_row *row,
		     const struct sml_columns *layout)
{
	const struct sml_job_rates *rates = &row->rates;
	const bool told = rates->has_traffic;
	char t[8][16], n[3][16], name[NAME_COLUMNS + 1], slowest[16] = "-";

	/* An open job has the leaf's name. */
	if (rates->slowest_leaf != NULL)
		snprintf(slowest, sizeof(slowest), "leaf (%.0f%%)", 100 * rates->slowest_share);
	else if (rates->slowest >= 0)
		snprintf(slowest, sizeof(slowest), "%d (%.0f%%)", rates->slowest,
			 100 * rates->slowest_share);
	snprintf(n[0], sizeof(n[0]), "%u", row->job->world_size);
	snprintf(n[1], sizeof(n[1]), "%u", count_hosts(row->job));
	snprintf(n[2], sizeof(n[2]), "%u", row->job->slots);
	const char *const cells[JOB_COLUMNS] = {
		plain(name, sizeof(name), row->job->job),
		row->job->state,
		n[0],
		n[1],
		n[2],
		number(t[0], told, rates->bytes_sent / 1e6),
		number(t[1], told, rates->bytes_received / 1e6),
		number(t[2], rates->known, rates->uses),
		share(t[3], rates->link_share),
		number(t[4], told, rates->timeouts),
		number(t[5], told, rates->fast),
		number(t[6], rates->known, rates->resends),
		number(t[7], rates->known, rates->duplicates),
		slowest,
	};

	draw_cells(y, marked, layout, cells);
}

/* The rows between two lines, so that the selected one is seen. */
static void draw_jobs(struct sml_top_screen *screen, int y, int end)
{
	struct sml_columns layout =
		sml_columns_fit(job_columns, JOB_COLUMNS, NAME_COLUMNS, COLS - 1);

	draw_heads(y++, &layout);
	if (screen->selected < screen->first)
		screen->first = screen->selected;
	if (end > y && screen->selected >= screen->first + (end - y))
		screen->first = screen->selected - (end - y) + 1;
	if (screen->n_rows == 0)
		print(y, false, "no jobs");
	for (int i = screen->first; i < screen->n_rows && y < end; i++)
		draw_job(y++, i == screen->selected, &screen->rows[i], &layout);
}

/* ---- ranks ---- */

struct rank {
	const SmlControl__WorkerStatus *worker;
	const struct sml_rank_rates *rates;
};

static bool sort_by_place;

/* A rank's place in the tree: a leaf of the switch, a leaf of that leaf, a host; "": none. */
#define DEPTH 3

static const char *place(const struct rank *rank, int depth)
{
	const SmlControl__WorkerStatus *worker = rank->worker;

	if (depth == DEPTH - 1)
		return worker->host;
	if (depth == 0)
		return worker->via[0] ? worker->via : worker->leaf;
	return worker->via[0] ? worker->leaf : "";
}

/* As far as this depth. */
static int compare_places(const struct rank *one, const struct rank *other, int depth)
{
	int order = 0;

	for (int i = 0; i <= depth && order == 0; i++)
		order = strcmp(place(one, i), place(other, i));
	return order;
}

static int compare_ranks(const void *a, const void *b)
{
	const struct rank *one = a, *other = b;
	int order = sort_by_place ? compare_places(one, other, DEPTH - 1) : 0;

	if (order == 0 && sort_of_rows == SML_TOP_BY_BYTES)
		order = compare(one->rates->bytes_sent + one->rates->bytes_received,
				other->rates->bytes_sent + other->rates->bytes_received);
	if (order == 0 && sort_of_rows == SML_TOP_BY_AGAIN)
		order = compare(one->rates->timeouts + one->rates->fast + one->rates->resends,
				other->rates->timeouts + other->rates->fast +
					other->rates->resends);
	if (order == 0 && sort_of_rows == SML_TOP_BY_LAST)
		order = compare(one->rates->last_share, other->rates->last_share);
	return order != 0 ? order : compare(other->worker->rank, one->worker->rank);
}

/* How often the others wait for a rank stays however narrow the screen is. */
static const struct sml_column rank_columns[] = {
	{"RANK HOST", 17, 0, true}, {"STATE", 8, 8, true},	{"MB/S OUT", 8, 9, false},
	{"MB/S IN", 8, 7, false},   {"PACKETS/S", 9, 1, false}, {"TIMER/S", 7, 3, false},
	{"LATER/S", 7, 2, false},   {"LOST/S", 7, 5, false},	{"LAST", 5, 0, false},
	{"LINK", 5, 6, false},	    {"SEEN S", 8, 4, false},
};
#define RANK_COLUMNS (sizeof(rank_columns) / sizeof(rank_columns[0]))
/* What a leaf or a host has instead of the rest. */
#define FIRST_NUMBER 2
#define END_OF_SUMS  9

/* indent: where the rank begins in the tree; 0: it is in a list, with its host. */
static void draw_rank(int y, int indent, const struct rank *rank, const struct sml_columns *layout)
{
	const struct sml_rank_rates *rates = rank->rates;
	bool told = rates->has_traffic;
	char t[8][16], host[NAME_COLUMNS], who[2 * NAME_COLUMNS], seen[16];

	if (indent > 0)
		snprintf(who, sizeof(who), "%*srank %u", indent, "", rank->worker->rank);
	else
		snprintf(who, sizeof(who), "%4u %s", rank->worker->rank,
			 plain(host, sizeof(host), rank->worker->host));
	/* A rank that has not come was never seen. */
	snprintf(seen, sizeof(seen), rank->worker->pid ? "%.1f" : "-",
		 (double)rank->worker->last_seen_ms / 1e3);
	const char *const cells[RANK_COLUMNS] = {
		who,
		rank->worker->state,
		number(t[0], told, rates->bytes_sent / 1e6),
		number(t[1], told, rates->bytes_received / 1e6),
		number(t[2], told, rates->packets_sent + rates->packets_received),
		number(t[3], told, rates->timeouts),
		number(t[4], told, rates->fast),
		number(t[5], rates->known, rates->resends),
		rates->known ? share(t[6], rates->last_share) : "-",
		share(t[7], told ? rates->link_share : -1),
		seen,
	};

	draw_cells(y, false, layout, cells);
}

/* Does one of these ranks send for all of them? */
static bool send_as_one(const struct rank *ranks, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (ranks[i].worker->sender != ranks->worker->sender)
			return false;
	return n > 1 && ranks->worker->sender > 0;
}

/* What a leaf of this switch contributes to the job. */
static bool look_at_leaf(const struct sml_top_row *row, const char *name,
			 struct sml_branch_rates *rates)
{
	for (size_t i = 0; i < row->job->n_branches; i++)
		if (strcmp(row->job->branches[i]->leaf, name) == 0)
			return sml_view_branch_rates(row->view, row->job, i, rates);
	return false;
}

/* A leaf or a host, with the sums of its n ranks. */
static void draw_branch(int y, int indent, int depth, const struct sml_top_row *row,
			const struct rank *ranks, size_t n, const struct sml_columns *layout)
{
	struct sml_rank_rates sum = {.known = false};
	struct sml_branch_rates leaf = {.resends = 0};
	bool is_leaf = depth == 0 && look_at_leaf(row, place(ranks, depth), &leaf);
	const int label = sml_columns_width(layout, 0, FIRST_NUMBER);
	char name[NAME_COLUMNS], sends[32] = "", t[8][16], line[SML_COLUMNS_LINE];
	size_t length;

	for (size_t i = 0; i < n; i++) {
		const struct sml_rank_rates *rates = ranks[i].rates;

		sum.has_traffic |= rates->has_traffic;
		sum.bytes_sent += rates->bytes_sent;
		sum.bytes_received += rates->bytes_received;
		sum.packets_sent += rates->packets_sent + rates->packets_received;
		sum.timeouts += rates->timeouts;
		sum.fast += rates->fast;
	}
	if (depth == DEPTH - 1 && send_as_one(ranks, n))
		snprintf(sends, sizeof(sends), ", rank %u sends", ranks->worker->sender - 1);
	const char *const cells[END_OF_SUMS - FIRST_NUMBER] = {
		number(t[0], sum.has_traffic, sum.bytes_sent / 1e6),
		number(t[1], sum.has_traffic, sum.bytes_received / 1e6),
		number(t[2], sum.has_traffic, sum.packets_sent),
		number(t[3], sum.has_traffic, sum.timeouts),
		number(t[4], sum.has_traffic, sum.fast),
		number(t[5], is_leaf, leaf.resends),
		is_leaf ? share(t[6], leaf.last_share) : "-",
	};

	length = (size_t)snprintf(line, sizeof(line), "%*s+- %-*.*s", indent, "",
				  label - indent - 3, label - indent - 3,
				  plain(name, sizeof(name), place(ranks, depth)));
	length = sml_columns_add(layout, FIRST_NUMBER, END_OF_SUMS, cells, line, length);
	snprintf(line + length, sizeof(line) - length, "  %zu rank%s%s", n, sml_plural(n), sends);
	put(y, false, line);
}

/* Lines of a table: the first ones are above the screen. */
struct lines {
	int y, end, skip;
};

static bool has_line(struct lines *lines)
{
	return lines->skip-- <= 0 && lines->y < lines->end;
}

static void draw_list(struct lines *lines, const struct rank *ranks, size_t n,
		      const struct sml_columns *layout)
{
	for (size_t i = 0; i < n; i++)
		if (has_line(lines))
			draw_rank(lines->y++, 0, &ranks[i], layout);
}

static void draw_tree(struct lines *lines, const struct sml_top_row *row, const struct rank *ranks,
		      size_t n, const struct sml_columns *layout)
{
	if (has_line(lines))
		print(lines->y++, false, "%s", row->view->address);
	for (size_t i = 0; i < n; i++) {
		int indent = 2;

		for (int depth = 0; depth < DEPTH; depth++) {
			size_t same = i + 1;

			if (*place(&ranks[i], depth) == '\0')
				continue;
			indent += 2;
			if (i > 0 && compare_places(&ranks[i - 1], &ranks[i], depth) == 0)
				continue;
			while (same < n && compare_places(&ranks[i], &ranks[same], depth) == 0)
				same++;
			if (has_line(lines))
				draw_branch(lines->y++, indent - 2, depth, row, &ranks[i], same - i,
					    layout);
		}
		if (has_line(lines))
			draw_rank(lines->y++, indent, &ranks[i], layout);
	}
}

static void draw_open(struct sml_top_screen *screen, const struct sml_top_row *row, int y, int end)
{
	struct sml_rank_rates *rates = sml_view_ranks(row->job);
	size_t n = row->job->n_workers;
	struct rank *ranks = calloc(n + 1, sizeof(*ranks));
	const struct sml_columns layout =
		sml_columns_fit(rank_columns, RANK_COLUMNS, NAME_COLUMNS, COLS - 1);
	struct lines lines = {.end = end};
	struct sml_job_rates job;
	char name[64], lanes[32] = "";
	unsigned n_hosts;

	if (rates == NULL || ranks == NULL)
		goto free_ranks;
	sml_view_job_rates(row->view, row->job, &job, rates);
	for (size_t i = 0; i < n; i++)
		ranks[i] = (struct rank){row->job->workers[i], &rates[i]};
	sort_by_place = screen->is_tree;
	qsort(ranks, n, sizeof(ranks[0]), compare_ranks);
	n_hosts = count_hosts(row->job);
	if (row->job->lanes != 0)
		snprintf(lanes, sizeof(lanes), " of %u lanes", row->job->lanes);
	print(y++, false, "job %s at %s: %s, %u rank%s on %u host%s, epoch %u, %u slot%s%s",
	      plain(name, sizeof(name), row->job->job), row->view->address, row->job->state,
	      row->job->world_size, sml_plural(row->job->world_size), n_hosts, sml_plural(n_hosts),
	      row->job->epoch, row->job->slots, sml_plural(row->job->slots), lanes);
	if (row->job->changes > 0)
		print(y++, false, "follows job %s: change %u of the members, %u joined, %u left",
		      plain(name, sizeof(name), row->job->follows), row->job->changes,
		      row->job->joined, row->job->left);
	if (job.slowest_leaf != NULL)
		print(y++, false, "slowest: the leaf %s was the last of %.0f%% of %.0f uses/s",
		      job.slowest_leaf, 100 * job.slowest_share, job.uses);
	else if (job.slowest >= 0)
		print(y++, false, "slowest: rank %d was the last of %.0f%% of %.0f uses/s",
		      job.slowest, 100 * job.slowest_share, job.uses);
	else
		y++;
	draw_heads(y++, &layout);
	/* The switch, and at most two leaves, a host and a line for each rank. */
	if (screen->first > (DEPTH + 1) * (int)n)
		screen->first = (DEPTH + 1) * (int)n;
	lines.y = y;
	lines.skip = screen->first;
	if (screen->is_tree)
		draw_tree(&lines, row, ranks, n, &layout);
	else
		draw_list(&lines, ranks, n, &layout);
free_ranks:
	free(ranks);
	free(rates);
}

/* ---- the screen ---- */

/* What a leaf says of its place. */
static const char *below(const SmlControl__Status *status, char *text, size_t bytes)
{
	char parent[64];

	if (status->parent[0] == '\0')
		return "";
	snprintf(text, bytes, ", %s %s", status->attached ? "a leaf of" : "cut off from its parent",
		 plain(parent, sizeof(parent), status->parent));
	return text;
}

static void draw_switch(int y, const struct sml_view *view)
{
	const SmlControl__Status *status = sml_view_status(view);
	struct sml_switch_rates rates;
	char t[2][16], parent[128];

	sml_view_switch_rates(view, &rates);
	print(y, false,
	      "%s: %s %s, up %.0f s, %u of %u slots, %zu of %u job%s, MB/s in %s, out %s%s",
	      view->address, status->dataplane, status->version, (double)status->uptime_ms / 1e3,
	      status->slots_in_use, status->slots, status->n_jobs, status->max_jobs,
	      sml_plural(status->max_jobs), number(t[0], rates.known, rates.bytes_received / 1e6),
	      number(t[1], rates.known, rates.bytes_sent / 1e6),
	      below(status, parent, sizeof(parent)));
}

/* The leaves of a switch, as far as there is room. */
static int draw_leaves(const SmlControl__Status *status, int y, int end)
{
	for (size_t i = 0; i < status->n_leaves && y < end; i++) {
		const SmlControl__LeafStatus *leaf = status->leaves[i];
		size_t left = status->n_leaves - i;
		char name[64];

		if (y == end - 1 && left > 1)
			print(y++, false, "  and %zu more leaves", left);
		else
			print(y++, false,
			      "  +- leaf %s: %u rank%s, %u of %u slots, seen %.1f s ago",
			      plain(name, sizeof(name), leaf->name), leaf->ranks,
			      sml_plural(leaf->ranks), leaf->slots_in_use, leaf->slots,
			      (double)leaf->last_seen_ms / 1e3);
	}
	return y;
}

static int draw_switches(const struct sml_view *views, size_t n, int y, int end)
{
	for (size_t i = 0; i < n && y < end; i++) {
		const SmlControl__Status *status = sml_view_status(&views[i]);
		const char *fix = sml_view_fix(&views[i]);

		if (status == NULL) {
			print(y++, false, "%s: %s%s%s", views[i].address,
			      views[i].error[0] != '\0' ? views[i].error : "asking",
			      *fix ? ": " : "", fix);
			continue;
		}
		draw_switch(y++, &views[i]);
		/* The next switches come first. */
		y = draw_leaves(status, y, end - (int)(n - i - 1));
	}
	return y;
}

static void draw_help(int y)
{
	static const char *const lines[] = {
		"up, down, j, k   select a job, or scroll its ranks",
		"Enter            open the job: its ranks",
		"Esc, Backspace   back to all jobs",
		"s                sort by name, bytes, packets sent again, or who is last",
		"t                in a job: the tree of leaves, hosts and their ranks",
		"h, ?             this help; any key ends it",
		"q                quit",
		"",
		"TIMER, LATER     packets that ranks sent again: the timer fired, or later ones",
		"                 were answered",
		"LOST, DUP        packets that came again: the result was lost, or other ranks",
		"                 were missing",
		"LAST, SLOWEST    how often all others waited for this rank or leaf",
		"LINK             the busier direction's share; - if the speed is not known",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		put(y++, false, lines[i]);
}

static const struct sml_top_row *open_row(const struct sml_top_screen *screen)
{
	for (int i = 0; i < screen->n_rows; i++)
		if (is_chosen(screen, &screen->rows[i]))
			return &screen->rows[i];
	return NULL;
}

static void draw_table(struct sml_top_screen *screen, int y, int end)
{
	const struct sml_top_row *row = screen->is_open ? open_row(screen) : NULL;
	char name[64];

	if (row != NULL)
		draw_open(screen, row, y, end);
	else if (screen->is_open)
		print(y, false, "job %s is not at %s now", plain(name, sizeof(name), screen->name),
		      screen->address);
	else
		draw_jobs(screen, y, end);
}

void sml_top_draw(struct sml_top_screen *screen, const struct sml_view *views, size_t n,
		  double interval_s)
{
	static const char *const sorts[SML_TOP_SORTS] = {"name", "bytes", "came again", "last"};
	time_t now = time(NULL);
	struct tm local;
	char clock[16] = "";
	int y = 1, end = LINES - 1;

	if (localtime_r(&now, &local) != NULL)
		strftime(clock, sizeof(clock), "%H:%M:%S", &local);
	erase();
	gather(screen, views, n);
	print(0, true, "switchml top  %s  every %g s  sorted by %s", clock, interval_s,
	      sorts[screen->sort]);
	if (screen->shows_help) {
		draw_help(2);
	} else {
		/* A third of the screen at most is for switches. */
		y = draw_switches(views, n, y, LINES > 9 ? LINES / 3 + 1 : 2);
		draw_table(screen, y + 1, end);
	}
	print(end, true, "q quit  h help  s sort  %s",
	      screen->is_open ? "t tree  Esc back" : "Enter open");
	refresh();
}

/* ---- keys ---- */

static void move_to(struct sml_top_screen *screen, int by)
{
	int *place = screen->is_open ? &screen->first : &screen->selected;

	*place += by;
	if (*place < 0)
		*place = 0;
	if (screen->is_open || screen->n_rows == 0)
		return;
	if (*place >= screen->n_rows)
		*place = screen->n_rows - 1;
	/* Its texts are of the last drawing, which may be gone: gather() finds it by its place. */
	screen->name[0] = '\0';
}

static void open_job(struct sml_top_screen *screen, bool is_open)
{
	if (is_open && (screen->n_rows == 0 || screen->name[0] == '\0'))
		return;
	screen->is_open = is_open;
	screen->first = 0;
}

bool sml_top_key(struct sml_top_screen *screen, int key)
{
	bool ends_help = screen->shows_help;

	if (key == 'q')
		return false;
	if (key == KEY_RESIZE)
		return true;
	screen->shows_help = false;
	if (ends_help)
		return true;
	switch (key) {
	case 'h':
	case '?':
		screen->shows_help = true;
		break;
	case 's':
		screen->sort = (enum sml_top_sort)((screen->sort + 1) % SML_TOP_SORTS);
		break;
	case 't':
		screen->is_tree = !screen->is_tree;
		break;
	case KEY_UP:
	case 'k':
		move_to(screen, -1);
		break;
	case KEY_DOWN:
	case 'j':
		move_to(screen, 1);
		break;
	case '\n':
	case '\r':
	case KEY_ENTER:
		open_job(screen, true);
		break;
	case ESCAPE:
	case KEY_BACKSPACE:
	case '\b':
	case 127:
		open_job(screen, false);
		break;
	default:
		break;
	}
	return true;
}
