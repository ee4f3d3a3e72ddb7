/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The promises of docs/internals/numbers.md about gathered floats: the exact sum or average,
 * rounded once. The reference is MPFR, with enough bits for any exact sum. For the rounding, it
 * uses the type's own precision and range.
 */
#include <fenv.h>
#include <float.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include <mpfr.h>

#include "core/gather.h"
#include "support/mpfr_reference.h"
#include "support/quantize_random.h"
#include "support/test.h"

#define ELEMENTS  7    /* of each rank; an odd number */
#define PRECISION 2300 /* bits: any sum of doubles is exact */

static const enum sml_type types[] = {SML_FLOAT32, SML_FLOAT16, SML_BFLOAT16, SML_FLOAT64};

/*
 * Sums that are much smaller than their parts: pairs that cancel completely or nearly, or
 * whose sum is half a unit in the last place of another element, so that the smallest
 * element decides the rounding.
 */
static void make_hard(enum sml_type type, unsigned n, char elements[][8 * ELEMENTS])
{
	for (size_t i = 0; i < ELEMENTS; i++) {
		unsigned a = random_below(n), b = random_below(n);
		double value = ref_load(type, elements[a], i);

		if (a == b)
			continue;
		switch (random_below(4)) {
		case 0:
			ref_store(type, elements[b], i, -value);
			break;
		case 2:
			ref_store(type, elements[b], i,
				  -value * (1 + ldexp(1, 1 - formats[type].bits)));
			break;
		case 1:
			ref_store(type, elements[b], i, ldexp(value, -(int)random_below(60)));
			break;
		default:
			ref_store(
				type, elements[b], i,
				copysign(ldexp(1, ilogb(value + (value == 0)) - formats[type].bits),
					 random_unit()));
		}
		if (!isfinite(ref_load(type, elements[b], i)))
			ref_store(type, elements[b], i, 0);
	}
}

/* ---- the reference ---- */

static void sum_exactly(enum sml_type type, unsigned n, char elements[][8 * ELEMENTS], size_t i,
			mpfr_t sum)
{
	mpfr_set_zero(sum, 1);
	for (unsigned r = 0; r < n; r++)
		mpfr_add_d(sum, sum, ref_load(type, elements[r], i), MPFR_RNDN);
}

/* A zero is negative if all are, or if a negative number was rounded to it. */
static bool is_negative_zero(enum sml_type type, unsigned n, char elements[][8 * ELEMENTS],
			     size_t i, int sign)
{
	for (unsigned r = 0; r < n; r++) {
		double value = ref_load(type, elements[r], i);

		if (value != 0 || !signbit(value))
			return sign < 0;
	}
	return true;
}

/* As ranks and switch do it: every part in separate lanes. */
static void reduce(enum sml_type type, unsigned n, char elements[][8 * ELEMENTS], size_t count,
		   unsigned divisor, void *result)
{
	static uint32_t lanes[MAX_RANKS * 2 * ELEMENTS];
	uint32_t part = sml_gather_lanes(type, (uint32_t)count);

	for (unsigned r = 0; r < n; r++)
		sml_gather_encode(type, elements[r], (uint32_t)count, lanes + r * part);
	sml_gather_reduce(type, lanes, (uint32_t)count, n, divisor, result);
}

TEST(gathered_sums_are_exact_and_rounded_once)
{
	static char elements[MAX_RANKS][8 * ELEMENTS], result[8 * ELEMENTS];
	mpfr_t sum;

	mpfr_init2(sum, PRECISION);
	FOR_EACH(t, types)
	FOR_EACH(r, rank_counts)
	for (unsigned round = 0; round < 800; round++) {
		unsigned n = rank_counts[r], divisor = round % 2 ? n : 1;

		for (unsigned rank = 0; rank < n; rank++)
			fill_random(types[t], (enum kind)(round / 2 % KINDS), elements[rank],
				    ELEMENTS);
		if (round % 5 == 0)
			make_hard(types[t], n, elements);
		reduce(types[t], n, elements, ELEMENTS, divisor, result);
		for (size_t i = 0; i < ELEMENTS; i++) {
			double got = ref_load(types[t], result, i), expected;

			sum_exactly(types[t], n, elements, i, sum);
			expected = rounded_once(types[t], sum, divisor);
			if (got != expected ||
			    (got == 0 && signbit(got) != is_negative_zero(types[t], n, elements, i,
									  mpfr_sgn(sum))))
				fail_msg("type %d, %u ranks, round %u, element %zu: %a, not %a",
					 (int)types[t], n, round, i, got, expected);
		}
	}
	mpfr_clear(sum);
}

