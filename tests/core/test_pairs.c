/* SPDX-License-Identifier: BSD-3-Clause */
/* The promises of docs/internals/numbers.md about MAX and MIN of float64 and int64. */
#include "core/wide.h"
#include "support/quantize_random.h"
#include "support/test.h"

#define ELEMENTS 117 /* of a usual chunk */

static void reduce_pairs(enum sml_type type, bool minimum, unsigned n,
			 uint64_t elements[][ELEMENTS], uint64_t *result)
{
	uint32_t lanes[ELEMENTS], most[ELEMENTS];
	int32_t highs[ELEMENTS];

	for (unsigned r = 0; r < n; r++) {
		sml_pair_high(type, elements[r], ELEMENTS, minimum, lanes);
		if (r == 0)
			memcpy(most, lanes, sizeof(most));
		ref_max_lanes(most, lanes, ELEMENTS);
	}
	sml_pair_keep_highs(most, ELEMENTS, highs);
	for (unsigned r = 0; r < n; r++) {
		sml_pair_low(type, elements[r], ELEMENTS, minimum, highs, lanes);
		if (r == 0)
			memcpy(most, lanes, sizeof(most));
		ref_max_lanes(most, lanes, ELEMENTS);
	}
	sml_pair_decode(type, highs, most, ELEMENTS, minimum, result);
}

/* Does b come before a? NaN does before all; -0 is below +0. */
static bool double_wins(bool minimum, uint64_t b, uint64_t a)
{
	double x = ref_load(SML_FLOAT64, &b, 0), y = ref_load(SML_FLOAT64, &a, 0);

	if (isnan(x) || isnan(y))
		return isnan(x) && !isnan(y);
	if (x == y)
		return minimum ? signbit(x) && !signbit(y) : !signbit(x) && signbit(y);
	return minimum ? x < y : x > y;
}

static const uint64_t interesting[] = {0,
				       1,
				       0x8000000000000000,
				       0x8000000000000001,
				       0x000fffffffffffff,
				       0x0010000000000000,
				       0x3ff0000000000000,
				       0xbff0000000000000,
				       0x3ff0000000000001,
				       0x3ff00000ffffffff,
				       0x3ff0000080000000,
				       0x3ff000007fffffff,
				       0x7fefffffffffffff,
				       0xffefffffffffffff,
				       0x7ff0000000000000,
				       0xfff0000000000000,
				       0x7ff8000000000000,
				       0xfff8000000000001,
				       0x7fffffffffffffff,
				       0xffffffffffffffff,
				       0x00000000ffffffff,
				       0xffffffff00000000};

TEST(max_and_min_of_64_bits_are_exact)
{
	static uint64_t elements[5][ELEMENTS], result[ELEMENTS];

	for (unsigned round = 0; round < 2000; round++) {
		bool is_float = round & 1, minimum = round & 2;
		unsigned n = 1 + random_below(5);

		for (unsigned r = 0; r < n; r++)
			for (size_t i = 0; i < ELEMENTS; i++) {
				elements[r][i] = interesting[random_below(22)];
				/* The second pass matters if upper halves are equal. */
				if (random_below(3) == 0)
					elements[r][i] = (elements[0][i] & ~(uint64_t)UINT32_MAX) |
							 (uint32_t)random_bits();
			}
		reduce_pairs(is_float ? SML_FLOAT64 : SML_INT64, minimum, n, elements, result);
		for (size_t i = 0; i < ELEMENTS; i++) {
			uint64_t expected = elements[0][i];

			for (unsigned r = 1; r < n; r++) {
				int64_t b = (int64_t)elements[r][i], a = (int64_t)expected;
				bool wins = is_float
						    ? double_wins(minimum, elements[r][i], expected)
					    : minimum ? b < a
						      : b > a;

				expected = wins ? elements[r][i] : expected;
			}
			if (is_float && isnan(ref_load(SML_FLOAT64, &expected, 0)))
				assert_true(isnan(ref_load(SML_FLOAT64, result, i)));
			else
				assert_int_equal(result[i], expected);
		}
	}
}

TESTS_BETWEEN(seed_is_set, NULL)
