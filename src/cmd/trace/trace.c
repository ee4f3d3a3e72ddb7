/* SPDX-License-Identifier: BSD-3-Clause */
/* `switchml trace merge`: the traces of all ranks on one clock. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/plural.h"
#include "cmd/shared/columns.h"
#include "cmd/shared/command.h"
#include "cmd/trace/trace.h"

enum { OPTION_OUTPUT = 256 };

static const struct argp_option option_list[] = {
	{"output", OPTION_OUTPUT, "FILE", 0, "Write the merged trace to this file (merged.json)",
	 0},
	{0},
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
	struct trace_options *options = state->input;

	switch (key) {
	case OPTION_OUTPUT:
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
			argp_error(state, "name the files of the ranks: merge FILE...");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* ---- in ---- */

/* A rank makes its file when it joins, and fills it when it leaves. */
static bool is_empty(FILE *file)
{
	int first = getc(file);

	if (first == EOF)
		return ferror(file) == 0;
	ungetc(first, file);
	return false;
}

/* NULL, and why: "" if a message is printed already. */
static json_t *parse_file(FILE *file, const char *path, char *why, size_t bytes)
{
	json_error_t error;
	json_t *trace;

	if (is_empty(file)) {
		fprintf(stderr,
			"switchml trace: %s is empty: its rank was killed, or has not closed its "
			"context yet\n",
			path);
		*why = '\0';
		return NULL;
	}
	trace = json_loadf(file, 0, &error);
	snprintf(why, bytes, "%s", trace ? "it has no traceEvents and otherData" : error.text);
	return trace;
}

json_t *trace_load(const char *path)
{
	const char *cannot;
	FILE *file = sml_file_read(path, &cannot);
	char why[JSON_ERROR_TEXT_LENGTH];
	json_t *trace;

	if (file == NULL) {
		fprintf(stderr,
			"switchml trace: cannot read %s: %s; a rank with SWITCHML_RECORD=trace:… "
			"writes its "
			"file when it leaves the job\n",
			path, cannot);
		return NULL;
	}
	trace = parse_file(file, path, why, sizeof(why));
	fclose(file);
	if (trace && json_is_array(json_object_get(trace, "traceEvents")) &&
	    json_is_object(json_object_get(trace, "otherData")))
		return trace;
	if (*why != '\0')
		fprintf(stderr, "switchml trace: %s is not a trace of SWITCHML_RECORD: %s\n", path,
			why);
	json_decref(trace);
	return NULL;
}

static uint64_t number_of(const json_t *object, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(object, name));
}

bool trace_has_phase(const json_t *event, const char *phase)
{
	const char *text = json_string_value(json_object_get(event, "ph"));

	return text && strcmp(text, phase) == 0;
}

double trace_time_of(const json_t *event)
{
	return json_number_value(json_object_get(event, "ts"));
}

bool trace_read_use(const json_t *event, struct trace_use *use)
{
	const json_t *args = json_object_get(event, "args");

	*use = (struct trace_use){.call = (uint32_t)number_of(args, "call"),
				  .begin = trace_time_of(event)};
	if (trace_has_phase(event, "X")) {
		use->what = number_of(args, "epoch") << 32 | number_of(args, "use");
		use->where = number_of(args, "stripe") << 16 | number_of(args, "slot");
		use->was_last = json_is_true(json_object_get(args, "was_last"));
		use->end = use->begin + json_number_value(json_object_get(event, "dur"));
		return true;
	}
	use->where = TRACE_CALL;
	/* A call that did not end says nothing about other ranks. */
	return trace_has_phase(event, "b") && !json_is_true(json_object_get(args, "unfinished"));
}

/* A call's begin and its end follow each other. */
static void read_uses(struct trace_rank *rank, const json_t *events)
{
	size_t n = json_array_size(events);

	for (size_t i = 0; i < n; i++) {
		const json_t *event = json_array_get(events, i);
		struct trace_use use;

		if (!trace_read_use(event, &use))
			continue;
		if (use.where == TRACE_CALL) {
			const json_t *end = json_array_get(events, i + 1);

			if (!trace_has_phase(end, "e"))
				continue;
			use.end = trace_time_of(end);
		}
		rank->uses[rank->n_uses++] = use;
	}
	qsort(rank->uses, rank->n_uses, sizeof(*rank->uses), trace_compare);
}

