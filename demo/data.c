/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads and splits the digits, and gives each rank its share. Opens no file: see data.h. */
#include "demo/data.h"

#include <errno.h>
#include <string.h>

#include "demo/random.h"

/* The assembler includes the file unchanged. DEMO_DIGITS_CSV is its path, set in meson.build. */
__asm__(".pushsection .rodata\n"
	".globl demo_digits_begin\n"
	"demo_digits_begin:\n"
	".incbin \"" DEMO_DIGITS_CSV "\"\n"
	".globl demo_digits_end\n"
	"demo_digits_end:\n"
	".popsection\n");

extern const char demo_digits_begin[] __attribute__((visibility("hidden")));
extern const char demo_digits_end[] __attribute__((visibility("hidden")));

uint64_t demo_hash(const void *bytes, size_t length)
{
	const uint8_t *byte = bytes;
	uint64_t hash = 0xcbf29ce484222325u;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ byte[i]) * 0x100000001b3u;
	return hash;
}

int demo_digits_load(struct demo_digits *digits)
{
	const char *letter = demo_digits_begin;

	/* A comma or a newline follows each image. */
	if (demo_digits_end - demo_digits_begin != DEMO_ROWS * (DEMO_PIXELS + 2))
		return -EINVAL;
	for (int row = 0; row < DEMO_ROWS; row++, letter++) {
		for (int i = 0; i < DEMO_PIXELS; i++)
			digits->pixels[row][i] = (float)(*letter++ - 'a') / 16.0f;
		digits->labels[row] = (uint8_t)(*letter++ - 'a');
	}
	return 0;
}

static void swap_rows(struct demo_digits *digits, int a, int b)
{
	float pixels[DEMO_PIXELS];
	uint8_t label = digits->labels[a];

	memcpy(pixels, digits->pixels[a], sizeof(pixels));
	memmove(digits->pixels[a], digits->pixels[b], sizeof(pixels));
	memcpy(digits->pixels[b], pixels, sizeof(pixels));
	digits->labels[a] = digits->labels[b];
	digits->labels[b] = label;
}

void demo_digits_shuffle(struct demo_digits *digits, uint64_t seed)
{
	struct demo_random random = {seed};

	for (int i = DEMO_ROWS - 1; i > 0; i--)
		swap_rows(digits, i, demo_random_below(&random, i + 1));
}

void demo_shard(int n_rows, int rank, int n_ranks, int *first, int *end)
{
	*first = n_rows * rank / n_ranks;
	*end = n_rows * (rank + 1) / n_ranks;
}

static void draw_order(struct demo_batches *batches, int epoch)
{
	struct demo_random random = {batches->seed + (uint64_t)epoch};

	for (int i = 0; i < DEMO_TRAIN_ROWS; i++) {
		int j = demo_random_below(&random, i + 1);

		batches->order[i] = batches->order[j];
		batches->order[j] = i;
	}
	batches->epoch = epoch;
}

void demo_batches_copy(struct demo_batches *batches, int step, int first, int end, float *pixels,
		       uint8_t *labels)
{
	const int *rows = batches->order + step % DEMO_EPOCH_STEPS * DEMO_BATCH_ROWS;
	int epoch = 1 + step / DEMO_EPOCH_STEPS;

	if (epoch != batches->epoch)
		draw_order(batches, epoch);
	for (int i = first; i < end; i++) {
		memcpy(pixels, batches->digits->pixels[rows[i]], DEMO_PIXELS * sizeof(float));
		pixels += DEMO_PIXELS;
		*labels++ = batches->digits->labels[rows[i]];
	}
}
