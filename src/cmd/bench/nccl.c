/* SPDX-License-Identifier: BSD-3-Clause */
/* `switchml bench --nccl-tests`: the columns and the last lines of nccl-tests, for its parsers. */
#include <stdio.h>
#include <string.h>

#include "cmd/bench/bench.h"
#include "core/names.h"

void bench_nccl_header(const struct bench_options *options)
{
	static const char row[] =
		"# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s %s\n";

	printf("# Collective test starting: %s_perf\n", bench_collective_name(options->collective));
	printf("# nThread 1 nGpus 1 minBytes %llu maxBytes %llu step: %llu(%s) warmup iters: %u "
	       "iters: %u agg iters: 1 validation: %u graph: 0\n#\n#\n",
	       (unsigned long long)options->min_bytes, (unsigned long long)options->max_bytes,
	       (unsigned long long)(options->step_bytes ? options->step_bytes : options->factor),
	       options->step_bytes ? "bytes" : "factor", options->warmups, options->iterations,
	       options->checks);
	printf("# %10s  %12s  %8s  %6s  %6s%23s%31s%10s\n", "", "", "", "", "", "out-of-place",
	       "in-place", "");
	printf(row, "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong",
	       "time", "algbw", "busbw", "#wrong", "");
	printf(row, "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)",
	       "(GB/s)", "(GB/s)", "", "");
}

/* As many decimals as fit, and at most two. */
static void print_number(double value, int width)
{
	char text[64];

	for (int decimals = 2; decimals >= 0; decimals--)
		if (snprintf(text, sizeof(text), "%*.*f", width, decimals, value) <= width)
			break;
	if ((int)strlen(text) > width)
		snprintf(text, sizeof(text), "%.*e", width >= 7 ? 1 : 0, value);
	printf("  %s", text);
}

void bench_nccl_row(const struct bench_options *options, const struct bench_case *this,
		    const struct bench_result results[BENCH_PLACES],
		    const double bandwidths[BENCH_PLACES][2])
{
	bool has_root = this->collective == BENCH_BROADCAST || this->collective == BENCH_REDUCE;
	int root = has_root ? (int)this->root : -1;

	printf("%12llu  %12zu  %8s  %6s  %6d", (unsigned long long)bench_bytes(this), this->count,
	       bench_type_name(this->type),
	       bench_collective_reduces(this->collective) ? sml_op_name(this->op) : "none", root);
	for (int place = 0; place < BENCH_PLACES; place++) {
		print_number(results[place].time_us, 7);
		print_number(bandwidths[place][0], 6);
		print_number(bandwidths[place][1], 6);
		if (options->checks)
			printf("  %6g", (double)results[place].wrong);
		else
			printf("    N/A");
	}
	printf("\n");
	fflush(stdout);
}

void bench_nccl_footer(const struct bench_options *options, uint64_t wrong, double busbw)
{
	printf("# %-20s : %llu %s\n", "Out of bounds values", (unsigned long long)wrong,
	       wrong ? "FAILED" : "OK");
	printf("# %-20s : %g \n#\n", "Avg bus bandwidth", busbw);
	printf("# Collective test concluded: %s_perf\n",
	       bench_collective_name(options->collective));
}
