/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of `switchml bench` (nccl-tests' columns and two of ours), and its JSON file. A
 * terminal that is too narrow gets fewer columns; a pipe or a file gets all of them.
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/plural.h"
#include "cmd/bench/bench.h"
#include "cmd/shared/columns.h"
#include "core/names.h"
#include "lib/settings/settings.h"

#define FIRST_PROGRESS_NS 2000000000u
#define PROGRESS_NS	  500000000u
#define FIRST_LINE_NS	  5000000000u

struct bench_report {
	const struct bench_options *options;
	unsigned n_ranks;
	struct sml_columns columns;
	json_t *rows;
	int json_fd; /* standard output, if the results go there, and the table to standard error */
	double busbw_sum;
	unsigned n_busbw;
	uint64_t wrong;
	uint64_t began_ns, told_ns; /* a terminal's progress line: when it was written last */
	uint64_t said_ns, quiet_ns; /* elsewhere: the last line, and until when none must follow */
};

#define CASE_COLUMNS  4
#define PLACE_COLUMNS 10
#define TIMES	      6 /* of a place: so many columns without percentiles */
#define MOST_COLUMNS  (CASE_COLUMNS + BENCH_PLACES * PLACE_COLUMNS)
#define BYTES_WIDTH   11
#define EVERY_COLUMN  10000

/* clang-format off */
#define PLACE                                                                                      \
	{"time", 9, 0, false}, {"algbw", 7, 8, false}, {"busbw", 7, 0, false},                     \
	{"#wrong", 6, 6, false}, {"wire tx", 11, 1, false}, {"#retx", 6, 4, false},                \
	{"p50", 9, 9, false}, {"p90", 9, 3, false}, {"p99", 9, 10, false}, {"max", 9, 5, false}
/* clang-format on */
static const struct sml_column columns[MOST_COLUMNS] = {
	{"size", BYTES_WIDTH, 0, false},
	{"count", 11, 2, false},
	{"type", 8, 0, false},
	{"redop", 6, 7, false},
	PLACE,
	PLACE,
};

static unsigned first_of(const struct bench_report *report, int place)
{
	unsigned n = report->options->percentiles ? PLACE_COLUMNS : TIMES;

	return CASE_COLUMNS + (unsigned)place * n;
}

/* Of the terminal, without the '#' or blank before each line; of all columns elsewhere. */
static int room(void)
{
	struct winsize size;

	if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 ||
	    size.ws_col < 2)
		return EVERY_COLUMN;
	return size.ws_col - 2; /* a full last column would begin a new line in some terminals */
}

static void fit_columns(struct bench_report *report)
{
	static struct sml_column chosen[MOST_COLUMNS];
	unsigned n = 0;

	for (unsigned i = 0; i < MOST_COLUMNS; i++)
		if (i < CASE_COLUMNS || report->options->percentiles ||
		    (i - CASE_COLUMNS) % PLACE_COLUMNS < TIMES)
			chosen[n++] = columns[i];
	report->columns = sml_columns_fit(chosen, n, BYTES_WIDTH, room());
}

static void print_places(const struct bench_report *report)
{
	int width = sml_columns_width(&report->columns, first_of(report, 0), first_of(report, 1));
	int before = sml_columns_width(&report->columns, 0, CASE_COLUMNS);

	printf("#%*s%*s\n", before + 1 + (width + 12) / 2, "out-of-place",
	       width + 1 - (width + 12) / 2 + (width + 8) / 2, "in-place");
}

static void print_units(const struct bench_report *report)
{
	static const char *const of_case[CASE_COLUMNS] = {"(B)", "(elements)", "", ""};
	static const char *const of_place[PLACE_COLUMNS] = {
		"(us)", "(GB/s)", "(GB/s)", "", "(B)", "", "(us)", "(us)", "(us)", "(us)"};
	char line[SML_COLUMNS_LINE] = "";
	size_t length = sml_columns_add(&report->columns, 0, CASE_COLUMNS, of_case, line, 0);

	for (int place = 0; place < BENCH_PLACES; place++)
		length = sml_columns_add(&report->columns, first_of(report, place),
					 first_of(report, place + 1), of_place, line, length);
	while (length > 0 && line[length - 1] == ' ')
		length--;
	printf("#%.*s\n", (int)length, line);
}

