/* SPDX-License-Identifier: BSD-3-Clause */
/* The demo's data: the digits are complete, and the shards make up their batch. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "demo/data.h"
#include "support/test.h"

static struct demo_digits digits;

/* Of all numbers of the file that DATASET.md names as the source, in their order. */
#define SOURCE_HASH 0x776869cce3795967u

static void load_digits(void)
{
	assert_int_equal(demo_digits_load(&digits), 0);
}

TEST(digits_are_whole)
{
	static uint8_t numbers[DEMO_ROWS][DEMO_PIXELS + 1];

	for (int row = 0; row < DEMO_ROWS; row++) {
		for (int i = 0; i < DEMO_PIXELS; i++) {
			float sixteenths = 16 * digits.pixels[row][i];

			assert_true(sixteenths == truncf(sixteenths));
			numbers[row][i] = (uint8_t)sixteenths;
		}
		numbers[row][DEMO_PIXELS] = digits.labels[row];
	}
	assert_true(demo_hash(numbers, sizeof(numbers)) == SOURCE_HASH);
}

static uint64_t row_hash(const float *pixels, uint8_t label)
{
	return demo_hash(pixels, DEMO_PIXELS * sizeof(float)) + label;
}

static uint64_t sum_of_row_hashes(const struct demo_digits *of)
{
	uint64_t sum = 0;

	for (int row = 0; row < DEMO_ROWS; row++)
		sum += row_hash(of->pixels[row], of->labels[row]);
	return sum;
}

TEST(shuffling_moves_rows_and_keeps_them)
{
	struct demo_digits *a = malloc(sizeof(*a)), *b = malloc(sizeof(*b));

	assert_non_null(a);
	assert_non_null(b);
	*a = *b = digits;
	demo_digits_shuffle(a, 7);
	demo_digits_shuffle(b, 7);
	assert_memory_equal(a, b, sizeof(*a));
	assert_memory_not_equal(a, &digits, sizeof(*a));
	assert_true(sum_of_row_hashes(a) == sum_of_row_hashes(&digits));
	free(a);
	free(b);
}

TEST(shards_cover_each_row_once)
{
	for (int n_ranks = 1; n_ranks <= 64; n_ranks++) {
		int next = 0;

		for (int rank = 0; rank < n_ranks; rank++) {
			int first, end;

			demo_shard(DEMO_BATCH_ROWS, rank, n_ranks, &first, &end);
			assert_int_equal(first, next);
			assert_in_range(end - first, DEMO_BATCH_ROWS / n_ranks,
					(DEMO_BATCH_ROWS + n_ranks - 1) / n_ranks);
			next = end;
		}
		assert_int_equal(next, DEMO_BATCH_ROWS);
	}
}

TEST(ranks_take_the_rows_of_the_batch)
{
	/* Each rank has its own copy of the epoch's order, as in separate processes. */
	static struct demo_batches alone, ranks[5];
	static float whole[DEMO_BATCH_ROWS * DEMO_PIXELS], parts[DEMO_BATCH_ROWS * DEMO_PIXELS];
	uint8_t whole_labels[DEMO_BATCH_ROWS], parts_labels[DEMO_BATCH_ROWS];

	alone = (struct demo_batches){.digits = &digits, .seed = 3};
	for (int rank = 0; rank < 5; rank++)
		ranks[rank] = alone;
	for (int step = 0; step < 2 * DEMO_EPOCH_STEPS; step += 3) {
		demo_batches_copy(&alone, step, 0, DEMO_BATCH_ROWS, whole, whole_labels);
		for (int rank = 0; rank < 5; rank++) {
			int first, end;

			demo_shard(DEMO_BATCH_ROWS, rank, 5, &first, &end);
			demo_batches_copy(&ranks[rank], step, first, end,
					  parts + first * DEMO_PIXELS, parts_labels + first);
		}
		assert_memory_equal(whole, parts, sizeof(whole));
		assert_memory_equal(whole_labels, parts_labels, sizeof(whole_labels));
	}
}

TEST(epoch_deals_no_row_twice_and_no_test_row)
{
	static struct demo_batches batches;
	static float pixels[DEMO_BATCH_ROWS * DEMO_PIXELS];
	static bool dealt[DEMO_TRAIN_ROWS];
	uint8_t labels[DEMO_BATCH_ROWS];

	batches = (struct demo_batches){.digits = &digits, .seed = 3};
	for (int step = 0; step < DEMO_EPOCH_STEPS; step++)
		demo_batches_copy(&batches, step, 0, DEMO_BATCH_ROWS, pixels, labels);
	for (int i = 0; i < DEMO_TRAIN_ROWS; i++) {
		assert_in_range(batches.order[i], 0, DEMO_TRAIN_ROWS - 1);
		assert_false(dealt[batches.order[i]]);
		dealt[batches.order[i]] = true;
	}
}

TESTS_BETWEEN(load_digits, NULL)
