/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `switchml top`: what switches do, live. One thread asks them, so that the screen answers keys
 * while a switch does not answer; the other one draws.
 */
#include <ncurses.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "cmd/shared/command.h"
#include "cmd/status/status.h"
#include "cmd/top/screen.h"

#define TIMEOUT_MS 5000
/* How often keys and signals are looked for. */
#define KEY_MS 100

struct top {
	const char *list;
	double interval_s;
	struct sml_view views[SML_MOST_VIEWS];
	size_t n;
	pthread_mutex_t lock; /* of the views, except their addresses */
	unsigned changes;     /* under the lock */
	struct sml_top_screen screen;
};

enum { OPTION_INTERVAL = 256 };

static const struct argp_option option_list[] = {
	{"switch", 's', "HOST[:PORT],...", 0,
	 "The switch, or several (SWITCHML_SWITCH; if it is not set, rank 0 of the job)", 0},
	{"interval", OPTION_INTERVAL, "SECONDS", 0, "Time between two questions (2)", 0},
	{0},
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
	struct top *top = state->input;

	switch (key) {
	case 's':
		top->list = text;
		break;
	case OPTION_INTERVAL:
		top->interval_s = sml_views_interval("--interval", text, state);
		break;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument '%s': name the switch with --switch %s",
			   text, text);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* ---- asking ---- */

static void *query_views(void *argument)
{
	struct top *top = argument;
	uint64_t next_ns = sml_now_ns();

	for (;;) {
		next_ns = sml_views_wait(next_ns, top->interval_s);
		for (size_t i = 0; i < top->n; i++) {
			/* The view that is drawn is locked only while it changes. */
			struct sml_view asked = {.address = ""};

			snprintf(asked.address, sizeof(asked.address), "%s", top->views[i].address);
			(void)sml_view_query(&asked, TIMEOUT_MS);
			pthread_mutex_lock(&top->lock);
			snprintf(top->views[i].error, sizeof(top->views[i].error), "%s",
				 asked.error);
			top->views[i].fix = asked.fix;
			sml_view_take(&top->views[i], asked.now);
			top->changes++;
			pthread_mutex_unlock(&top->lock);
		}
	}
	return NULL;
}

/* ---- drawing ---- */

static volatile sig_atomic_t ended;

static void end(int signal)
{
	(void)signal;
	ended = 1;
}

static void draw_until_quit(struct top *top)
{
	unsigned drawn = 0;
	bool must_draw = true;
	int key;

	while (!ended) {
		pthread_mutex_lock(&top->lock);
		if (must_draw || drawn != top->changes)
			sml_top_draw(&top->screen, top->views, top->n, top->interval_s);
		drawn = top->changes;
		pthread_mutex_unlock(&top->lock);
		key = getch();
		must_draw = key != ERR;
		if (key != ERR && !sml_top_key(&top->screen, key))
			return;
	}
}

static int run_screen(struct top *top)
{
	pthread_t asker;
	SCREEN *terminal;
	int rc;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
		fprintf(stderr, "switchml top: it needs a terminal; without one, use switchml "
				"status --watch\n");
		return 1;
	}
	terminal = newterm(NULL, stdout, stdin);
	if (terminal == NULL) {
		fprintf(stderr,
			"switchml top: the terminal (TERM=%s) is not known; use switchml status "
			"--watch\n",
			getenv("TERM") ? getenv("TERM") : "");
		return 1;
	}
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	set_escdelay(50);
	curs_set(0);
	timeout(KEY_MS);
	signal(SIGINT, end);
	signal(SIGTERM, end);
	rc = sml_thread_start(&asker, "sml-ask", query_views, top);
	if (rc == 0)
		draw_until_quit(top);
	endwin();
	if (rc < 0)
		fprintf(stderr, "switchml top: no thread can be started\n");
	/* The other thread may be waiting for a switch, and has nothing to clean up. */
	fflush(stdout);
	_exit(rc < 0);
}

int sml_command_top(int argc, char **argv)
{
	static const struct argp parser = {
		.options = option_list,
		.parser = parse_option,
		.doc = "Show live what switches and their jobs do: throughput, packets sent again "
		       "and "
		       "why, the share of the links, and the slowest ranks. h shows the keys, q "
		       "quits.",
	};
	static struct top top = {.interval_s = 2, .lock = PTHREAD_MUTEX_INITIALIZER};

	top.list = getenv("SWITCHML_SWITCH");
	sml_options_parse(&parser, argc, argv, &top);
	signal(SIGPIPE, SIG_IGN);
	top.n = sml_views_open(top.views, top.list, "top");
	return top.n == 0 ? 1 : run_screen(&top);
}
