/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What `switchml top` shows: all jobs, or the ranks of one. Drawing only reads views; keys only
 * change the screen. No colors, so that it looks the same everywhere.
 */
#ifndef SML_CMD_TOP_SCREEN_H
#define SML_CMD_TOP_SCREEN_H

#include <stdbool.h>

#include "cmd/shared/columns.h"
#include "cmd/shared/view.h"

/* Jobs at most that have a row. */
#define SML_TOP_ROWS 1024

enum sml_top_sort { SML_TOP_BY_NAME, SML_TOP_BY_BYTES, SML_TOP_BY_AGAIN, SML_TOP_BY_WAITED };
#define SML_TOP_SORTS 4

struct sml_top_row {
	const struct sml_view *view;
	const SmlControl__JobStatus *job;
	struct sml_job_rates rates;
	double key; /* the largest comes first; of equal ones, by name */
};

struct sml_top_screen {
	enum sml_top_sort sort;
	bool is_open, shows_help; /* one job is open */
	bool is_tree;		  /* an open job is a tree of leaves, hosts and their ranks */
	int selected, first;	  /* rows: of the table, and the first one that is seen */
	/* The job that is selected or open. */
	char address[320], name[160];
	uint32_t number;
	struct sml_top_row rows[SML_TOP_ROWS];
	int n_rows;
	bool is_early; /* a switch has neither answered nor failed to: it may have jobs */
};

/* Draw it all into ncurses' screen. */
void sml_top_draw(struct sml_top_screen *screen, const struct sml_view *views, size_t n,
		  double interval_s);

/* False if it was the key to quit. Every key is allowed. */
bool sml_top_key(struct sml_top_screen *screen, int key);

/* ---- one job: its ranks, in a list or in the tree of leaves and hosts (ranks.c) ---- */

/* Between two lines. */
void sml_top_draw_ranks(struct sml_top_screen *screen, const struct sml_top_row *row, int y,
			int end);

unsigned sml_top_count_hosts(const SmlControl__JobStatus *job);

/* Jobs and ranks are sorted by this, and then by their names. */
static inline double sml_top_key_of(enum sml_top_sort sort, const struct sml_traffic_rates *traffic,
				    double again, double waited)
{
	const double keys[SML_TOP_SORTS] = {0, traffic->bytes_sent + traffic->bytes_received,
					    traffic->timeouts + traffic->fast + again, waited};

	return keys[sort];
}

/* For qsort(): the larger one comes first. */
static inline int sml_top_compare(double a, double b)
{
	return (a < b) - (a > b);
}

/* ---- lines: each is made in memory and cut off at the screen's right edge (lines.c) ---- */

/* Nothing is written outside the screen, however small it is. */
void sml_top_put(int y, bool marked, const char *text);
__attribute__((format(printf, 3, 4))) void sml_top_print(int y, bool marked, const char *format,
							 ...);

/* The line of a table, and the line of its heads. */
void sml_top_draw_cells(int y, bool marked, const struct sml_columns *layout,
			const char *const *cells);
void sml_top_draw_heads(int y, const struct sml_columns *layout);

/* ---- texts of cells ---- */

/* As many characters as have room; one that the locale cannot show becomes '?'. */
const char *sml_top_plain(char *to, size_t bytes, const char *from);

/* A negative share is not known. */
const char *sml_top_share(char text[16], double value);
const char *sml_top_number(char text[16], bool known, double value);

#endif
