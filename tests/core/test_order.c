/* SPDX-License-Identifier: BSD-3-Clause */
/* The promises of docs/internals/numbers.md about MAX, MIN, int32 tensors and small float tensors.
 */
#include "support/quantize_plain.h"
#include "support/quantize_random.h"
#include "support/test.h"

/* MAX and MIN. */

/* -1, 0, 1: first is below, equal to, above second. -0 is below +0, and NaN is above everything. */
static int compare(double first, double second)
{
	if (isnan(first) || isnan(second))
		return isnan(first) - isnan(second);
	if (first == second)
		return (signbit(second) != 0) - (signbit(first) != 0);
	return first < second ? -1 : 1;
}

static void check_order(enum sml_type type, const void *elements, size_t count, bool minimum)
{
	int32_t *lanes = calloc(count + 1, 4);
	unsigned char *back = calloc(count + 1, 4);

	sml_order_encode(type, elements, count, minimum, lanes);
	sml_order_decode(type, lanes, count, minimum, back);
	for (size_t i = 0; i < count; i++) {
		double value = ref_load(type, elements, i);

		if (isnan(value))
			assert_true(isnan(ref_load(type, back, i)));
		else
			assert_memory_equal(back + i * ref_bytes(type),
					    (const char *)elements + i * ref_bytes(type),
					    ref_bytes(type));
		for (size_t j = 0; j < count; j++) {
			double other = ref_load(type, elements, j);
			int32_t a = ref_get_lane(lanes, i, 32), b = ref_get_lane(lanes, j, 32);
			int expected = compare(value, other);

			if (minimum && !isnan(value) && !isnan(other))
				expected = -expected;
			assert_int_equal((a > b) - (a < b), expected);
		}
	}
	free(back);
	free(lanes);
}

TEST(order_of_lanes_is_that_of_interesting_elements)
{
	static const uint32_t single[] = {
		0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff,
		0x00800000, 0x80800000, 0x3f800000, 0xbf800000, 0x3f800001, 0xbf800001,
		0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000,
		0x7fffffff, 0xffffffff, 0x7f800001, 0xff800001};
	static const uint16_t half[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x83ff,
					0x0400, 0x8400, 0x3c00, 0xbc00, 0x7bff, 0xfbff,
					0x7c00, 0xfc00, 0x7e00, 0xfe00, 0x7fff, 0xffff};
	static const uint16_t brain[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x007f, 0x807f,
					 0x0080, 0x8080, 0x3f80, 0xbf80, 0x7f7f, 0xff7f,
					 0x7f80, 0xff80, 0x7fc0, 0xffc0, 0x7fff, 0xffff};

	for (int minimum = 0; minimum < 2; minimum++) {
		check_order(SML_FLOAT32, single, sizeof(single) / 4, minimum);
		check_order(SML_FLOAT16, half, sizeof(half) / 2, minimum);
		check_order(SML_BFLOAT16, brain, sizeof(brain) / 2, minimum);
	}
}

TEST(order_of_lanes_is_that_of_random_elements)
{
	uint32_t elements[COUNT];

	for (int round = 0; round < 20; round++)
		FOR_EACH(t, float_types)
		{
			/* All patterns, infinities and NaNs among them. */
			for (size_t i = 0; i < COUNT; i++)
				elements[i] = (uint32_t)random_bits();
			check_order(float_types[t], elements, COUNT, round % 2 == 0);
		}
}

TEST(every_half_pattern_comes_back_from_max_and_min)
{
	static uint16_t patterns[65536], back[65536];
	static uint32_t lanes[65536];

	for (size_t i = 0; i < 65536; i++)
		patterns[i] = (uint16_t)i;
	for (int minimum = 0; minimum < 2; minimum++)
		for (int t = 1; t < 3; t++) {
			sml_order_encode(float_types[t], patterns, 65536, minimum, lanes);
			sml_order_decode(float_types[t], lanes, 65536, minimum, back);
			for (size_t i = 0; i < 65536; i++) {
				bool nan = isnan(ref_load(float_types[t], patterns, i));

				assert_int_equal(back[i], !nan ? i : t == 1 ? 0x7e00 : 0x7fc0);
			}
		}
}