/* Half a unit in the last place, and a much smaller number that decides. */
TEST(ties_go_to_even_unless_anything_is_left)
{
	FOR_EACH(t, types)
	for (int odd = 0; odd < 2; odd++)
		for (int rest = -1; rest <= 1; rest++) {
			char elements[3][8 * ELEMENTS], result[8 * ELEMENTS];
			double unit = ldexp(1, 1 - formats[types[t]].bits), one = 1 + odd * unit;
			int up = rest ? rest > 0 : odd;

			ref_store(types[t], elements[0], 0, one);
			ref_store(types[t], elements[1], 0, unit / 2);
			ref_store(types[t], elements[2], 0,
				  ldexp(rest, formats[types[t]].lowest - (rest ? 1 : 0)));
			reduce(types[t], 3, elements, 1, 1, result);
			assert_true(ref_load(types[t], result, 0) == one + up * unit);
		}
}

/* All bits of such a quotient are below those of the elements. */
TEST(averages_of_what_cancels_have_all_their_bits)
{
	static char elements[MAX_RANKS][8 * ELEMENTS], result[8 * ELEMENTS];
	mpfr_t sum;

	mpfr_init2(sum, PRECISION);
	FOR_EACH(t, types)
	for (unsigned n = 3; n <= MAX_RANKS; n++)
		for (int power = formats[types[t]].lowest; power < formats[types[t]].highest - 1;
		     power += 3) {
			memset(elements, 0, sizeof(elements));
			ref_store(types[t], elements[0], 0, ldexp(-1, power));
			ref_store(types[t], elements[n - 1], 0,
				  ldexp(1 + ldexp(1, 1 - formats[types[t]].bits), power));
			sum_exactly(types[t], n, elements, 0, sum);
			reduce(types[t], n, elements, 1, n, result);
			assert_true(ref_load(types[t], result, 0) ==
				    rounded_once(types[t], sum, n));
		}
	mpfr_clear(sum);
}

/* A thread has the floating-point modes of its creator, and the modes of ranks may differ. */
TEST(modes_of_the_machine_do_not_matter)
{
	static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
	static char elements[MAX_RANKS][8 * ELEMENTS], result[8 * ELEMENTS], again[8 * ELEMENTS];

	FOR_EACH(t, types)
	for (unsigned round = 0; round < 600; round++) {
		unsigned n = 2 + round % 3, divisor = round % 2 ? n : 1;

		for (unsigned rank = 0; rank < n; rank++)
			fill_random(types[t], (enum kind)(round / 2 % KINDS), elements[rank],
				    ELEMENTS);
		reduce(types[t], n, elements, ELEMENTS, divisor, result);
		FOR_EACH(m, modes)
		{
			assert_int_equal(fesetround(modes[m]), 0);
			reduce(types[t], n, elements, ELEMENTS, divisor, again);
			fesetround(FE_TONEAREST);
			assert_memory_equal(result, again, ELEMENTS * ref_bytes(types[t]));
		}
#ifdef __SSE2__
		_mm_setcsr(_mm_getcsr() | 0x8040); /* subnormals count as zeros */
		reduce(types[t], n, elements, ELEMENTS, divisor, again);
		_mm_setcsr(_mm_getcsr() & ~0x8040u);
		assert_memory_equal(result, again, ELEMENTS * ref_bytes(types[t]));
#endif
	}
}

/* Cases in which no sum of doubles in rank order is correct. */
TEST(small_elements_survive_large_ones_that_cancel)
{
	static const double float32[][3] = {{0x1p127, 1, -0x1p127}, {0x1p127, 0x1p-149, -0x1p127}};
	static const double float64[][3] = {{0x1p1023, 0x1p1023, -0x1p1023},
					    {0x1p1000, 0x1p-1074, -0x1p1000}};
	static const double sums[][2] = {{1, 0x1p1023}, {0x1p-149, 0x1p-1074}};
	char elements[3][8 * ELEMENTS], result[8 * ELEMENTS];

	for (size_t row = 0; row < 2; row++) {
		for (unsigned wide = 0; wide < 2; wide++) {
			enum sml_type type = wide ? SML_FLOAT64 : SML_FLOAT32;

			for (unsigned r = 0; r < 3; r++)
				ref_store(type, elements[r], 0,
					  wide ? float64[row][r] : float32[row][r]);
			reduce(type, 3, elements, 1, 1, result);
			assert_true(ref_load(type, result, 0) == sums[row][wide]);
		}
	}
}

TEST(the_order_of_ranks_does_not_matter)
{
	static char elements[MAX_RANKS][8 * ELEMENTS], result[8 * ELEMENTS], again[8 * ELEMENTS];

	FOR_EACH(t, types)
	for (unsigned round = 0; round < 300; round++) {
		unsigned n = 2 + random_below(MAX_RANKS - 1);
		size_t bytes = ELEMENTS * ref_bytes(types[t]);
		char other[8 * ELEMENTS];

		for (unsigned rank = 0; rank < n; rank++)
			fill_random(types[t], (enum kind)(round % KINDS), elements[rank], ELEMENTS);
		reduce(types[t], n, elements, ELEMENTS, n, result);
		for (unsigned rank = 0; rank < n; rank++) {
			unsigned with = random_below(n);

			memcpy(other, elements[rank], bytes);
			memcpy(elements[rank], elements[with], bytes);
			memcpy(elements[with], other, bytes);
		}
		reduce(types[t], n, elements, ELEMENTS, n, again);
		assert_memory_equal(result, again, bytes);
	}
}

