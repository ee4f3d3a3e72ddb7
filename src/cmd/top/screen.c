/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/top/screen.h"

#include <ncurses.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/plural.h"

#define ESCAPE 27

/* ---- rows ---- */

static int compare_rows(const void *a, const void *b)
{
	const struct sml_top_row *one = a, *other = b;
	int order = sml_top_compare(one->key, other->key);

	if (order == 0)
		order = strcmp(one->job->job, other->job->job);
	if (order == 0)
		order = strcmp(one->view->address, other->view->address);
	return order != 0 ? order : sml_top_compare(other->job->job_number, one->job->job_number);
}

static bool is_chosen(const struct sml_top_screen *screen, const struct sml_top_row *row)
{
	return row->job->job_number == screen->number && strcmp(row->job->job, screen->name) == 0 &&
	       strcmp(row->view->address, screen->address) == 0;
}

static void look_at_job(struct sml_top_row *row, enum sml_top_sort sort)
{
	struct sml_rank_rates *ranks = sml_view_ranks(row->job);
	struct sml_job_rates *rates = &row->rates;

	*rates = (struct sml_job_rates){.slowest = -1, .slowest_share = -1, .link_share = -1};
	if (ranks != NULL)
		sml_view_job_rates(row->view, row->job, rates, ranks);
	free(ranks);
	row->key = sml_top_key_of(sort, &rates->traffic, rates->resends + rates->duplicates,
				  rates->slowest_share);
}

/* The selection follows its job, when rows move. */
static void gather(struct sml_top_screen *screen, const struct sml_view *views, size_t n)
{
	struct sml_top_row *row;

	screen->n_rows = 0;
	screen->is_early = false;
	for (size_t i = 0; i < n; i++) {
		const SmlControl__Status *status = sml_view_status(&views[i]);

		screen->is_early |= status == NULL && views[i].error[0] == '\0';

		for (size_t j = 0; status != NULL && j < status->n_jobs; j++) {
			if (screen->n_rows == SML_TOP_ROWS)
				break;
			row = &screen->rows[screen->n_rows++];
			row->view = &views[i];
			row->job = status->jobs[j];
			look_at_job(row, screen->sort);
		}
	}
	qsort(screen->rows, (size_t)screen->n_rows, sizeof(screen->rows[0]), compare_rows);
	for (int i = 0; i < screen->n_rows; i++)
		if (is_chosen(screen, &screen->rows[i]))
			screen->selected = i;
	if (screen->selected >= screen->n_rows)
		screen->selected = screen->n_rows > 0 ? screen->n_rows - 1 : 0;
	if (screen->n_rows == 0 || screen->is_open)
		return;
	row = &screen->rows[screen->selected];
	snprintf(screen->name, sizeof(screen->name), "%s", row->job->job);
	snprintf(screen->address, sizeof(screen->address), "%s", row->view->address);
	screen->number = row->job->job_number;
}

/* ---- jobs ---- */

/* The slowest rank stays however narrow the screen is. */
static const struct sml_column job_columns[] = {
	{"JOB", 12, 0, true},	  {"STATE", 8, 10, true},    {"RANKS", 5, 11, false},
	{"HOSTS", 5, 5, false},	  {"SLOTS", 5, 1, false},    {"MB/S OUT", 8, 12, false},
	{"MB/S IN", 8, 9, false}, {"USES/S", 8, 6, false},   {"LINK", 5, 8, false},
	{"TIMER/S", 7, 4, false}, {"LATER/S", 7, 3, false},  {"LOST/S", 7, 7, false},
	{"DUP/S", 7, 2, false},	  {"SLOWEST", 11, 0, false},
};
#define JOB_COLUMNS  (sizeof(job_columns) / sizeof(job_columns[0]))
#define NAME_COLUMNS 40 /* at most, of a job's name */
#define NAME_BYTES   160

