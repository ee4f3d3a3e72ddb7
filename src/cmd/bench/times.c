/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Percentiles of the times of calls, without keeping them: a histogram whose buckets are a 32nd of
 * a power of two wide, so that a percentile is at most 3 % too high. Histograms of ranks add up.
 */
#include "cmd/bench/bench.h"

/* Times below 2^SUB_BITS ns have a bucket each. */
#define SUB_BITS 5

static unsigned bucket_of(uint64_t ns)
{
	unsigned exponent, bucket;

	if (ns < 1u << SUB_BITS)
		return (unsigned)ns;
	exponent = 63u - (unsigned)__builtin_clzll(ns);
	bucket = ((exponent - SUB_BITS + 1) << SUB_BITS) +
		 ((unsigned)(ns >> (exponent - SUB_BITS)) & ((1u << SUB_BITS) - 1));
	return bucket < BENCH_BUCKETS ? bucket : BENCH_BUCKETS - 1;
}

/* The largest time in it. */
static double end_of(unsigned bucket)
{
	unsigned shift = (bucket >> SUB_BITS) - 1;

	if (bucket < 1u << SUB_BITS)
		return bucket;
	return (double)(((uint64_t)(bucket & ((1u << SUB_BITS) - 1)) + (1u << SUB_BITS) + 1)
			<< shift) -
	       1;
}

void bench_times_add(struct bench_times *times, uint64_t ns)
{
	times->n_in[bucket_of(ns)]++;
	times->n++;
	if (ns > times->longest_ns)
		times->longest_ns = ns;
}

void bench_times_merge(struct bench_times *to, const struct bench_times *from)
{
	for (unsigned i = 0; i < BENCH_BUCKETS; i++)
		to->n_in[i] += from->n_in[i];
	to->n += from->n;
	if (from->longest_ns > to->longest_ns)
		to->longest_ns = from->longest_ns;
}

double bench_times_percentile(const struct bench_times *times, double percent)
{
	double wanted = (double)times->n * percent / 100, longest = (double)times->longest_ns;
	uint64_t n = 0;

	for (unsigned i = 0; i < BENCH_BUCKETS; i++) {
		n += times->n_in[i];
		if (n > 0 && (double)n >= wanted)
			return (end_of(i) < longest ? end_of(i) : longest) / 1e3;
	}
	return longest / 1e3;
}
