/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs of several blocks, which core/quantize.h converts in one call: every block has the bits that
 * it has alone, wherever the run begins and ends. test_quantize.c checks single blocks.
 */
#include "core/rounding.h"
#include "support/quantize_plain.h"
#include "support/quantize_widths.h"
#include "support/test.h"

#define MOST	    1500u /* elements of a run */
#define MOST_BLOCKS (MOST / 8 + 2)
#define N_RANKS	    5

static const uint32_t sizes[] = {8, 64, 256};

struct run {
	struct sml_blocks blocks;
	int16_t exponents[MOST_BLOCKS];
	uint8_t shifts[MOST_BLOCKS];
	uint32_t count;
};

/* Ordinary exponents, all that there are, and both marks. */
static int16_t random_exponent(void)
{
	unsigned drawn = random_below(20);

	if (drawn < 2)
		return drawn ? SML_EXPONENT_ZERO : SML_EXPONENT_NONFINITE;
	return (int16_t)(drawn < 4 ? (int)random_below(277) - 148 : (int)random_below(9) - 4);
}

static void draw_run(struct run *run, uint32_t size, bool rounded)
{
	/* Beyond the largest shift, only a switch that lies. */
	for (unsigned i = 0; i < MOST_BLOCKS; i++) {
		run->exponents[i] = random_exponent();
		run->shifts[i] = (uint8_t)(random_below(20) ? random_below(14) : random_below(256));
	}
	run->count = random_below(MOST + 1);
	run->blocks = (struct sml_blocks){
		.exponents = run->exponents,
		.shifts = rounded ? run->shifts : NULL,
		.size = size,
		/* Lanes of two and of four must begin at whole ones. */
		.skip = random_below(size / 4) * 4,
	};
}

/* The next block of the run from `at` on: its length. */
static uint32_t part_of(const struct run *run, uint32_t at, unsigned *block)
{
	uint32_t place = run->blocks.skip + at, rest = run->blocks.size - place % run->blocks.size;

	*block = place / run->blocks.size;
	return run->count - at < rest ? run->count - at : rest;
}

TEST(blocks_of_a_run_have_the_exponents_that_they_have_alone)
{
	unsigned char elements[4 * MOST];
	int16_t together[MOST_BLOCKS], plain[MOST_BLOCKS];

	FOR_EACH(t, float_types)
	FOR_EACH(s, sizes)
	for (int kind = 0; kind < KINDS; kind++)
		for (int round = 0; round < 30; round++) {
			size_t count = random_below(MOST + 1),
			       blocks = (count + sizes[s] - 1) / sizes[s];

			fill_random(float_types[t], (enum kind)kind, elements, count);
			memset(together, 0x55, sizeof(together));
			sml_exponents_of(float_types[t], elements, NULL, count, sizes[s], together);
			plain_exponents_of(float_types[t], elements, NULL, count, sizes[s], plain);
			for (size_t b = 0; b < blocks; b++) {
				size_t at = b * sizes[s], rest = count - at;

				assert_int_equal(
					together[b],
					sml_exponent_of(float_types[t],
							elements + at * ref_bytes(float_types[t]),
							rest < sizes[s] ? rest : sizes[s]));
			}
			assert_memory_equal(together, plain, sizeof(plain[0]) * blocks);
			assert_int_equal(together[blocks], 0x5555);
		}
}

