/* SPDX-License-Identifier: BSD-3-Clause */
/* Block floating point: tests every statement of docs/internals/numbers.md. */

#include "core/element.h"
#include "core/wire.h"
#include "support/quantize_random.h"
#include "support/quantize_widths.h"
#include "support/test.h"

static const char *kind_names[KINDS] = {"ordinary",  "spread",		 "patterns",
					"subnormal", "near the largest", "mostly zero"};

/* Exponents. */

TEST(headroom_is_the_logarithm_of_ranks_rounded_up)
{
	for (unsigned n = 1; n <= MAX_RANKS; n++)
		assert_int_equal(sml_headroom_bits(n), ref_headroom(n));
	for (unsigned n = MAX_RANKS; n <= SML_MAX_WORLD; n++)
		assert_int_equal(1u << sml_headroom_bits(n) >= n, 1);
	assert_int_equal(sml_headroom_bits(SML_MAX_WORLD), 12);
}

/* All ranks have the largest float below 1, with as few bits as the world leaves. */
TEST(no_sum_of_a_world_overflows)
{
	const float element = 0x1.fffffep-1f;

	for (unsigned n = 1; n <= SML_MAX_WORLD; n++) {
		uint32_t lane32, lane16;

		quantize(32, SML_FLOAT32, &element, 1, 0, n, &lane32);
		quantize(16, SML_FLOAT32, &element, 1, 0, n, &lane16);
		assert_true((int64_t)(int32_t)sml_be32(lane32) * n <= INT32_MAX);
		assert_true((int64_t)(int16_t)(sml_be32(lane16) >> 16) * n <= INT16_MAX);
		assert_true(sml_be32(lane32) > 0 && sml_be32(lane16) >> 16 > 0);
	}
}

TEST(exponent_is_the_least_power_of_two_above_every_element)
{
	unsigned char elements[4 * COUNT];

	FOR_EACH(t, float_types)
	for (int kind = 0; kind < KINDS; kind++)
		for (int round = 0; round < 200; round++) {
			size_t count = random_below(COUNT + 1);

			fill_random(float_types[t], (enum kind)kind, elements, count);
			assert_int_equal(sml_exponent_of(float_types[t], elements, count),
					 ref_exponent(float_types[t], elements, count));
		}
}

TEST(exponent_is_right_on_both_sides_of_every_power_of_two)
{
	for (int power = -149; power <= 127; power++)
		for (int side = -1; side <= 1; side++) {
			float value = ldexpf(1, power);

			if (side != 0)
				value = nextafterf(value, side < 0 ? 0 : INFINITY);
			assert_int_equal(sml_exponent_of(SML_FLOAT32, &value, 1),
					 ref_exponent(SML_FLOAT32, &value, 1));
		}
}

TEST(every_half_pattern_has_the_exponent_of_its_value)
{
	for (uint32_t pattern = 0; pattern < 65536; pattern++) {
		uint16_t half = (uint16_t)pattern;

		assert_int_equal(sml_exponent_of(SML_FLOAT16, &half, 1),
				 ref_exponent(SML_FLOAT16, &half, 1));
		assert_int_equal(sml_exponent_of(SML_BFLOAT16, &half, 1),
				 ref_exponent(SML_BFLOAT16, &half, 1));
	}
}

TEST(zeros_of_either_sign_and_no_elements_have_the_exponent_zero)
{
	unsigned char elements[4 * COUNT];

	FOR_EACH(t, float_types)
	{
		for (size_t i = 0; i < COUNT; i++)
			ref_store(float_types[t], elements, i, i % 3 == 0 ? -0.0 : 0.0);
		assert_int_equal(sml_exponent_of(float_types[t], elements, COUNT),
				 SML_EXPONENT_ZERO);
		assert_int_equal(sml_exponent_of(float_types[t], elements, 0), SML_EXPONENT_ZERO);
	}
}

TEST(one_infinity_or_nan_anywhere_is_seen)
{
	static const double bad[] = {INFINITY, -INFINITY, NAN};
	unsigned char elements[4 * COUNT];

	FOR_EACH(t, float_types)
	FOR_EACH(b, bad)
	for (size_t at = 0; at < COUNT; at++) {
		memset(elements, 0, sizeof(elements));
		ref_store(float_types[t], elements, at, bad[b]);
		assert_int_equal(sml_exponent_of(float_types[t], elements, COUNT),
				 SML_EXPONENT_NONFINITE);
	}
}

