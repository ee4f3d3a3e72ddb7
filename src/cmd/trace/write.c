/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The merged trace. The file gets its name only when it is complete. So a viewer never opens an
 * incomplete file, and a failure leaves the previous file unchanged.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "cmd/trace/trace.h"

#define FORM (JSON_COMPACT | JSON_REAL_PRECISION(15))

struct writer {
	FILE *out;
	const struct trace_options *options;
	const char *separator;
	int error; /* the first of the stream; 0: none */
};

/* 0, or -1: there was no memory, or a text is no UTF-8. */
static int put_json(struct writer *writer, const json_t *value)
{
	if (value == NULL)
		return -1;
	if (json_dumpf(value, writer->out, FORM) == 0)
		return 0;
	if (ferror(writer->out) && writer->error == 0)
		writer->error = errno ? -errno : -EIO;
	return writer->error < 0 ? 0 : -1;
}

/* Name the rank that completed a use, if its trace is here: the others' do not say it. */
static void name_last(const struct trace_options *options, json_t *event)
{
	struct trace_use use, *found;

	if (!trace_has_phase(event, "X") || !trace_read_use(event, &use))
		return;
	found = bsearch(&use, options->uses, options->n_uses, sizeof(use), trace_compare);
	if (found != NULL && found->last != NULL)
		json_object_set_new(json_object_get(event, "args"), "last_rank",
				    json_integer(found->last->rank));
}

static int put_event(struct writer *writer, json_t *event, double shift)
{
	name_last(writer->options, event);
	if (!trace_has_phase(event, "M"))
		json_object_set_new(event, "ts", json_real(trace_time_of(event) + shift));
	fputs(writer->separator, writer->out);
	writer->separator = ",\n";
	return put_json(writer, event);
}

static int copy_events(struct writer *writer, const struct trace_rank *rank, double begin)
{
	json_t *trace = trace_load(rank->path), *event;
	int rc = 0;
	size_t i;

	if (trace == NULL)
		return -1;
	json_array_foreach(json_object_get(trace, "traceEvents"), i, event)
	{
		rc |= put_event(writer, event, rank->offset - begin);
	}
	json_decref(trace);
	if (rc < 0)
		fprintf(stderr, "switchml trace: an event of %s cannot be written\n", rank->path);
	return rc;
}

/* The merged trace begins at about 0: times stay short, and exact. */
static double first_time(const struct trace_options *options)
{
	double first = options->n_uses > 0 ? options->uses[0].begin : 0;

	for (size_t i = 1; i < options->n_uses; i++)
		if (options->uses[i].begin < first)
			first = options->uses[i].begin;
	return first;
}

static json_t *describe(const struct trace_options *options)
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

/* 0, or a negative number after a message. */
static int put_all(struct writer *writer, const struct trace_options *options)
{
	json_t *about = describe(options);
	double begin = first_time(options);
	int rc = 0;

	fputs("{\"traceEvents\":[", writer->out);
	for (unsigned i = 0; i < options->n && rc == 0; i++)
		rc = copy_events(writer, &options->ranks[i], begin);
	fputs("\n],\"displayTimeUnit\":\"ms\",\"otherData\":", writer->out);
	if (rc == 0 && put_json(writer, about) < 0) {
		fprintf(stderr, "switchml trace: the description of the job cannot be written\n");
		rc = -1;
	}
	fputs("}\n", writer->out);
	json_decref(about);
	return rc;
}

static int report_file_error(const char *path, int error)
{
	fprintf(stderr, "switchml trace: cannot write %s: %s\n", path, strerror(-error));
	return -1;
}

/* 0, or what was not written. */
static int close_whole(struct writer *writer)
{
	int rc = writer->error < 0 ? writer->error : ferror(writer->out) ? -EIO : 0;

	if (fclose(writer->out) != 0 && rc == 0)
		rc = -errno;
	return rc;
}

int trace_write(const struct trace_options *options)
{
	const char *path = options->output;
	struct stat about;
	/* A pipe or a device is written as it is. */
	bool special = stat(path, &about) == 0 && !S_ISREG(about.st_mode);
	int fd = special ? -1 : sml_file_begin(path);
	struct writer writer = {.options = options, .separator = "\n"};
	int rc, closed;

	if (!special && fd < 0)
		return report_file_error(path, fd);
	writer.out = special ? fopen(path, "we") : fdopen(fd, "w");
	if (writer.out == NULL)
		return report_file_error(path, -errno);
	rc = put_all(&writer, options);
	closed = close_whole(&writer);
	if (!special)
		closed = sml_file_finish(path, rc < 0 ? rc : closed);
	if (rc == 0 && closed < 0)
		return report_file_error(path, closed);
	return rc;
}
