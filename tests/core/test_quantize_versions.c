/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Block floating point: all versions of the code give the same bits. These are vectors, the CPU's
 * baseline, the machine's instructions for halves, and the slow reference.
 */

#include "core/wire.h"
#include "support/quantize_plain.h"
#include "support/quantize_random.h"
#include "support/quantize_widths.h"
#include "support/test.h"

TEST(vectors_scalars_and_reference_agree_on_every_lane)
{
	static unsigned char elements[4 * COUNT], lanes[4 * COUNT], plain[4 * COUNT];

	FOR_EACH(t, float_types)
	FOR_EACH(w, widths)
	for (int round = 0; round < 2000; round++) {
		enum sml_type type = float_types[t];
		size_t count = random_below(COUNT + 1);
		unsigned n = 1 + random_below(most_ranks(widths[w]));
		int32_t exponent;

		fill_random(type, (enum kind)random_below(KINDS), elements, count);
		exponent = sml_exponent_of(type, elements, count);
		assert_int_equal(exponent, plain_exponent_of(type, elements, count));
		/* Another rank may have had larger elements, sometimes much larger ones. */
		if (exponent != SML_EXPONENT_ZERO && random_below(2) == 0)
			exponent += (int32_t)random_below((unsigned)(129 - exponent));
		quantize(widths[w], type, elements, count, exponent, n, lanes);
		plain_quantize(widths[w], type, elements, count, exponent, n, plain);
		assert_memory_equal(lanes, plain, lane_bytes(widths[w], count));
		for (size_t i = 0; i < count; i++)
			assert_int_equal(
				ref_get_lane(lanes, i, widths[w]),
				ref_quantize(ref_load(type, elements, i), widths[w], exponent, n));
	}
}

TEST(vectors_scalars_and_reference_agree_on_every_element)
{
	static unsigned char elements[4 * COUNT], lanes[4 * COUNT], plain[4 * COUNT],
		expected[4 * COUNT];

	FOR_EACH(t, float_types)
	FOR_EACH(w, widths)
	for (int round = 0; round < 2000; round++) {
		enum sml_type type = float_types[t];
		size_t count = random_below(COUNT + 1), bytes = count * ref_bytes(type);
		/* More ranks are the shift of sums that were rounded. */
		unsigned n = 1 + random_below(SML_MAX_WORLD),
			 divisor = random_below(2) == 0 ? 1 : n;
		int32_t exponent = (int32_t)random_below(128 + 148 + 1) - 148;

		if (type == SML_FLOAT16 && random_below(4) != 0)
			exponent = (int32_t)random_below(40) - 23;
		for (size_t i = 0; i < count; i++) {
			int32_t lane = (int32_t)random_bits();

			lane = lane >> random_below((unsigned)widths[w]);
			lane = widths[w] == 8	 ? (int8_t)lane
			       : widths[w] == 16 ? (int16_t)lane
						 : lane;
			ref_put_lane(lanes, i, widths[w], lane);
			ref_store(type, expected, i,
				  ref_dequantize(type, lane, widths[w], exponent, n, divisor));
		}
		dequantize(widths[w], type, lanes, count, exponent, n, divisor, elements);
		plain_dequantize(widths[w], type, lanes, count, exponent, n, divisor, plain);
		assert_memory_equal(elements, plain, bytes);
		assert_memory_equal(elements, expected, bytes);
	}
}

/* Every half, by the machine's instructions and by our code. */
TEST(half_instructions_agree_on_every_element)
{
	static uint16_t halves[0x10000];
	static uint32_t lanes[0x10000], plain[0x10000];

	for (uint32_t i = 0; i < 0x10000; i++)
		halves[i] = (uint16_t)i;
	FOR_EACH(w, widths)
	for (int32_t exponent = -24; exponent <= 40; exponent++) {
		quantize(widths[w], SML_FLOAT16, halves, 0x10000, exponent, 5, lanes);
		plain_quantize(widths[w], SML_FLOAT16, halves, 0x10000, exponent, 5, plain);
		assert_memory_equal(lanes, plain, lane_bytes(widths[w], 0x10000));
	}
}