static void print_header(const struct bench_report *report)
{
	const struct bench_options *options = report->options;
	char heads[SML_COLUMNS_LINE];

	printf("# switchml %s: %s, %u rank%s, %s wire, %u call%s measured after %u, %u "
	       "checked\n",
	       SML_VERSION_STRING, bench_collective_name(options->collective), report->n_ranks,
	       sml_plural(report->n_ranks), sml_wire_name(options->wire), options->iterations,
	       sml_plural(options->iterations), options->warmups, options->checks);
	print_places(report);
	sml_columns_heads(&report->columns, heads);
	printf("#%s\n", heads);
	print_units(report);
	fflush(stdout);
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
	report->json_fd = -1;
	if (options->json && strcmp(options->json, "-") == 0) {
		report->json_fd = dup(STDOUT_FILENO);
		dup2(STDERR_FILENO, STDOUT_FILENO);
	}
	report->options = options;
	report->n_ranks = n_ranks;
	report->began_ns = report->said_ns = sml_now_ns();
	report->quiet_ns = FIRST_LINE_NS;
	fit_columns(report);
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
	return bench_collective_reduces(this->collective) ? sml_op_name(this->op) : "none";
}

#define CELL_BYTES 24

/* Small values get more decimals, so that a rate is never 0.000. */
static const char *bandwidth(char text[CELL_BYTES], double value)
{
	int decimals = 3;

	while (value > 0 && decimals < 5 && value * pow(10, decimals) < 10)
		decimals++;
	if (value > 0 && value * 1e5 < 1)
		snprintf(text, CELL_BYTES, "%.1e", value);
	else
		snprintf(text, CELL_BYTES, "%.*f", decimals, value);
	return text;
}

static size_t add_result(const struct bench_report *report, const struct bench_case *this,
			 const struct bench_result *result, int place, char line[SML_COLUMNS_LINE],
			 size_t length)
{
	const double times[] = {result->time_us, result->p50_us, result->p90_us, result->p99_us,
				result->longest_us};
	const uint64_t counts[] = {result->wrong, result->wire_tx_bytes, result->retransmits};
	char t[5][CELL_BYTES], n[3][CELL_BYTES], alg[CELL_BYTES], bus[CELL_BYTES];

	for (unsigned i = 0; i < 5; i++)
		snprintf(t[i], CELL_BYTES, "%.1f", times[i]);
	for (unsigned i = 0; i < 3; i++)
		snprintf(n[i], CELL_BYTES, "%llu", (unsigned long long)counts[i]);
	const char *const cells[PLACE_COLUMNS] = {
		t[0],
		bandwidth(alg, algbw_of(this, result)),
		bandwidth(bus, busbw_of(this, result)),
		report->options->checks ? n[0] : "N/A",
		n[1],
		n[2],
		t[1],
		t[2],
		t[3],
		t[4],
	};

	return sml_columns_add(&report->columns, first_of(report, place),
			       first_of(report, place + 1), cells, line, length);
}

static json_t *row_of(const struct bench_case *this, const struct bench_result *result,
		      enum bench_placement place)
{
	return json_pack("{s:s, s:I, s:I, s:s, s:s, s:s, s:b, s:f, s:f, s:f, s:f, s:f, s:f, s:f, "
			 "s:I, s:I, s:I, s:I}",
			 "collective", bench_collective_name(this->collective), "size_bytes",
			 (json_int_t)bench_bytes(this), "count", (json_int_t)this->count, "type",
			 bench_type_name(this->type), "op", op_name(this), "wire",
			 sml_wire_name(this->type == SML_FLOAT64 && !this->wire ? SML_WIRE_INT64
										: this->wire),
			 "in_place", place == BENCH_IN_PLACE, "time_us", result->time_us, "p50_us",
			 result->p50_us, "p90_us", result->p90_us, "p99_us", result->p99_us,
			 "max_us", result->longest_us, "algbw_GBps", algbw_of(this, result),
			 "busbw_GBps", busbw_of(this, result), "wrong", (json_int_t)result->wrong,
			 "wire_tx_bytes", (json_int_t)result->wire_tx_bytes, "retransmits",
			 (json_int_t)result->retransmits, "retransmits_fast",
			 (json_int_t)result->retransmits_fast);
}

/* ---- progress ---- */

