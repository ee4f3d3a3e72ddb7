/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handwritten digits (DATASET.md), and which rank learns from which of them at which
 * step. The images are part of the program, so that it runs everywhere.
 *
 * What to remember: a batch is a function of the seed and the step alone, and the ranks'
 * shards of a batch cover each of its rows exactly once.
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
		DEMO_TRAIN_ROWS / DEMO_BATCH_ROWS, /* the remaining rows wait for a later epoch */
};

/* Pixels are 0 to 1 in sixteenths, which float32 holds exactly. Training rows come first. */
struct demo_digits {
	float pixels[DEMO_ROWS][DEMO_PIXELS];
	uint8_t labels[DEMO_ROWS];
};

/* FNV-1a over bytes, with its usual start value: a checksum that does not protect from attacks. */
uint64_t demo_hash(const void *bytes, size_t length);

/* Read the rows in the order of digits.csv. Returns 0, or -EINVAL if it has another length. */
int demo_digits_load(struct demo_digits *digits);

/* Put the rows into an order drawn from the seed. This also decides which rows are test rows. */
void demo_digits_shuffle(struct demo_digits *digits, uint64_t seed);

/* Part `rank` of n_rows: [*first, *end). Parts differ in length by at most one. */
void demo_shard(int n_rows, int rank, int n_ranks, int *first, int *end);

/*
 * The batches of a run; the order is drawn for one epoch at a time. Fill with zeros, then
 * set digits and seed.
 */
struct demo_batches {
	const struct demo_digits *digits;
	uint64_t seed;
	int epoch; /* the epoch of this order, counted from 1; 0 if there is none yet */
	int order[DEMO_TRAIN_ROWS];
};

/* Copy rows [first, end) of the batch of this step. Steps count from 0. */
void demo_batches_copy(struct demo_batches *batches, int step, int first, int end, float *pixels,
		       uint8_t *labels);

#endif
