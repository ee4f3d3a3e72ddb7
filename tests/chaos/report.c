/* SPDX-License-Identifier: BSD-3-Clause */
/* The results of build/tests/chaos --chaos-ranks: keeper.h. */
#include "chaos/keeper.h"

#include <stdio.h>

#include "base/plural.h"

static bool is_good(const struct chaos_options *options, const struct chaos_results *results)
{
	if (options->switch_decides && results->decisions == 0)
		return false;
	return results->changes > 0 && results->wrong == 0 && results->hangs == 0 &&
	       results->false_names == 0 && results->unexpected == 0;
}

#define N(n) (unsigned long long)(n), sml_plural((unsigned)(n))

int chaos_report(void)
{
	const struct chaos_options *options = keeper.options;
	const struct chaos_results *results = &keeper.results;

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
	return !is_good(options, results);
}