TEST(integers_are_ordered_as_they_are)
{
	static const int32_t values[] = {INT32_MIN, INT32_MIN + 1, -2,	     -1, 0, 1,
					 2,	    INT32_MAX - 1, INT32_MAX};
	int32_t lanes[9], back[9];

	for (int minimum = 0; minimum < 2; minimum++) {
		sml_order_encode(SML_INT32, values, 9, minimum, lanes);
		sml_order_decode(SML_INT32, lanes, 9, minimum, back);
		assert_memory_equal(back, values, sizeof(values));
		for (size_t i = 1; i < 9; i++)
			assert_int_equal(ref_get_lane(lanes, i - 1, 32) <
						 ref_get_lane(lanes, i, 32),
					 !minimum);
	}
}

/* int32 tensors. */

TEST(integer_sums_wrap_around_and_averages_go_towards_zero)
{
	int32_t values[COUNT] = {INT32_MIN, INT32_MAX, -1, 0, 1, INT32_MIN + 1, INT32_MAX - 1};
	int32_t back[COUNT];
	uint32_t lanes[COUNT];

	for (unsigned divisor = 1; divisor <= MAX_RANKS; divisor++)
		for (int round = 0; round < 50; round++) {
			for (size_t i = 7; i < COUNT; i++) {
				values[i] = (int32_t)random_bits() >> random_below(31);
				/* Multiples and their neighbors are where errors are likely. */
				if (i % 2 == 0)
					values[i] =
						values[i] / (int32_t)divisor * (int32_t)divisor +
						(int32_t)random_below(2);
			}
			sml_int32_encode(values, COUNT, lanes);
			for (size_t i = 0; i < COUNT; i++)
				assert_int_equal(ref_get_lane(lanes, i, 32), values[i]);
			sml_int32_decode(lanes, COUNT, divisor, back);
			for (size_t i = 0; i < COUNT; i++)
				assert_int_equal(back[i], values[i] / (int32_t)divisor);
		}

	/* Two ranks, as the switch adds them. */
	values[0] = INT32_MAX;
	values[1] = 1;
	sml_int32_encode(values, 2, lanes);
	ref_put_lane(lanes, 0, 32,
		     (int32_t)((uint32_t)ref_get_lane(lanes, 0, 32) +
			       (uint32_t)ref_get_lane(lanes, 1, 32)));
	sml_int32_decode(lanes, 1, 1, back);
	assert_int_equal(back[0], INT32_MIN);
}

/* Compare vector code with scalar code, for operations without rounding. */
TEST(vectors_and_scalars_agree_on_order_and_integers)
{
	static uint32_t elements[COUNT], lanes[COUNT], plain[COUNT], back[COUNT], plain_back[COUNT];
	static const enum sml_type types[] = {SML_FLOAT32, SML_FLOAT16, SML_BFLOAT16, SML_INT32};

	for (int round = 0; round < 2000; round++) {
		size_t count = random_below(COUNT + 1);
		enum sml_type type = types[random_below(4)];
		unsigned divisor = 1 + random_below(MAX_RANKS);
		bool minimum = random_below(2) == 0;

		for (size_t i = 0; i < count; i++)
			elements[i] = (uint32_t)random_bits();
		sml_order_encode(type, elements, count, minimum, lanes);
		plain_order_encode(type, elements, count, minimum, plain);
		assert_memory_equal(lanes, plain, 4 * count);
		sml_order_decode(type, elements, count, minimum, back);
		plain_order_decode(type, elements, count, minimum, plain_back);
		assert_memory_equal(back, plain_back, ref_bytes(type) * count);
		sml_int32_decode(elements, count, divisor, back);
		plain_int32_decode(elements, count, divisor, plain_back);
		assert_memory_equal(back, plain_back, 4 * count);
	}
}

TESTS_BETWEEN(seed_is_set, NULL)