TEST(blocks_of_a_run_become_the_lanes_that_they_become_alone)
{
	static unsigned char elements[4 * MOST], lanes[4 * MOST + 4], plain[4 * MOST + 4],
		alone[4 * MOST + 4];
	struct run run;

	FOR_EACH(t, float_types)
	FOR_EACH(w, widths)
	FOR_EACH(s, sizes)
	for (int round = 0; round < 100; round++) {
		enum sml_type type = float_types[t];
		unsigned n_ranks = widths[w] == 8 ? 1 : N_RANKS, block;

		draw_run(&run, sizes[s], false);
		fill_random(type, (enum kind)random_below(KINDS), elements, run.count);
		memset(lanes, 0xa5, sizeof(lanes));
		memset(plain, 0xa5, sizeof(plain));
		memset(alone, 0xa5, sizeof(alone));
		sml_quantize((unsigned)widths[w], type, elements, run.count, &run.blocks, n_ranks,
			     lanes);
		plain_quantize_run((unsigned)widths[w], type, elements, run.count, &run.blocks,
				   n_ranks, plain);
		for (uint32_t at = 0, n; at < run.count; at += n) {
			n = part_of(&run, at, &block);
			quantize(widths[w], type, elements + at * ref_bytes(type), n,
				 run.exponents[block], n_ranks,
				 alone + at * (unsigned)widths[w] / 8);
		}
		assert_memory_equal(lanes, alone, sizeof(lanes));
		assert_memory_equal(plain, alone, sizeof(lanes));
	}
}

TEST(blocks_of_a_run_become_the_elements_that_they_become_alone)
{
	static const unsigned divisors[] = {1, 2, 3, 8, 4096};
	static unsigned char lanes[4 * MOST], elements[4 * MOST + 4], plain[4 * MOST + 4],
		alone[4 * MOST + 4];
	struct run run;

	FOR_EACH(t, float_types)
	FOR_EACH(w, widths)
	FOR_EACH(s, sizes)
	FOR_EACH(d, divisors)
	for (int round = 0; round < 40; round++) {
		enum sml_type type = float_types[t];
		unsigned block;

		draw_run(&run, sizes[s], round % 2);
		for (size_t i = 0; i < sizeof(lanes); i++)
			lanes[i] = (unsigned char)random_bits();
		memset(elements, 0xa5, sizeof(elements));
		memset(plain, 0xa5, sizeof(plain));
		memset(alone, 0xa5, sizeof(alone));
		sml_dequantize((unsigned)widths[w], type, lanes, run.count, &run.blocks, 1,
			       divisors[d], elements);
		plain_dequantize_run((unsigned)widths[w], type, lanes, run.count, &run.blocks, 1,
				     divisors[d], plain);
		for (uint32_t at = 0, n; at < run.count; at += n) {
			unsigned shift;

			n = part_of(&run, at, &block);
			shift = run.shifts[block] < SML_ROUNDED_SHIFT_MAX ? run.shifts[block]
									  : SML_ROUNDED_SHIFT_MAX;
			dequantize(widths[w], type, lanes + at * (unsigned)widths[w] / 8, n,
				   run.exponents[block], round % 2 ? 1u << shift : 1, divisors[d],
				   alone + at * ref_bytes(type));
		}
		assert_memory_equal(elements, alone, sizeof(elements));
		assert_memory_equal(plain, alone, sizeof(elements));
	}
}

/* Where one factor is enough, and where it is not: the sum is rounded once, as the reference does.
 */
TEST(sums_of_every_exponent_are_rounded_as_the_reference_does)
{
	static const unsigned divisors[] = {1, 2, 8, 4096};
	unsigned char lanes[4 * 64], got[4 * 64], expected[4 * 64];

	FOR_EACH(w, widths)
	FOR_EACH(d, divisors)
	for (int exponent = -148; exponent <= 128; exponent++) {
		for (size_t i = 0; i < 64; i++)
			ref_put_lane(lanes, i, widths[w],
				     (int32_t)((uint32_t)random_bits() << (32 - widths[w])) >>
					     (32 - widths[w]));
		dequantize(widths[w], SML_FLOAT32, lanes, 64, exponent, 1, divisors[d], got);
		for (size_t i = 0; i < 64; i++)
			ref_store(SML_FLOAT32, expected, i,
				  ref_dequantize(SML_FLOAT32, ref_get_lane(lanes, i, widths[w]),
						 widths[w], exponent, 1, divisors[d]));
		assert_memory_equal(got, expected, sizeof(got));
	}
}

TESTS_BETWEEN(seed_is_set, NULL)