static void draw_job(int y, bool marked, const struct sml_top_row *row,
		     const struct sml_columns *layout)
{
	const struct sml_job_rates *rates = &row->rates;
	const struct sml_traffic_rates *traffic = &rates->traffic;
	char t[8][16], n[3][16], name[NAME_BYTES], slowest[16] = "-";

	/* An open job has the leaf's name. */
	if (rates->slowest_leaf != NULL)
		snprintf(slowest, sizeof(slowest), "leaf (%.0f%%)", 100 * rates->slowest_share);
	else if (rates->slowest >= 0)
		snprintf(slowest, sizeof(slowest), "%d (%.0f%%)", rates->slowest,
			 100 * rates->slowest_share);
	snprintf(n[0], sizeof(n[0]), "%u", row->job->world_size);
	snprintf(n[1], sizeof(n[1]), "%u", sml_top_count_hosts(row->job));
	snprintf(n[2], sizeof(n[2]), "%u", row->job->slots);
	const char *const cells[JOB_COLUMNS] = {
		sml_top_plain(name, sizeof(name), row->job->job),
		row->job->state,
		n[0],
		n[1],
		n[2],
		sml_top_number(t[0], traffic->known, traffic->bytes_sent / 1e6),
		sml_top_number(t[1], traffic->known, traffic->bytes_received / 1e6),
		sml_top_number(t[2], rates->known, rates->uses),
		sml_top_share(t[3], rates->link_share),
		sml_top_number(t[4], traffic->known, traffic->timeouts),
		sml_top_number(t[5], traffic->known, traffic->fast),
		sml_top_number(t[6], rates->known, rates->resends),
		sml_top_number(t[7], rates->known, rates->duplicates),
		slowest,
	};

	sml_top_draw_cells(y, marked, layout, cells);
}

/* The rows between two lines, so that the selected one is seen. */
static void draw_jobs(struct sml_top_screen *screen, int y, int end)
{
	struct sml_columns layout =
		sml_columns_fit(job_columns, JOB_COLUMNS, NAME_COLUMNS, COLS - 1);

	sml_top_draw_heads(y++, &layout);
	if (screen->selected < screen->first)
		screen->first = screen->selected;
	if (end > y && screen->selected >= screen->first + (end - y))
		screen->first = screen->selected - (end - y) + 1;
	if (screen->n_rows == 0)
		sml_top_print(y, false, "%s",
			      screen->is_early ? "waiting for the first answer" : "no jobs");
	for (int i = screen->first; i < screen->n_rows && y < end; i++)
		draw_job(y++, i == screen->selected, &screen->rows[i], &layout);
}

/* ---- the screen ---- */

/* What a leaf says of its place. */
static const char *below(const SmlControl__Status *status, char *text, size_t bytes)
{
	char parent[64];

	if (status->parent[0] == '\0')
		return "";
	snprintf(text, bytes, ", %s %s", status->attached ? "a leaf of" : "cut off from its parent",
		 sml_top_plain(parent, sizeof(parent), status->parent));
	return text;
}

static void draw_switch(int y, const struct sml_view *view)
{
	const SmlControl__Status *status = sml_view_status(view);
	struct sml_switch_rates rates;
	char t[2][16], parent[128], kept[SML_VIEW_KEPT_BYTES];

	sml_view_switch_rates(view, &rates);
	sml_top_print(
		y, false,
		"%s: %s, %u of %u slots, %zu of %u job%s%s, MB/s in %s, out %s%s, %s, up %.0f s",
		view->address, status->dataplane, status->slots_in_use, status->slots,
		status->n_jobs, status->max_jobs, sml_plural(status->max_jobs),
		sml_view_kept(status, kept),
		sml_top_number(t[0], rates.known, rates.bytes_received / 1e6),
		sml_top_number(t[1], rates.known, rates.bytes_sent / 1e6),
		below(status, parent, sizeof(parent)), status->version,
		(double)status->uptime_ms / 1e3);
}

/* The leaves of a switch, as far as there is room. */
static int draw_leaves(const SmlControl__Status *status, int y, int end)
{
	for (size_t i = 0; i < status->n_leaves && y < end; i++) {
		const SmlControl__LeafStatus *leaf = status->leaves[i];
		size_t left = status->n_leaves - i;
		char name[64];

		if (y == end - 1 && left > 1)
			sml_top_print(y++, false, "  and %zu more leaves", left);
		else
			sml_top_print(y++, false,
				      "  +- leaf %s: %u rank%s, %u of %u slots, seen %.1f s ago",
				      sml_top_plain(name, sizeof(name), leaf->name), leaf->ranks,
				      sml_plural(leaf->ranks), leaf->slots_in_use, leaf->slots,
				      (double)leaf->last_seen_ms / 1e3);
	}
	return y;
}