static int read_rank(struct trace_rank *rank)
{
	json_t *trace = trace_load(rank->path), *about, *events;
	const json_t *job;

	if (trace == NULL)
		return -1;
	about = json_object_get(trace, "otherData");
	events = json_object_get(trace, "traceEvents");
	job = json_object_get(about, "job");
	rank->rank = (unsigned)number_of(about, "rank");
	rank->job = strdup(json_is_string(job) ? json_string_value(job) : "");
	rank->uses = calloc(json_array_size(events) + 1, sizeof(*rank->uses));
	if (rank->uses && rank->job)
		read_uses(rank, events);
	else
		fprintf(stderr, "switchml trace: no memory for %s\n", rank->path);
	json_decref(trace);
	return rank->uses && rank->job ? 0 : -1;
}

/* The traces are read once more while the output is written. */
static bool is_output(const struct trace_options *options, const struct trace_rank *rank)
{
	struct stat out, in;

	return stat(options->output, &out) == 0 && stat(rank->path, &in) == 0 &&
	       out.st_dev == in.st_dev && out.st_ino == in.st_ino;
}

/* One file for each rank, all of one job, and none of them the output. */
static int check(const struct trace_options *options)
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

/* ---- for people ---- */

static void print_table(const struct trace_options *options, int n_calls)
{
	printf("%4s %18s %12s %14s %16s\n", "rank", "clock offset (ms)", "error (ms)",
	       "last in calls", "others waited (s)");
	for (unsigned i = 0; i < options->n; i++) {
		const struct trace_rank *rank = &options->ranks[i];

		printf("%4u %18.3f %12.3f %14u %16.3f%s\n", rank->rank,
		       sml_without_minus_zero(rank->offset / 1e3, 0.001), rank->error / 1e3,
		       rank->n_last, rank->waited / 1e6,
		       rank->drifts ? "  (its clock drifts by more than the error)" : "");
	}
	printf("%d call%s that all %u rank%s made %s in the traces; %s opens in ui.perfetto.dev\n",
	       n_calls, sml_plural((unsigned)n_calls), options->n, sml_plural(options->n),
	       n_calls == 1 ? "is" : "are", options->output);
}

static int merge(struct trace_options *options)
{
	int n_calls;

	for (unsigned i = 0; i < options->n; i++)
		if (read_rank(&options->ranks[i]) < 0)
			return (int)argp_err_exit_status;
	if (check(options) < 0)
		return (int)argp_err_exit_status;
	for (unsigned i = 1; i < options->n; i++) {
		if (trace_set_clock(&options->ranks[i], &options->ranks[0]))
			continue;
		fprintf(stderr,
			"switchml trace: %s and %s have no call and no slot's use in common, so "
			"their clocks cannot be compared: are they of the same run?\n",
			options->ranks[0].path, options->ranks[i].path);
		return 1;
	}
	n_calls = trace_find_waits(options);
	if (n_calls < 0 || trace_write(options) < 0)
		return 1;
	print_table(options, n_calls);
	return 0;
}

int sml_command_trace(int argc, char **argv)
{
	static const struct argp parser = {
		.options = option_list,
		.parser = parse_option,
		.args_doc = "merge FILE...",
		.doc = "Put the traces of a job's ranks (SWITCHML_RECORD) on one clock, that of "
		       "the first file, and say which rank the others waited for.",
	};
	struct trace_rank ranks[SML_MAX_WORLD_SIZE] = {{0}};
	struct trace_options options = {.output = "merged.json", .ranks = ranks};
	int rc;

	sml_options_parse(&parser, argc, argv, &options);
	rc = merge(&options);
	for (unsigned i = 0; i < options.n; i++) {
		free(ranks[i].uses);
		free(ranks[i].job);
	}
	free(options.uses);
	return rc;
}
