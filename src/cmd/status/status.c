/* SPDX-License-Identifier: BSD-3-Clause */
/* `switchml status`: what a running switch is doing, once or again and again. */
#include "cmd/status/status.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/word.h"
#include "cmd/shared/command.h"
#include "cmd/shared/status_client.h"
#include "net/address.h"
#include "switchml.h"

#define TIMEOUT_MS 5000

enum { OPTION_COUNT = 256, OPTION_SCHEMA, OPTION_WATCH };

struct options {
	const char *address;
	bool json, schema, watch;
	double interval_s;
	unsigned long count; /* of answers; 0: no limit */
};

static const struct argp_option option_list[] = {
	{"switch", 's', "HOST[:PORT],...", 0,
	 "The switch, or several (SWITCHML_SWITCH; if it is not set, rank 0 of the job)", 0},
	{"json", 'j', NULL, 0, "Print JSON, for programs (--json -: the same)", 0},
	{"schema", OPTION_SCHEMA, NULL, 0, "Print the JSON schema of --json, and ask no switch", 0},
	{"watch", OPTION_WATCH, "SECONDS", OPTION_ARG_OPTIONAL,
	 "Ask again every few seconds (2), and print rates. With --json, print one array on each "
	 "line",
	 0},
	{"count", OPTION_COUNT, "N", 0, "With --watch: end after N answers (never)", 0},
	{0},
};

double sml_views_interval(const char *option, const char *text, struct argp_state *state)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end != '\0' || !(value >= 0.1 && value <= 86400))
		argp_error(state, "%s must be a number of seconds from 0.1 to 86400, not '%s'",
			   option, text);
	return value;
}

static unsigned long count(const char *text, struct argp_state *state)
{
	long value = 0;

	if (!sml_parse_number(text, 1, 1000000000, &value))
		argp_error(state, "--count must be a number from 1 to 1000000000, not '%s'", text);
	return (unsigned long)value;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case 's':
		options->address = text;
		break;
	case 'j':
		options->json = true;
		break;
	case OPTION_SCHEMA:
		options->schema = true;
		break;
	case OPTION_WATCH:
		options->watch = true;
		if (text != NULL)
			options->interval_s = sml_views_interval("--watch", text, state);
		break;
	case OPTION_COUNT:
		options->count = count(text, state);
		break;
	case ARGP_KEY_END:
		if (options->count != 0 && !options->watch)
			argp_error(state, "--count is for --watch");
		break;
	case ARGP_KEY_ARG:
		/* "--json -", as in all commands: standard output. */
		if (options->json && strcmp(text, "-") == 0)
			break;
		if (options->watch && *text >= '0' && *text <= '9' && strchr(text, ':') == NULL)
			argp_error(state,
				   "unexpected argument '%s': seconds are a part of the option, "
				   "--watch=%s",
				   text, text);
		argp_error(state, "unexpected argument '%s': name the switch with --switch %s",
			   text, text);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* ---- which switch to ask ---- */

/* If the ranks embed the switch, rank 0 has the control port. */
static bool is_embedded(const char *address)
{
	return address == NULL || *address == '\0' || strcasecmp(address, "embedded") == 0;
}

/* Rank 0's control port, as the ranks find it. False: the environment is invalid. */
static bool master_address(char *address, size_t bytes, const char *command)
{
	struct sml_config config = SML_CONFIG_INIT;

	if (sml_config_init(&config) < 0) {
		fprintf(stderr, "switchml %s: %s\n", command, sml_error_text(NULL));
		return false;
	}
	sml_host_port_text(address, bytes, config.master_address, (unsigned)config.master_port);
	return true;
}

size_t sml_views_open(struct sml_view views[SML_MOST_VIEWS], const char *list, const char *command)
{
	size_t n = 0;

	memset(views, 0, SML_MOST_VIEWS * sizeof(views[0]));
	views[0].is_rank_0 = is_embedded(list);
	if (views[0].is_rank_0)
		return master_address(views[0].address, sizeof(views[0].address), command) ? 1 : 0;
	while (n < SML_MOST_VIEWS &&
	       sml_switch_list_next(&list, views[n].address, sizeof(views[n].address)))
		n++;
	if (*list != '\0') {
		fprintf(stderr, "switchml %s: only %d switches can be asked at once\n", command,
			SML_MOST_VIEWS);
		return 0;
	}
	return n;
}

/* ---- answers ---- */

static int print_json(const json_t *all, bool on_one_line)
{
	const size_t form = on_one_line ? JSON_COMPACT : JSON_INDENT(2);

	if (all == NULL || json_dumpf(all, stdout, form | JSON_REAL_PRECISION(9)) < 0) {
		fprintf(stderr, "switchml status: no memory to print JSON\n");
		return 1;
	}
	putchar('\n');
	return 0;
}

/* The first answer has no rates: then all that it says is shown. */
static void print_text(const struct sml_view *view)
{
	const char *fix = sml_view_fix(view);

	if (view->error[0] != '\0')
		fprintf(stderr, "switchml status: %s%s%s\n", view->error, *fix ? ": " : "", fix);
	else if (sml_view_seconds(view) > 0)
		sml_status_print_rates(view);
	else
		sml_status_print(view);
}

static int print_all(const struct options *options, const struct sml_view *views, size_t n)
{
	json_t *all = json_array();
	int rc = 0;

	for (size_t i = 0; i < n; i++) {
		if (options->json)
			json_array_append_new(all, sml_status_json(&views[i], options->watch));
		if (!options->json || views[i].error[0] != '\0')
			print_text(&views[i]);
	}
	if (options->json)
		rc = print_json(all, options->watch);
	json_decref(all);
	/* The reader may have gone. */
	return fflush(stdout) != 0 ? 1 : rc;
}

static int print_schema(void)
{
	json_t *schema = sml_status_schema();
	int rc = print_json(schema, false);

	json_decref(schema);
	return fflush(stdout) != 0 ? 1 : rc;
}

/* Whether all have answered. */
static bool query_all(struct sml_view *views, size_t n)
{
	bool ok = true;

	for (size_t i = 0; i < n; i++)
		ok &= sml_view_query(&views[i], TIMEOUT_MS) == 0;
	return ok;
}

/* ---- again and again ---- */

/* Only while nothing is half printed: see let_end(). */
static void end(int signal)
{
	(void)signal;
	_exit(0);
}

/* SIGINT and SIGTERM end the program at any moment, or once this answer is printed. */
static void let_end(bool now)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	pthread_sigmask(now ? SIG_UNBLOCK : SIG_BLOCK, &signals, NULL);
}

