/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of `switchml bench` (nccl-tests' columns and two of ours), and its JSON file. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/plural.h"
#include "cmd/bench/bench.h"

struct bench_report {
	const struct bench_options *options;
	unsigned n_ranks;
	json_t *rows;
	double busbw_sum;
	unsigned n_busbw;
	uint64_t wrong;
	uint64_t began_ns, told_ns; /* the progress line: when it was written last */
};

static const char *wire_name(enum sml_wire wire)
{
	static const char *const names[] = {"int64", "int32", "int16", "int64", "exact"};

	return names[wire];
}

static void print_place_names(const struct bench_report *report, const char *const names[10])
{
	unsigned n = report->options->percentiles ? 10 : 6;
	static const int widths[10] = {9, 7, 7, 6, 11, 6, 9, 9, 9, 9};

	for (int place = 0; place < BENCH_PLACES; place++)
		for (unsigned i = 0; i < n; i++)
			printf(" %*s", widths[i], names[i]);
}

static void print_header(const struct bench_report *report)
{
	static const char *const names[] = {"time",  "algbw", "busbw", "#wrong", "wire tx",
					    "#retx", "p50",   "p90",   "p99",	 "max"};
	static const char *const units[] = {"(us)", "(GB/s)", "(GB/s)", "",	"(B)",
					    "",	    "(us)",   "(us)",	"(us)", "(us)"};
	const struct bench_options *options = report->options;
	int more = options->percentiles ? 40 : 0;

	printf("# switchml %s: %s, %u rank%s, floats as %s, %u call%s measured after %u, %u "
	       "checked\n",
	       SML_VERSION_STRING, bench_collective_name(options->collective), report->n_ranks,
	       sml_plural(report->n_ranks),
	       wire_name(options->wire ? options->wire : SML_WIRE_INT32), options->iterations,
	       sml_plural(options->iterations), options->warmups, options->checks);
	printf("# %*s %*s\n", 64 + more / 2, "out-of-place", 58 + more, "in-place");
	printf("#%11s %11s %8s %6s", "size", "count", "type", "redop");
	print_place_names(report, names);
	printf("\n#%11s %11s %8s %6s", "(B)", "(elements)", "", "");
	print_place_names(report, units);
	printf("\n");
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
	report->began_ns = bench_now_ns();
	if (options->nccl_tests)
		bench_nccl_header(options);
	else
		print_header(report);
	return report;
}

static double algbw_of(const struct bench_case *this, const struct bench_result *result)
{
	double bytes = (double)bench_bytes(this);

	return result->time_us > 0 ? bytes / (result->time_us * 1e3) : 0;
}

/* The load of each link at the same speed with a ring, as nccl-tests computes it. */
static double busbw_of(const struct bench_case *this, const struct bench_result *result)
{
	return algbw_of(this, result) * bench_bus_factor(this->collective, this->n_ranks);
}

static const char *op_name(const struct bench_case *this)
{
	return bench_collective_reduces(this->collective) ? bench_op_name(this->op) : "none";
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
	if (report->options->percentiles)
		printf(" %9.1f %9.1f %9.1f %9.1f", result->p50_us, result->p90_us, result->p99_us,
		       result->longest_us);
}

static json_t *row_of(const struct bench_case *this, const struct bench_result *result,
		      enum bench_place place)
{
	return json_pack(
		"{s:s, s:I, s:I, s:s, s:s, s:s, s:b, s:f, s:f, s:f, s:f, s:f, s:f, s:f, "
		"s:I, s:I, s:I, s:I}",
		"collective", bench_collective_name(this->collective), "size_bytes",
		(json_int_t)bench_bytes(this), "count", (json_int_t)this->count, "type",
		bench_type_name(this->type), "op", op_name(this), "wire", wire_name(this->wire),
		"in_place", place == BENCH_IN_PLACE, "time_us", result->time_us, "p50_us",
		result->p50_us, "p90_us", result->p90_us, "p99_us", result->p99_us, "max_us",
		result->longest_us, "algbw_GBps", algbw_of(this, result), "busbw_GBps",
		busbw_of(this, result), "wrong", (json_int_t)result->wrong, "wire_tx_bytes",
		(json_int_t)result->wire_tx_bytes, "retransmits", (json_int_t)result->retransmits,
		"retransmits_fast", (json_int_t)result->retransmits_fast);
}

/* ---- progress ---- */

#define FIRST_PROGRESS_NS 2000000000u
#define PROGRESS_NS	  500000000u

/* Blank it, so that a row has its line. */
static void clear_progress(struct bench_report *report)
{
	if (report->told_ns)
		fprintf(stderr, "\r\033[K");
	report->told_ns = 0;
}

void bench_report_progress(struct bench_report *report, const struct bench_case *this,
			   enum bench_place place, uint64_t n_calls)
{
	uint64_t now_ns = bench_now_ns();

	if (now_ns - report->began_ns < FIRST_PROGRESS_NS ||
	    now_ns - report->told_ns < PROGRESS_NS || !isatty(STDERR_FILENO))
		return;
	report->told_ns = now_ns;
	fprintf(stderr, "\r%llu bytes of %s, %s, %s: %llu calls; %llu s since the start\033[K",
		(unsigned long long)bench_bytes(this), bench_type_name(this->type), op_name(this),
		place == BENCH_IN_PLACE ? "in place" : "out of place", (unsigned long long)n_calls,
		(unsigned long long)((now_ns - report->began_ns) / 1000000000u));
}

/* ---- rows ---- */

static void print_row(const struct bench_report *report, const struct bench_case *this,
		      const struct bench_result results[BENCH_PLACES])
{
	printf(" %11llu %11zu %8s %6s", (unsigned long long)bench_bytes(this), this->count,
	       bench_type_name(this->type), op_name(this));
	for (int place = 0; place < BENCH_PLACES; place++)
		print_result(report, this, &results[place]);
	printf("\n");
	fflush(stdout);
}

void bench_report_row(struct bench_report *report, const struct bench_case *this,
		      const struct bench_result results[BENCH_PLACES])
{
	double bandwidths[BENCH_PLACES][2];

	clear_progress(report);
	for (enum bench_place place = 0; place < BENCH_PLACES; place++) {
		bandwidths[place][0] = algbw_of(this, &results[place]);
		bandwidths[place][1] = busbw_of(this, &results[place]);
		json_array_append_new(report->rows, row_of(this, &results[place], place));
		report->busbw_sum += bandwidths[place][1];
		report->n_busbw++;
		report->wrong += results[place].wrong;
	}
	if (report->options->nccl_tests)
		bench_nccl_row(report->options, this, results, bandwidths);
	else
		print_row(report, this, results);
}

static int write_json(struct bench_report *report, double busbw)
{
	const struct bench_options *options = report->options;
	json_t *all =
		json_pack("{s:s, s:s, s:i, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:I, s:O}",
			  "version", SML_VERSION_STRING, "collective",
			  bench_collective_name(options->collective), "ranks", (int)report->n_ranks,
			  "wire", wire_name(options->wire ? options->wire : SML_WIRE_INT32),
			  "iterations", (int)options->iterations, "warmups", (int)options->warmups,
			  "checks", (int)options->checks, "drop_per_million", (int)options->drop,
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

	clear_progress(report);
	if (!finished)
		printf("# Stopped by an error: missing rows were not measured\n");
	else if (report->options->nccl_tests)
		bench_nccl_footer(report->options, report->wrong, busbw);
	else if (report->options->checks)
		printf("# Wrong elements: %llu %s\n", (unsigned long long)report->wrong,
		       report->wrong ? "FAILED" : "OK");
	else
		printf("# Results were not checked (-c 0)\n");
	if (!report->options->nccl_tests)
		printf("# Average bus bandwidth: %.3f GB/s\n", busbw);
	if (report->options->json)
		error = write_json(report, busbw);
	json_decref(report->rows);
	free(report);
	return error;
}
