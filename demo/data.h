/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handwritten digits (DATASET.md), and who learns from which of them when.
 * The images are part of the program, so that it runs anywhere.
 *
 * What to remember: a batch is a function of the seed and the step alone, and
 * the ranks' shards of it cover each of its rows exactly once.
 */
#ifndef SML_DEMO_DATA_H
#define SML_DEMO_DATA_H

#include <stddef.h>
#include <stdint.h>

enum {
	DEMO_ROWS = 1797,
	DEMO_PIXELS = 64,
	DEMO_CLASSES = 10,
	DEMO_TEST_ROWS = 360,
	DEMO_TRAIN_ROWS = DEMO_ROWS - DEMO_TEST_ROWS,
	DEMO_BATCH_ROWS = 128,
	DEMO_EPOCH_STEPS =
		DEMO_TRAIN_ROWS / DEMO_BATCH_ROWS, /* the odd rows wait for a later epoch */
};

/* Pixels are sixteenths, 0 to 1: exact in float32. Training rows first, then the test rows. */
struct demo_digits {
	float pixels[DEMO_ROWS][DEMO_PIXELS];
	uint8_t labels[DEMO_ROWS];
};

/* FNV-1a over bytes, from its usual start: a checksum, no protection. */
uint64_t demo_hash(const void *bytes, size_t length);

/* The program's own copy of digits.csv. */
const char *demo_digits_text(size_t *length);

/*
 * Read the text into rows in the order of the file. Returns 0, or -EINVAL:
 * the checksum, the number of rows, or a value is wrong.
 */
int demo_digits_load(struct demo_digits *digits, const char *text, size_t length);

/* Put the rows into an order drawn from the seed: this makes the split into training and test. */
void demo_digits_shuffle(struct demo_digits *digits, uint64_t seed);

/* Part `rank` of n_rows: [*first, *end). Parts differ in length by at most one. */
void demo_shard(int n_rows, int rank, int n_ranks, int *first, int *end);

/* The batches of a run: one epoch's order at a time. Zero-fill, then set digits and seed. */
struct demo_batches {
	const struct demo_digits *digits;
	uint64_t seed;
	int epoch; /* whose order this is, counted from 1; 0: none yet */
	int order[DEMO_TRAIN_ROWS];
};

/* Copy rows [first, end) of the batch of this step (from 0 on). */
void demo_batches_copy(struct demo_batches *batches, int step, int first, int end, float *pixels,
		       uint8_t *labels);

#endif