uint64_t sml_views_wait(uint64_t next_ns, double interval_s)
{
	const uint64_t now_ns = sml_now_ns();
	struct timespec next;

	if (next_ns < now_ns)
		next_ns = now_ns;
	next = sml_timespec(next_ns);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) != 0)
		;
	return next_ns + (uint64_t)(interval_s * 1e9);
}

static int watch(const struct options *options, struct sml_view *views, size_t n)
{
	uint64_t next_ns = sml_now_ns();
	bool ok = true;

	signal(SIGINT, end);
	signal(SIGTERM, end);
	for (unsigned long i = 0; options->count == 0 || i < options->count; i++) {
		let_end(true);
		next_ns = sml_views_wait(next_ns, options->interval_s);
		ok = query_all(views, n);
		let_end(false);
		if (print_all(options, views, n) != 0)
			return 1;
	}
	return !ok;
}

int sml_command_status(int argc, char **argv)
{
	static const struct argp parser = {
		.options = option_list,
		.parser = parse_option,
		.doc = "Show the jobs, workers, slots in use and counters of a running "
		       "switch, or of each switch of a list. Counters that are zero are "
		       "left out (--json has all). For a job without a switch, the command "
		       "asks rank 0 at its master port.",
	};
	struct options options = {.address = getenv("SWITCHML_SWITCH"), .interval_s = 2};
	static struct sml_view views[SML_MOST_VIEWS];
	size_t n;
	int rc;

	sml_options_parse(&parser, argc, argv, &options);
	signal(SIGPIPE, SIG_IGN);
	if (options.schema)
		return print_schema();
	n = sml_views_open(views, options.address, "status");
	if (n == 0 && options.json)
		(void)print_all(&options, views, 0);
	if (n == 0)
		return 1;
	if (options.watch) {
		rc = watch(&options, views, n);
	} else {
		rc = !query_all(views, n);
		rc |= print_all(&options, views, n);
	}
	for (size_t i = 0; i < n; i++)
		sml_view_free(&views[i]);
	return rc;
}