/* Sums. */

TEST(sum_over_all_ranks_never_overflows)
{
	FOR_EACH(w, widths)
	for (unsigned n = 1; n <= most_ranks(widths[w]); n++)
		for (int32_t exponent = -148; exponent <= 128; exponent++)
			for (int sign = -1; sign <= 1; sign += 2) {
				/* The largest element that this exponent allows. */
				float below = exponent == 128 ? 0x1.fffffep127f
							      : nextafterf(ldexpf(1, exponent), 0);
				float value = (float)sign * below;
				unsigned char lanes[4];
				int64_t sum;

				quantize(widths[w], SML_FLOAT32, &value, 1, exponent, n, lanes);
				sum = (int64_t)n * ref_get_lane(lanes, 0, widths[w]);
				assert_in_range(llabs(sum), 0, (1ull << (widths[w] - 1)) - 1);
				/* And nothing is given away. */
				if (exponent > -120 && (n & (n - 1)) == 0)
					assert_true(llabs(sum) >
							    (1ll << (widths[w] - 1)) * 99 / 100 ||
						    widths[w] < 32);
			}
}

/*
 * Ranks quantize, the lanes are summed, and the result is compared with the sum in double
 * precision. Returns the largest error as a fraction of the bound.
 */
static double worst_error(enum sml_type type, enum kind kind, int width, unsigned n,
			  unsigned divisor)
{
	static unsigned char elements[MAX_RANKS][4 * COUNT], lanes[4 * COUNT], result[4 * COUNT];
	static int64_t sums[COUNT];
	int bits = width - 1 - (int)ref_headroom(n);
	int32_t exponent = INT32_MIN;
	double worst = 0;

	memset(sums, 0, sizeof(sums));
	for (unsigned rank = 0; rank < n; rank++) {
		int32_t own;

		fill_random(type, kind, elements[rank], COUNT);
		own = sml_exponent_of(type, elements[rank], COUNT);
		exponent = own > exponent ? own : exponent;
	}
	for (unsigned rank = 0; rank < n; rank++) {
		quantize(width, type, elements[rank], COUNT, exponent, n, lanes);
		for (size_t i = 0; i < COUNT; i++)
			sums[i] += ref_get_lane(lanes, i, width);
	}
	for (size_t i = 0; i < COUNT; i++) {
		assert_in_range(llabs(sums[i]), 0, (1ull << (width - 1)) - 1);
		ref_put_lane(lanes, i, width, (int32_t)sums[i]);
	}
	dequantize(width, type, lanes, COUNT, exponent, n, divisor, result);

	for (size_t i = 0; i < COUNT; i++) {
		double exact = 0, got = ref_load(type, result, i), bound, ulp, steps = 0;
		int least = type == SML_FLOAT16 ? -14 : -126;
		int mantissa = type == SML_FLOAT16 ? 10 : type == SML_BFLOAT16 ? 7 : 23;
		int power;

		/*
		 * Half a step for every rank, or one step if clamped, plus the result's rounding.
		 */
		for (unsigned rank = 0; rank < n; rank++) {
			double value = ref_load(type, elements[rank], i);
			bool clamped = ldexp(fabs(value), bits - exponent) > ldexp(1, bits) - 1;

			exact += value;
			steps += width < 32 && clamped ? 1 : 0.5;
		}
		exact /= divisor;
		bound = ldexp(steps, exponent - bits) / divisor;
		(void)frexp(fabs(exact) + bound, &power);
		ulp = ldexp(1, (power - 1 > least ? power - 1 : least) - mantissa);
		bound += 0.5 * ulp * (type == SML_FLOAT32 ? 1 + 0x1p-20 : 1 + 0x1p-11);
		if (isinf(got)) {
			assert_true(fabs(exact) + bound > largest_of_type(type));
			continue;
		}
		assert_true(isfinite(got));
		worst = fmax(worst, fabs(got - exact) / bound);
	}
	return worst;
}

