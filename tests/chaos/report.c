/* SPDX-License-Identifier: BSD-3-Clause */
/* See report.h. */
#include "chaos/report.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/plural.h"

static bool is_good(const struct chaos_options *options, const struct chaos_results *results)
{
	if (options->switch_decides && results->decisions == 0)
		return false;
	return results->changes > 0 && results->wrong == 0 && results->hangs == 0 &&
	       results->false_names == 0 && results->unexpected == 0;
}

static json_t *number(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static int write_json(const struct chaos_options *options, const struct chaos_results *results)
{
	json_t *all = json_pack(
		"{s:s, s:i, s:i, s:b, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
		"s:o, s:o, s:f, s:f, s:b}",
		"version", SML_VERSION_STRING, "ranks", (int)options->bench.local_workers, "seed",
		(int)options->bench.seed, "chaos", options->chaos, "switch_decides",
		options->switch_decides, "changes", number(results->changes), "decisions",
		number(results->decisions), "late", number(results->late), "kills",
		number(results->kills), "returns", number(results->returns), "switch_kills",
		number(results->switch_kills), "sums", number(results->sums), "wrong",
		number(results->wrong), "hangs", number(results->hangs), "untold",
		number(results->untold), "false_names", number(results->false_names), "unexpected",
		number(results->unexpected), "recoveries", number(results->times.n),
		"recovery_median_ms", bench_times_percentile(&results->times, 50) / 1e3,
		"recovery_max_ms", bench_times_percentile(&results->times, 100) / 1e3, "good",
		is_good(options, results));
	int failed = !all || json_dump_file(all, options->bench.json, JSON_INDENT(1)) < 0;

	if (failed)
		fprintf(stderr, "chaos: cannot write %s: %s\n", options->bench.json,
			strerror(errno));
	json_decref(all);
	return failed;
}

#define N(n) (unsigned long long)(n), sml_plural((unsigned)(n))

int chaos_report(const struct chaos_options *options, const struct chaos_results *results)
{
	printf("# Chaos: %llu change%s of the members (%llu kill%s of ranks, %llu return%s, %llu "
	       "kill%s of the switch; --seed %u)\n",
	       N(results->changes), N(results->kills), N(results->returns),
	       N(results->switch_kills), options->bench.seed);
	if (options->switch_decides)
		printf("# The switch decided on %llu of the changes; %llu rank%s asked too late\n",
		       (unsigned long long)results->decisions, N(results->late));
	printf("# %llu sum%s, %llu wrong, %llu hang%s, %llu false name%s, %llu error%s without a "
	       "cause; from a kill to the next sum: %.0f ms median, %.0f ms at most: %s\n",
	       N(results->sums), (unsigned long long)results->wrong, N(results->hangs),
	       N(results->false_names), N(results->unexpected),
	       bench_times_percentile(&results->times, 50) / 1e3,
	       bench_times_percentile(&results->times, 100) / 1e3,
	       is_good(options, results) ? "OK" : "FAILED");
	if (options->bench.json && write_json(options, results))
		return 1;
	return !is_good(options, results);
}
