/* SPDX-License-Identifier: BSD-3-Clause */
/* `switchml trace merge`: the traces of all ranks (SWITCHML_TRACE) on one clock. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/commands.h"
#include "cmd/trace.h"

struct options {
	const char *output;
	struct trace_rank *ranks;
	unsigned n;
};

static const struct argp_option option_list[] = {
	{"output", 'o', "FILE", 0, "Write the merged trace there (merged.json)", 0},
	{0},
};

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case 'o':
		options->output = text;
		break;
	case ARGP_KEY_ARG:
		if (state->arg_num == 0 && strcmp(text, "merge") != 0)
			argp_error(state, "the command `%s' does not exist: it must be merge",
				   text);
		if (state->arg_num == 0)
			break;
		if (options->n == SML_MAX_WORLD_SIZE)
			argp_error(state, "a job has at most %d ranks", SML_MAX_WORLD_SIZE);
		options->ranks[options->n++].path = text;
		break;
	case ARGP_KEY_END:
		if (options->n == 0)
			argp_error(state, "which files?");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* ---- in ---- */

/* NULL after a message. */
static json_t *load(const char *path)
{
	json_error_t error;
	json_t *trace = json_load_file(path, 0, &error);

	if (trace && json_is_array(json_object_get(trace, "traceEvents")) &&
	    json_is_object(json_object_get(trace, "otherData")))
		return trace;
	fprintf(stderr, "switchml trace: %s is not a trace of SWITCHML_TRACE: %s\n", path,
		trace ? "it has no traceEvents and otherData" : error.text);
	json_decref(trace);
	return NULL;
}

static uint64_t number_of(const json_t *object, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(object, name));
}

static bool has_phase(const json_t *event, const char *phase)
{
	const char *text = json_string_value(json_object_get(event, "ph"));

	return text && strcmp(text, phase) == 0;
}

static double time_of(const json_t *event)
{
	return json_number_value(json_object_get(event, "ts"));
}

/* An event that other ranks have, too. False: it is not one. A call's end is set later. */
static bool read_use(const json_t *event, struct trace_use *use)
{
	const json_t *args = json_object_get(event, "args");

	*use = (struct trace_use){.call = (uint32_t)number_of(args, "call"),
				  .begin = time_of(event)};
	if (has_phase(event, "X")) {
		use->what = number_of(args, "epoch") << 32 | number_of(args, "use");
		use->where = number_of(args, "stripe") << 16 | number_of(args, "slot");
		use->last_rank = (unsigned)number_of(args, "last_rank");
		use->end = use->begin + json_number_value(json_object_get(event, "dur"));
		return true;
	}
	use->where = TRACE_CALL;
	/* A call that did not end says nothing about other ranks. */
	return has_phase(event, "b") && !json_is_true(json_object_get(args, "unfinished"));
}

/* A call's begin and its end follow each other. */
static void read_uses(struct trace_rank *rank, const json_t *events)
{
	size_t n = json_array_size(events);

	for (size_t i = 0; i < n; i++) {
		const json_t *event = json_array_get(events, i);
		struct trace_use use;

		if (!read_use(event, &use))
			continue;
		if (use.where == TRACE_CALL) {
			const json_t *end = json_array_get(events, i + 1);

			if (!has_phase(end, "e"))
				continue;
			use.end = time_of(end);
		}
		rank->uses[rank->n_uses++] = use;
	}
	qsort(rank->uses, rank->n_uses, sizeof(*rank->uses), trace_compare);
}

static int read_rank(struct trace_rank *rank)
{
	json_t *trace = load(rank->path), *about, *events;
	const char *job;

	if (trace == NULL)
		return -1;
	about = json_object_get(trace, "otherData");
	events = json_object_get(trace, "traceEvents");
	job = json_string_value(json_object_get(about, "job"));
	rank->rank = (unsigned)number_of(about, "rank");
	snprintf(rank->job, sizeof(rank->job), "%s", job ? job : "");
	rank->uses = calloc(json_array_size(events) + 1, sizeof(*rank->uses));
	if (rank->uses)
		read_uses(rank, events);
	else
		fprintf(stderr, "switchml trace: no memory for %s\n", rank->path);
	json_decref(trace);
	return rank->uses ? 0 : -1;
}

/* The traces are read once more while the output is written. */
static bool is_output(const struct options *options, const struct trace_rank *rank)
{
	struct stat out, in;

	return stat(options->output, &out) == 0 && stat(rank->path, &in) == 0 &&
	       out.st_dev == in.st_dev && out.st_ino == in.st_ino;
}

/* One file for each rank, all of one job, and none of them the output. */
static int check(const struct options *options)
{
	const struct trace_rank *ranks = options->ranks;

	for (unsigned i = 0; i < options->n; i++) {
		if (is_output(options, &ranks[i])) {
			fprintf(stderr,
				"switchml trace: %s is one of the traces: name another file with "
				"--output\n",
				ranks[i].path);
			return -1;
		}
	}
	for (unsigned i = 1; i < options->n; i++) {
		if (strcmp(ranks[i].job, ranks[0].job) != 0) {
			fprintf(stderr,
				"switchml trace: %s is of job \"%s\", and %s of job \"%s\"\n",
				ranks[0].path, ranks[0].job, ranks[i].path, ranks[i].job);
			return -1;
		}
		for (unsigned j = 0; j < i; j++) {
			if (ranks[j].rank != ranks[i].rank)
				continue;
			fprintf(stderr, "switchml trace: %s and %s are both of rank %u\n",
				ranks[j].path, ranks[i].path, ranks[i].rank);
			return -1;
		}
	}
	return 0;
}