/* Who asks to be in a job's next membership, as far as there is room. */
static int draw_waiting(const SmlControl__Status *status, int y, int end)
{
	for (size_t i = 0; i < status->n_waiting && y < end; i++) {
		const SmlControl__WaitingProcess *process = status->waiting[i];
		size_t left = status->n_waiting - i;
		char host[64], job[64];

		if (y == end - 1 && left > 1)
			sml_top_print(y++, false, "  and %zu more processes wait", left);
		else
			sml_top_print(y++, false,
				      "  host %s, pid %u: waits to be in the next membership of "
				      "job %s, for %.1f s",
				      sml_top_plain(host, sizeof(host), process->host),
				      process->pid, sml_top_plain(job, sizeof(job), process->job),
				      (double)process->waiting_ms / 1e3);
	}
	return y;
}

static int draw_switches(const struct sml_view *views, size_t n, int y, int end)
{
	for (size_t i = 0; i < n && y < end; i++) {
		const SmlControl__Status *status = sml_view_status(&views[i]);
		const char *fix = sml_view_fix(&views[i]);

		if (status == NULL) {
			sml_top_print(y++, false, "%s: %s%s%s", views[i].address,
				      views[i].error[0] != '\0' ? views[i].error : "asking",
				      *fix ? ": " : "", fix);
			continue;
		}
		draw_switch(y++, &views[i]);
		/* The next switches come first. */
		y = draw_leaves(status, y, end - (int)(n - i - 1));
		y = draw_waiting(status, y, end - (int)(n - i - 1));
	}
	return y;
}

static void draw_help(int y)
{
	static const char *const lines[] = {
		"up, down, j, k   select a job, or scroll its ranks",
		"Enter            open the job: its ranks",
		"Esc, Backspace   back to all jobs",
		"s                sort by name, bytes, packets sent again, or time waited",
		"t                in a job: the tree of leaves, hosts and their ranks",
		"h, ?             this help; any key ends it",
		"q                quit",
		"",
		"TIMER, LATER     packets that ranks sent again: the timer fired, or later ones",
		"                 were answered",
		"LOST, DUP        packets that came again: the result was lost, or other ranks",
		"                 were missing",
		"WAITED, SLOWEST  how much of the time others waited for this rank or leaf",
		"LINK             the busier direction's share; - if the speed is not known",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		sml_top_put(y++, false, lines[i]);
}

static void draw_table(struct sml_top_screen *screen, int y, int end)
{
	const struct sml_top_row *row = &screen->rows[screen->selected];
	char name[64];

	/* gather() has selected the job, if it is there. */
	if (screen->is_open && screen->n_rows > 0 && is_chosen(screen, row))
		sml_top_draw_ranks(screen, row, y, end);
	else if (screen->is_open)
		sml_top_print(y, false, "job %s is not at %s now",
			      sml_top_plain(name, sizeof(name), screen->name), screen->address);
	else
		draw_jobs(screen, y, end);
}

void sml_top_draw(struct sml_top_screen *screen, const struct sml_view *views, size_t n,
		  double interval_s)
{
	static const char *const sorts[] = {"name", "bytes", "came again", "waited"};
	_Static_assert(sizeof(sorts) / sizeof(sorts[0]) == SML_TOP_SORTS, "each has a name");
	time_t now = time(NULL);
	struct tm local;
	char clock[16] = "";
	int y = 1, end = LINES - 1;

	if (localtime_r(&now, &local) != NULL)
		strftime(clock, sizeof(clock), "%H:%M:%S", &local);
	erase();
	gather(screen, views, n);
	sml_top_print(0, true, "switchml top  %s  every %g s  sorted by %s", clock, interval_s,
		      sorts[screen->sort]);
	if (screen->shows_help) {
		draw_help(2);
	} else {
		/* A third of the screen at most is for switches. */
		y = draw_switches(views, n, y, LINES > 9 ? LINES / 3 + 1 : 2);
		draw_table(screen, y + 1, end);
	}
	sml_top_print(end, true, "q quit  h help  s sort  %s",
		      screen->is_open ? "t tree  Esc back" : "Enter open");
	refresh();
}

/* ---- keys ---- */

static void move_to(struct sml_top_screen *screen, int by)
{
	int *position = screen->is_open ? &screen->first : &screen->selected;

	*position += by;
	if (*position < 0)
		*position = 0;
	if (screen->is_open || screen->n_rows == 0)
		return;
	if (*position >= screen->n_rows)
		*position = screen->n_rows - 1;
	/* Its texts are of the last drawing, which may be gone: gather() finds it by its row. */
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