/*
 * Sums with the 11 bits that a half keeps, and behind them those that narrowing cuts off: none
 * set, the smallest, almost a half, a half, more. The exponents make them subnormal, ordinary and
 * too large.
 */
TEST(half_instructions_agree_on_every_sum)
{
	static const int32_t cut_off[] = {0, 1, 0xfff, 0x1000, 0x1001, 0x1fff};
	static uint32_t lanes[0x2000];
	static uint16_t halves[0x2000], plain[0x2000];

	FOR_EACH(c, cut_off)
	for (int32_t exponent = -40; exponent <= 40; exponent++)
		for (unsigned divisor = 1; divisor <= 3; divisor += 2) {
			for (int32_t i = 0; i < 0x2000; i++)
				ref_put_lane(lanes, (size_t)i, 32,
					     (i - 0x1000) * 0x2000 + cut_off[c]);
			dequantize(32, SML_FLOAT16, lanes, 0x2000, exponent, 3, divisor, halves);
			plain_dequantize(32, SML_FLOAT16, lanes, 0x2000, exponent, 3, divisor,
					 plain);
			assert_memory_equal(halves, plain, sizeof(halves));
			/* As narrow lanes, whatever numbers these are. */
			for (int width = 8; width <= 16; width += 8) {
				dequantize(width, SML_FLOAT16, lanes, 0x2000, exponent, 3, divisor,
					   halves);
				plain_dequantize(width, SML_FLOAT16, lanes, 0x2000, exponent, 3,
						 divisor, plain);
				assert_memory_equal(halves, plain, sizeof(halves));
			}
		}
}

TEST(nothing_is_written_beside_the_lanes_wherever_they_lie)
{
	static _Alignas(64) unsigned char space[64 + 4 * COUNT + 64], from[64 + 4 * COUNT + 64];
	unsigned char expected[4 * COUNT];

	FOR_EACH(t, float_types)
	FOR_EACH(w, widths)
	for (size_t count = 0; count <= 70; count++)
		for (size_t offset = 0; offset < 64; offset += 4) {
			enum sml_type type = float_types[t];
			unsigned char *elements = from + (offset + ref_bytes(type)) % 64;
			unsigned char *lanes = space + offset;
			size_t bytes = lane_bytes(widths[w], count), i;

			fill_random(type, ORDINARY, elements, count);
			memset(space, 0xa5, sizeof(space));
			quantize(widths[w], type, elements, count, 1, 5, lanes);
			for (i = 0; i < offset; i++)
				assert_int_equal(space[i], 0xa5);
			for (i = offset + bytes; i < sizeof(space); i++)
				assert_int_equal(space[i], 0xa5);
			for (i = 0; i < count; i++)
				assert_int_equal(
					ref_get_lane(lanes, i, widths[w]),
					ref_quantize(ref_load(type, elements, i), widths[w], 1, 5));
			for (i = count; i < bytes * 8 / (size_t)widths[w]; i++)
				assert_int_equal(ref_get_lane(lanes, i, widths[w]), 0);

			for (i = 0; i < count; i++)
				ref_store(type, expected, i,
					  ref_dequantize(type, ref_get_lane(lanes, i, widths[w]),
							 widths[w], 1, 5, 5));
			memset(from, 0x5a, sizeof(from));
			dequantize(widths[w], type, lanes, count, 1, 5, 5, elements);
			bytes = count * ref_bytes(type);
			assert_memory_equal(elements, expected, bytes);
			for (i = 0; i < sizeof(from); i++)
				if (from + i < elements || from + i >= elements + bytes)
					assert_int_equal(from[i], 0x5a);
		}
}

TESTS_BETWEEN(seed_is_set, NULL)