TEST(sum_and_average_stay_within_the_bound)
{
	FOR_EACH(t, float_types)
	FOR_EACH(w, widths)
	for (int kind = 0; kind < KINDS; kind++) {
		double worst = 0;

		FOR_EACH(r, rank_counts)
		for (int round = 0; round < 20; round++) {
			unsigned n = rank_counts[r];

			if (n > most_ranks(widths[w]))
				continue;
			worst = fmax(worst, worst_error(float_types[t], (enum kind)kind, widths[w],
							n, round % 2 == 0 ? 1 : n));
		}
		printf("type %d, int%d wire, %s: worst error is %.0f%% of the bound\n",
		       float_types[t], widths[w], kind_names[kind], 100 * worst);
		assert_true(worst <= 1);
	}
}

TEST(lanes_are_rounded_to_nearest_even)
{
	/* With E = 8, a lane of one rank is x * 2^23 (int32), x * 2^7 (int16) or x / 2 (int8). */
	static const double halves[] = {0.5, 1.5, 2.5, 3.5, -0.5, -1.5, -2.5, 126.5, 0.25, -0.75};

	FOR_EACH(i, halves)
	FOR_EACH(w, widths)
	{
		float value = (float)ldexp(halves[i], 9 - widths[w]);
		unsigned char lanes[4];

		quantize(widths[w], SML_FLOAT32, &value, 1, 8, 1, lanes);
		assert_int_equal(ref_get_lane(lanes, 0, widths[w]), (int)nearbyint(halves[i]));
	}
}

TEST(equal_gradients_have_themselves_as_their_average)
{
	for (unsigned n = 1; n <= MAX_RANKS; n++)
		for (int round = 0; round < 200; round++) {
			float value = (float)random_unit(), average;
			int32_t exponent = sml_exponent_of(SML_FLOAT32, &value, 1);
			unsigned char lanes[4];

			quantize(32, SML_FLOAT32, &value, 1, exponent, n, lanes);
			ref_put_lane(lanes, 0, 32, (int32_t)n * ref_get_lane(lanes, 0, 32));
			dequantize(32, SML_FLOAT32, lanes, 1, exponent, n, n, &average);
			assert_memory_equal(&average, &value, sizeof(value));
		}
}

TEST(every_finite_half_survives_alone_in_its_block_and_minus_zero_loses_its_sign)
{
	/* An int8 lane has fewer bits than a half. */
	for (int t = 1; t < 3; t++)
		for (unsigned w = 0; widths[w] > 8; w++)
			for (uint32_t pattern = 0; pattern < 65536; pattern++) {
				uint16_t half = (uint16_t)pattern, back;
				unsigned char lanes[4];
				int32_t exponent = sml_exponent_of(float_types[t], &half, 1);

				quantize(widths[w], float_types[t], &half, 1, exponent, 1, lanes);
				dequantize(widths[w], float_types[t], lanes, 1, exponent, 1, 1,
					   &back);
				if (exponent == SML_EXPONENT_NONFINITE)
					assert_int_equal(back, t == 1 ? 0x7e00 : 0x7fc0);
				else
					assert_int_equal(back, half == 0x8000 ? 0 : half);
			}
}

TEST(halves_are_rounded_to_nearest_even_between_all_neighbours)
{
	for (int t = 1; t < 3; t++)
		for (uint32_t pattern = 0; pattern < (t == 1 ? 0x7c00u : 0x7f80u); pattern++)
			for (int nudge = -(1 << 17); nudge <= 1 << 17; nudge += 1 << 17) {
				enum sml_type type = float_types[t];
				uint16_t both[8] = {(uint16_t)pattern, (uint16_t)(pattern + 1)};
				uint16_t low = both[0], high = both[1], got;
				double middle = ref_load(type, both, 0), above;
				uint16_t even = pattern % 2 == 0 ? low : high;
				unsigned char lanes[4];
				int exponent;

				above = ref_load(type, both, 1);
				/* Above the largest value is the next power: 2^16 or 2^128. */
				above = isinf(above) ? ldexp(1, t == 1 ? 16 : 128) : above;
				middle = (middle + above) / 2;
				(void)frexp(middle, &exponent);
				if (exponent < -148)
					exponent = -148;
				ref_put_lane(lanes, 0, 32,
					     (int32_t)ldexp(middle, 31 - exponent) + nudge);
				dequantize(32, type, lanes, 1, exponent, 1, 1, &got);
				assert_int_equal(got, nudge < 0 ? low : nudge > 0 ? high : even);
				ref_put_lane(lanes, 0, 32,
					     -(int32_t)ldexp(middle, 31 - exponent) - nudge);
				dequantize(32, type, lanes, 1, exponent, 1, 1, &got);
				assert_int_equal(got, 0x8000 | (nudge < 0   ? low
								: nudge > 0 ? high
									    : even));
			}
}

