/* SPDX-License-Identifier: BSD-3-Clause */
/* `switchml bench`: does it notice wrong results, and does it compute what it prints? */
#include <stdlib.h>

#include "cmd/bench/bench.h"
#include "support/test.h"

#define N     3
#define COUNT 3001

static const enum sml_type types[] = {SML_FLOAT32, SML_FLOAT64, SML_INT64, SML_INT16, SML_UINT8};

/* A buffer of elements with one bit changed: of the first, a middle, or the last one. */
static void expect_one_wrong(const struct bench_case *this, unsigned rank, char *result,
			     size_t n_elements)
{
	const size_t places[] = {0, n_elements / 2, n_elements - 1};
	size_t bytes = sml_type_size(this->type);

	assert_int_equal(bench_collective_wrong(this, rank, result), 0);
	for (unsigned i = 0; i < 3; i++) {
		char *element = result + bytes * places[i];

		*element ^= 1;
		assert_int_equal(bench_collective_wrong(this, rank, result), 1);
		*element ^= 1;
	}
}

TEST(changed_elements_of_moved_data_are_counted)
{
	for (unsigned t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
		struct bench_case this = {.collective = BENCH_ALL_GATHER,
					  .root = 2,
					  .type = types[t],
					  .count = COUNT,
					  .n_ranks = N,
					  .seed = 7};
		size_t part = COUNT * sml_type_size(this.type);
		char *all = malloc(N * part);

		for (unsigned rank = 0; rank < N; rank++)
			bench_collective_fill(&this, rank, all + rank * part);
		expect_one_wrong(&this, 1, all, N * (size_t)COUNT);
		this.collective = BENCH_BROADCAST;
		expect_one_wrong(&this, 0, all + 2 * part, COUNT);
		/* Another rank's data are not the root's. */
		assert_true(bench_collective_wrong(&this, 0, all) > COUNT / 2);
		free(all);
	}
}

/* Integers, whose sum is exact: rank r's part begins at r x count. */
TEST(a_reduced_part_is_compared_with_that_part)
{
	struct bench_case this = {.collective = BENCH_REDUCE_SCATTER,
				  .type = SML_INT32,
				  .op = SML_SUM,
				  .count = COUNT,
				  .n_ranks = N,
				  .seed = 7};
	static uint32_t sum[N * COUNT], input[N * COUNT];

	for (unsigned rank = 0; rank < N; rank++) {
		bench_collective_fill(&this, rank, input);
		for (unsigned i = 0; i < N * COUNT; i++)
			sum[i] += input[i];
	}
	for (unsigned rank = 0; rank < N; rank++)
		expect_one_wrong(&this, rank, (char *)(sum + rank * COUNT), COUNT);
	assert_true(bench_collective_wrong(&this, 1, sum) > COUNT / 2);
}

TEST(sizes_and_factors_are_those_of_nccl_tests)
{
	static const struct {
		enum bench_collective collective;
		uint64_t bytes;
		double factor;
	} rows[] = {
		{BENCH_ALL_REDUCE, 400, 1.5},
		{BENCH_ALL_GATHER, 1600, 0.75},
		{BENCH_REDUCE_SCATTER, 1600, 0.75},
		{BENCH_BROADCAST, 400, 1},
		{BENCH_REDUCE, 400, 1},
		{BENCH_BARRIER, 400, 1},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct bench_case this = {.collective = rows[i].collective,
						.type = SML_FLOAT32,
						.count = 100,
						.n_ranks = 4};

		assert_int_equal(bench_bytes(&this), rows[i].bytes);
		assert_true(bench_bus_factor(rows[i].collective, 4) == rows[i].factor);
	}
}

/* Times from 1 ns to 10 s: within 3 % of the exact percentile, and never below it. */
TEST(percentiles_are_at_most_three_percent_too_high)
{
	static struct bench_times times, half;
	static const double percents[] = {1, 50, 90, 99, 100};

	for (uint64_t scale = 1; scale <= 10000000; scale *= 10) {
		times = half = (struct bench_times){0};
		for (uint64_t i = 1; i <= 1000; i++)
			bench_times_add(i % 2 ? &times : &half, i * scale);
		bench_times_merge(&times, &half);
		for (unsigned i = 0; i < sizeof(percents) / sizeof(percents[0]); i++) {
			double exact = 10 * percents[i] * (double)scale / 1e3;
			double got = bench_times_percentile(&times, percents[i]);

			assert_true(got >= exact * 0.999999 && got <= exact * 1.0313);
		}
		assert_true(bench_times_percentile(&times, 100) == (double)scale);
	}
}
