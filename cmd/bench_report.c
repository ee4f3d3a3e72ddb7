/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of `switchml bench` (nccl-tests' columns and two of ours), and its JSON file. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/bench.h"

struct bench_report {
	const struct bench_options *options;
	unsigned n_ranks;
	json_t *rows;
	double busbw_sum;
	unsigned n_busbw;
	uint64_t wrong;
};

static const char *wire_name(enum sml_wire wire)
{
	static const char *const names[] = {"int64", "int32", "int16", "int64", "exact"};

	return names[wire];
}

struct bench_report *bench_report_open(const struct bench_options *options, unsigned n_ranks)
{
	struct bench_report *report = calloc(1, sizeof(*report));

	if (report)
		report->rows = json_array();
	if (!report || !report->rows) {
		fprintf(stderr, "switchml bench: no memory for the report\n");
		free(report);
		return NULL;
	}
	report->options = options;
	report->n_ranks = n_ranks;
	printf("# switchml %s: %u ranks, floats as %s, %u calls measured after %u, %u checked\n",
	       SML_VERSION_STRING, n_ranks,
	       wire_name(options->wire ? options->wire : SML_WIRE_INT32), options->iterations,
	       options->warmups, options->checks);
	printf("# %64s %58s\n", "out-of-place", "in-place");
	printf("#%11s %11s %8s %6s", "size", "count", "type", "redop");
	for (int place = 0; place < BENCH_PLACES; place++)
		printf(" %9s %7s %7s %6s %11s %6s", "time", "algbw", "busbw", "#wrong", "wire tx",
		       "#retx");
	printf("\n#%11s %11s %8s %6s", "(B)", "(elements)", "", "");
	for (int place = 0; place < BENCH_PLACES; place++)
		printf(" %9s %7s %7s %6s %11s %6s", "(us)", "(GB/s)", "(GB/s)", "", "(B)", "");
	printf("\n");
	return report;
}

static size_t bytes_of(const struct bench_case *this)
{
	return this->count * sml_type_size(this->type);
}

static double algbw_of(const struct bench_case *this, const struct bench_result *result)
{
	double bytes = (double)bytes_of(this);

	return result->time_us > 0 ? bytes / (result->time_us * 1e3) : 0;
}

/* The load of each link at the same speed with a ring, as nccl-tests computes it. */
static double busbw_of(const struct bench_case *this, const struct bench_result *result)
{
	return algbw_of(this, result) * 2 * (this->n_ranks - 1) / this->n_ranks;
}

static void print_result(const struct bench_report *report, const struct bench_case *this,
			 const struct bench_result *result)
{
	char wrong[24] = "N/A";

	if (report->options->checks)
		snprintf(wrong, sizeof(wrong), "%llu", (unsigned long long)result->wrong);
	printf(" %9.1f %7.3f %7.3f %6s %11llu %6llu", result->time_us, algbw_of(this, result),
	       busbw_of(this, result), wrong, (unsigned long long)result->wire_tx_bytes,
	       (unsigned long long)result->retransmits);
}

static json_t *row_of(const struct bench_case *this, const struct bench_result *result,
		      enum bench_place place)
{
	return json_pack("{s:I, s:I, s:s, s:s, s:s, s:b, s:f, s:f, s:f, s:I, s:I, s:I, s:I}",
			 "size_bytes", (json_int_t)bytes_of(this), "count", (json_int_t)this->count,
			 "type", bench_type_name(this->type), "op", bench_op_name(this->op), "wire",
			 wire_name(this->wire), "in_place", place == BENCH_IN_PLACE, "time_us",
			 result->time_us, "algbw_GBps", algbw_of(this, result), "busbw_GBps",
			 busbw_of(this, result), "wrong", (json_int_t)result->wrong,
			 "wire_tx_bytes", (json_int_t)result->wire_tx_bytes, "retransmits",
			 (json_int_t)result->retransmits, "retransmits_fast",
			 (json_int_t)result->retransmits_fast);
}

void bench_report_row(struct bench_report *report, const struct bench_case *this,
		      const struct bench_result results[BENCH_PLACES])
{
	printf(" %11zu %11zu %8s %6s", bytes_of(this), this->count, bench_type_name(this->type),
	       bench_op_name(this->op));
	for (enum bench_place place = 0; place < BENCH_PLACES; place++) {
		print_result(report, this, &results[place]);
		json_array_append_new(report->rows, row_of(this, &results[place], place));
		report->busbw_sum += busbw_of(this, &results[place]);
		report->n_busbw++;
		report->wrong += results[place].wrong;
	}
	printf("\n");
	fflush(stdout);
}

static int write_json(struct bench_report *report, double busbw)
{
	const struct bench_options *options = report->options;
	json_t *all =
		json_pack("{s:s, s:i, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:I, s:O}", "version",
			  SML_VERSION_STRING, "ranks", (int)report->n_ranks, "wire",
			  wire_name(options->wire ? options->wire : SML_WIRE_INT32), "iterations",
			  (int)options->iterations, "warmups", (int)options->warmups, "checks",
			  (int)options->checks, "drop_per_million", (int)options->drop,
			  "duplicate_per_million", (int)options->duplicate, "reorder_per_million",
			  (int)options->reorder, "average_busbw_GBps", busbw, "wrong",
			  (json_int_t)report->wrong, "rows", report->rows);
	int failed = !all || json_dump_file(all, options->json, JSON_INDENT(1)) < 0;

	if (failed)
		fprintf(stderr, "switchml bench: cannot write %s: %s\n", options->json,
			strerror(errno));
	json_decref(all);
	return failed ? -EIO : 0;
}

int bench_report_close(struct bench_report *report, bool finished)
{
	double busbw = report->n_busbw ? report->busbw_sum / report->n_busbw : 0;
	int error = 0;

	if (!finished)
		printf("# Stopped by an error: missing rows were not measured\n");
	else if (report->options->checks)
		printf("# Wrong elements: %llu %s\n", (unsigned long long)report->wrong,
		       report->wrong ? "FAILED" : "OK");
	else
		printf("# Results were not checked (-c 0)\n");
	printf("# Average bus bandwidth: %.3f GB/s\n", busbw);
	if (report->options->json)
		error = write_json(report, busbw);
	json_decref(report->rows);
	free(report);
	return error;
}