TEST(sum_too_large_for_its_type_is_infinite)
{
	FOR_EACH(t, float_types)
	FOR_EACH(w, widths)
	for (int sign = -1; sign <= 1; sign += 2) {
		unsigned char element[8], lanes[4], result[8];
		int32_t exponent;

		ref_store(float_types[t], element, 0, sign * largest_of_type(float_types[t]));
		exponent = sml_exponent_of(float_types[t], element, 1);
		quantize(widths[w], float_types[t], element, 1, exponent, 2, lanes);
		ref_put_lane(lanes, 0, widths[w], 2 * ref_get_lane(lanes, 0, widths[w]));
		dequantize(widths[w], float_types[t], lanes, 1, exponent, 2, 1, result);
		assert_true(ref_load(float_types[t], result, 0) ==
			    (sign < 0 ? -INFINITY : INFINITY));
		/* The average of the two is not. */
		dequantize(widths[w], float_types[t], lanes, 1, exponent, 2, 2, result);
		assert_true(isfinite(ref_load(float_types[t], result, 0)));
	}
}

TEST(block_of_zeros_is_plus_zero_and_block_with_nan_is_all_nan)
{
	static const int32_t exponents[] = {SML_EXPONENT_ZERO, SML_EXPONENT_NONFINITE};
	unsigned char elements[4 * COUNT], lanes[4 * COUNT], zeros[4 * COUNT] = {0};

	FOR_EACH(t, float_types)
	FOR_EACH(w, widths)
	FOR_EACH(e, exponents)
	{
		fill_random(float_types[t], PATTERNS, elements, COUNT);
		memset(lanes, 0xff, sizeof(lanes));
		quantize(widths[w], float_types[t], elements, COUNT, exponents[e], 3, lanes);
		assert_memory_equal(lanes, zeros, lane_bytes(widths[w], COUNT));
		dequantize(widths[w], float_types[t], lanes, COUNT, exponents[e], 3, 3, elements);
		for (size_t i = 0; i < COUNT; i++) {
			double value = ref_load(float_types[t], elements, i);

			assert_true(e == 0 ? value == 0 && !signbit(value) : isnan(value));
		}
	}
}

TEST(exponent_that_no_honest_rank_sends_is_as_good_as_nan)
{
	static const int32_t exponents[] = {INT16_MIN + 1, -10000, -149, 129, 255, INT16_MAX - 1};
	unsigned char elements[4 * COUNT], lanes[4 * COUNT], zeros[4 * COUNT] = {0};

	FOR_EACH(t, float_types)
	FOR_EACH(w, widths)
	FOR_EACH(e, exponents)
	{
		fill_random(float_types[t], PATTERNS, elements, COUNT);
		quantize(widths[w], float_types[t], elements, COUNT, exponents[e], 3, lanes);
		assert_memory_equal(lanes, zeros, lane_bytes(widths[w], COUNT));
		dequantize(widths[w], float_types[t], lanes, COUNT, exponents[e], 3, 1, elements);
		for (size_t i = 0; i < COUNT; i++)
			assert_true(isnan(ref_load(float_types[t], elements, i)));
	}
}

TEST(exponent_too_small_for_the_elements_clamps_them)
{
	/*
	 * A wrong exponent, for elements that changed after it was taken: lanes still stay in
	 * range.
	 */
	static const double values[] = {1e30, INFINITY, 65504, -1e30, -INFINITY, -65504, NAN};

	FOR_EACH(t, float_types)
	FOR_EACH(w, widths)
	for (unsigned n = 1; n <= most_ranks(widths[w]); n++)
		for (int32_t exponent = -148; exponent <= 0; exponent++)
			FOR_EACH(v, values)
			{
				unsigned char element[8], lanes[4];
				int64_t sum;

				ref_store(float_types[t], element, 0, values[v]);
				quantize(widths[w], float_types[t], element, 1, exponent, n, lanes);
				sum = (int64_t)n * ref_get_lane(lanes, 0, widths[w]);
				assert_in_range(llabs(sum), 0, (1ull << (widths[w] - 1)) - 1);
				if (!isnan(values[v]))
					assert_int_equal(sum < 0, values[v] < 0);
			}
}

TESTS_BETWEEN(seed_is_set, NULL)