/* Blank it, so that a row has its line. */
static void clear_progress(struct bench_report *report)
{
	if (report->told_ns)
		fprintf(stderr, "\r\033[K");
	report->told_ns = 0;
	report->said_ns = sml_now_ns();
	report->quiet_ns = FIRST_LINE_NS;
}

/* *terminal: one line that changes. A file gets new ones, ever less often. */
static bool is_progress_due(struct bench_report *report, uint64_t now_ns, bool *terminal)
{
	if (now_ns - report->began_ns < FIRST_PROGRESS_NS || now_ns - report->told_ns < PROGRESS_NS)
		return false;
	*terminal = isatty(STDERR_FILENO);
	if (*terminal) {
		report->told_ns = now_ns;
		return true;
	}
	if (now_ns - report->said_ns < report->quiet_ns)
		return false;
	report->said_ns = now_ns;
	report->quiet_ns *= 2;
	return true;
}

void bench_report_progress(struct bench_report *report, const struct bench_case *this,
			   enum bench_placement place, uint64_t n_calls)
{
	uint64_t now_ns = sml_now_ns();
	bool terminal;

	if (!is_progress_due(report, now_ns, &terminal))
		return;
	fprintf(stderr, "%s%llu bytes of %s, %s, %s: %llu calls; %llu s since the start%s",
		terminal ? "\r" : "# ", (unsigned long long)bench_bytes(this),
		bench_type_name(this->type), op_name(this),
		place == BENCH_IN_PLACE ? "in place" : "out of place", (unsigned long long)n_calls,
		(unsigned long long)((now_ns - report->began_ns) / 1000000000u),
		terminal ? "\033[K" : "\n");
}

/* ---- rows ---- */

static void print_row(const struct bench_report *report, const struct bench_case *this,
		      const struct bench_result results[BENCH_PLACES])
{
	char size[CELL_BYTES], count[CELL_BYTES], line[SML_COLUMNS_LINE] = "";
	const char *const cells[CASE_COLUMNS] = {size, count, bench_type_name(this->type),
						 op_name(this)};
	size_t length;

	snprintf(size, sizeof(size), "%llu", (unsigned long long)bench_bytes(this));
	snprintf(count, sizeof(count), "%zu", this->count);
	length = sml_columns_add(&report->columns, 0, CASE_COLUMNS, cells, line, 0);
	for (int place = 0; place < BENCH_PLACES; place++)
		length = add_result(report, this, &results[place], place, line, length);
	printf(" %s\n", line);
	fflush(stdout);
}

void bench_report_row(struct bench_report *report, const struct bench_case *this,
		      const struct bench_result results[BENCH_PLACES])
{
	double bandwidths[BENCH_PLACES][2];

	clear_progress(report);
	for (enum bench_placement place = 0; place < BENCH_PLACES; place++) {
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
	json_t *all = json_pack(
		"{s:s, s:s, s:i, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:I, s:O}", "version",
		SML_VERSION_STRING, "collective", bench_collective_name(options->collective),
		"ranks", (int)report->n_ranks, "wire", sml_wire_name(options->wire), "iterations",
		(int)options->iterations, "warmups", (int)options->warmups, "checks",
		(int)options->checks, "drop_per_million", (int)options->drop,
		"duplicate_per_million", (int)options->duplicate, "reorder_per_million",
		(int)options->reorder, "average_busbw_GBps", busbw, "wrong",
		(json_int_t)report->wrong, "rows", report->rows);
	int failed = !all || (report->json_fd >= 0
				      ? json_dumpfd(all, report->json_fd, JSON_INDENT(1))
				      : json_dump_file(all, options->json, JSON_INDENT(1))) < 0;

	if (failed)
		fprintf(stderr, "switchml bench: cannot write %s: %s\n", options->json,
			strerror(errno));
	json_decref(all);
	return failed ? -EIO : 0;
}

int bench_report_close(struct bench_report *report, bool finished)
{
	double busbw = report->n_busbw ? report->busbw_sum / report->n_busbw : 0;
	char average[CELL_BYTES];
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
		printf("# Average bus bandwidth: %s GB/s\n", bandwidth(average, busbw));
	if (report->options->json)
		error = write_json(report, busbw);
	json_decref(report->rows);
	free(report);
	return error;
}