/* The sum of the largest of 4,096 ranks has 12 bits more than each of them. */
TEST(the_largest_of_many_ranks_cancel)
{
	static uint32_t lanes[2 * SML_MAX_WORLD_SIZE];
	uint32_t part = sml_gather_lanes(SML_FLOAT64, 1);
	double value, result;

	for (unsigned r = 0; r < SML_MAX_WORLD_SIZE; r++) {
		value = r == 6 ? 0 : r == 7 ? 1 : r % 2 ? DBL_MAX : -DBL_MAX;
		sml_gather_encode(SML_FLOAT64, &value, 1, lanes + r * part);
	}
	sml_gather_reduce(SML_FLOAT64, lanes, 1, SML_MAX_WORLD_SIZE, 1, &result);
	assert_true(result == 1);
	value = DBL_MAX;
	for (unsigned r = 0; r < SML_MAX_WORLD_SIZE; r++)
		sml_gather_encode(SML_FLOAT64, &value, 1, lanes + r * part);
	sml_gather_reduce(SML_FLOAT64, lanes, 1, SML_MAX_WORLD_SIZE, SML_MAX_WORLD_SIZE, &result);
	assert_true(result == DBL_MAX);
}

TEST(infinity_or_nan_spoils_its_own_element_only)
{
	static const double bad[] = {INFINITY, -INFINITY, NAN};

	FOR_EACH(t, types)
	FOR_EACH(b, bad)
	for (unsigned spoiled = 0; spoiled < 3; spoiled++) {
		char elements[3][8 * ELEMENTS], result[8 * ELEMENTS];

		for (unsigned rank = 0; rank < 3; rank++) {
			ref_store(types[t], elements[rank], 0, rank == spoiled ? bad[b] : 1.0);
			ref_store(types[t], elements[rank], 1, rank == spoiled ? 0.0 : -0.0);
			ref_store(types[t], elements[rank], 2, 3.0);
		}
		reduce(types[t], 3, elements, 3, 3, result);
		assert_true(isnan(bad[b]) ? isnan(ref_load(types[t], result, 0))
					  : ref_load(types[t], result, 0) == bad[b]);
		assert_true(ref_load(types[t], result, 1) == 0);
		assert_false(signbit(ref_load(types[t], result, 1)));
		assert_true(ref_load(types[t], result, 2) == 3);
	}
}

TEST(every_half_pattern_comes_back)
{
	for (int t = 1; t < 3; t++)
		for (uint32_t pattern = 0; pattern < 65536; pattern++) {
			char elements[1][8 * ELEMENTS] = {0}, back[8 * ELEMENTS] = {0};
			double value;

			memcpy(elements[0], &pattern, 2);
			value = ref_load(float_types[t], elements[0], 0);
			reduce(float_types[t], 1, elements, 1, 1, back);
			if (isnan(value))
				assert_true(isnan(ref_load(float_types[t], back, 0)));
			else
				assert_memory_equal(back, elements[0], 2);
		}
}

/* Lanes come from a network: for any content, nothing leaves its range. */
TEST(any_lanes_become_some_floats)
{
	static uint32_t lanes[MAX_RANKS * 2 * ELEMENTS];
	char result[8 * ELEMENTS + 1];

	FOR_EACH(t, types)
	for (unsigned round = 0; round < 300; round++) {
		unsigned n = 1 + random_below(MAX_RANKS), count = 1 + random_below(ELEMENTS);

		for (size_t i = 0; i < sizeof(lanes) / 4; i++)
			lanes[i] = (uint32_t)random_bits() | (round % 3 ? 0 : 0x7f7f7f7f);
		memset(result, 0x55, sizeof(result));
		sml_gather_reduce(types[t], lanes, count, n, round % 2 ? n : 1, result);
		assert_int_equal(result[count * ref_bytes(types[t])], 0x55);
	}
}

TEST(parts_of_all_ranks_fit_in_their_lanes)
{
	FOR_EACH(t, types)
	for (uint32_t lanes = 8; lanes <= 2208; lanes++)
		for (unsigned n = 1; n <= MAX_RANKS; n++) {
			uint32_t count = sml_gather_capacity(types[t], lanes, n);

			assert_true(n * sml_gather_lanes(types[t], count) <= lanes);
			assert_true(n * sml_gather_lanes(types[t], count + 1) > lanes);
		}
}

TESTS_BETWEEN(seed_is_set, NULL)
