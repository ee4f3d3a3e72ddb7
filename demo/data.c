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
	".byte 0\n"
	".popsection\n");

extern const char demo_digits_begin[] __attribute__((visibility("hidden")));
extern const char demo_digits_end[] __attribute__((visibility("hidden")));

#define DIGITS_HASH 0x0b6db7d4442bbc5du

uint64_t demo_hash(const void *bytes, size_t length)
{
	const uint8_t *byte = bytes;
	uint64_t hash = 0xcbf29ce484222325u;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ byte[i]) * 0x100000001b3u;
	return hash;
}

const char *demo_digits_text(size_t *length)
{
	*length = (size_t)(demo_digits_end - demo_digits_begin);
	return demo_digits_begin;
}

/* Read a number of at most two digits and the character after it. -1: the text differs. */
static int parse_value(const char **at, const char *end, char terminator)
{
	const char *c = *at;
	int value = 0;

	while (c < end && *c >= '0' && *c <= '9' && c - *at < 2)
		value = 10 * value + (*c++ - '0');
	if (c == *at || c == end || *c != terminator)
		return -1;
	*at = c + 1;
	return value;
}

static int parse_row(const char **at, const char *end, float *pixels, uint8_t *label)
{
	int value;

	for (int i = 0; i < DEMO_PIXELS; i++) {
		value = parse_value(at, end, ',');
		if (value < 0 || value > 16)
			return -EINVAL;
		pixels[i] = (float)value / 16.0f;
	}
	value = parse_value(at, end, '\n');
	if (value < 0 || value >= DEMO_CLASSES)
		return -EINVAL;
	*label = (uint8_t)value;
	return 0;
}

int demo_digits_load(struct demo_digits *digits, const char *text, size_t length)
{
	const char *end = text + length;

	if (demo_hash(text, length) != DIGITS_HASH)
		return -EINVAL;
	for (int row = 0; row < DEMO_ROWS; row++) {
		if (parse_row(&text, end, digits->pixels[row], &digits->labels[row]) < 0)
			return -EINVAL;
	}
	return text == end ? 0 : -EINVAL;
}

int demo_digits_load_own(struct demo_digits *digits)
{
	size_t length;
	const char *text = demo_digits_text(&length);

	return demo_digits_load(digits, text, length);
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