/* ---- out ---- */

static void put_event(FILE *out, json_t *event, double shift, const char **separator)
{
	if (!has_phase(event, "M"))
		json_object_set_new(event, "ts", json_real(time_of(event) + shift));
	fputs(*separator, out);
	json_dumpf(event, out, JSON_COMPACT | JSON_REAL_PRECISION(15));
	*separator = ",\n";
}

static int copy_events(FILE *out, const struct trace_rank *rank, double begin,
		       const char **separator)
{
	json_t *trace = load(rank->path), *event;
	size_t i;

	if (trace == NULL)
		return -1;
	json_array_foreach(json_object_get(trace, "traceEvents"), i, event)
		put_event(out, event, rank->offset - begin, separator);
	json_decref(trace);
	return 0;
}

/* The merged trace begins at about 0: times stay short, and exact. */
static double first_time(const struct options *options)
{
	double first = 0;
	bool any = false;

	for (unsigned i = 0; i < options->n; i++) {
		const struct trace_rank *rank = &options->ranks[i];

		for (size_t u = 0; u < rank->n_uses; u++) {
			double begin = rank->uses[u].begin + rank->offset;

			first = any && first < begin ? first : begin;
			any = true;
		}
	}
	return first;
}

static json_t *describe(const struct options *options)
{
	json_t *all = json_array();

	for (unsigned i = 0; i < options->n; i++) {
		const struct trace_rank *rank = &options->ranks[i];

		json_array_append_new(all, json_pack("{s:i, s:f, s:f, s:i, s:f}", "rank",
						     (int)rank->rank, "clock_offset_us",
						     rank->offset, "clock_error_us", rank->error,
						     "last_in_calls", (int)rank->n_last,
						     "others_waited_us", rank->waited));
	}
	return json_pack("{s:s, s:s, s:o}", "version", SML_VERSION_STRING, "job",
			 options->ranks[0].job, "ranks", all);
}

static int write_merged(const struct options *options)
{
	FILE *out = fopen(options->output, "w");
	const char *separator = "\n";
	json_t *about = describe(options);
	double begin = first_time(options);
	int error = 0, failed;

	if (out == NULL) {
		fprintf(stderr, "switchml trace: cannot write %s: %s\n", options->output,
			strerror(errno));
		json_decref(about);
		return -1;
	}
	fputs("{\"traceEvents\":[", out);
	for (unsigned i = 0; i < options->n && error == 0; i++)
		error = copy_events(out, &options->ranks[i], begin, &separator);
	fputs("\n],\"displayTimeUnit\":\"ms\",\"otherData\":", out);
	json_dumpf(about, out, JSON_COMPACT | JSON_REAL_PRECISION(15));
	fputs("}\n", out);
	json_decref(about);
	failed = ferror(out) != 0;
	failed |= fclose(out) != 0;
	if (failed)
		fprintf(stderr, "switchml trace: cannot write %s\n", options->output);
	return failed ? -1 : error;
}

/* ---- for people ---- */

static void print_table(const struct options *options, int n_calls)
{
	printf("%4s %18s %12s %14s %16s\n", "rank", "clock offset (ms)", "error (ms)",
	       "last in calls", "others waited (s)");
	for (unsigned i = 0; i < options->n; i++) {
		const struct trace_rank *rank = &options->ranks[i];

		printf("%4u %18.3f %12.3f %14u %16.3f%s\n", rank->rank, rank->offset / 1e3,
		       rank->error / 1e3, rank->n_last, rank->waited / 1e6,
		       rank->drifts ? "  (its clock drifts by more than the error)" : "");
	}
	printf("%d calls that all %u ranks made are in the traces; %s opens in ui.perfetto.dev\n",
	       n_calls, options->n, options->output);
}

static int merge(struct options *options)
{
	int n_calls;

	for (unsigned i = 0; i < options->n; i++)
		if (read_rank(&options->ranks[i]) < 0)
			return 1;
	if (check(options) < 0)
		return 1;
	for (unsigned i = 1; i < options->n; i++) {
		if (trace_set_clock(&options->ranks[i], &options->ranks[0]))
			continue;
		fprintf(stderr,
			"switchml trace: %s and %s have no call and no slot's use in common, so "
			"their clocks cannot be compared: are they of the same run?\n",
			options->ranks[0].path, options->ranks[i].path);
		return 1;
	}
	n_calls = trace_find_waits(options->ranks, options->n);
	if (n_calls < 0 || write_merged(options) < 0)
		return 1;
	print_table(options, n_calls);
	return 0;
}

int sml_command_trace(int argc, char **argv)
{
	static const struct argp parser = {
		.options = option_list,
		.parser = parse,
		.args_doc = "merge FILE...",
		.doc = "Put the traces of a job's ranks (SWITCHML_TRACE) on one clock, that of "
		       "the first file, and say which rank the others waited for.",
	};
	struct trace_rank ranks[SML_MAX_WORLD_SIZE] = {{0}};
	struct options options = {.output = "merged.json", .ranks = ranks};
	int rc;

	argp_parse(&parser, argc, argv, 0, NULL, &options);
	rc = merge(&options);
	for (unsigned i = 0; i < options.n; i++)
		free(ranks[i].uses);
	return rc;
}
