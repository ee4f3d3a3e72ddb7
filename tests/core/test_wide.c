/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The promises of docs/internals/numbers.md about sums of float64 and int64. They are compared with
 * MPFR's: exact, then rounded once.
 */
#include <mpfr.h>

#include "core/quantize.h"
#include "core/tensor.h"
#include "core/wide.h"
#include "support/quantize_random.h"
#include "support/test.h"
#include "support/wide_plain.h"

#define ELEMENTS  117  /* of a usual chunk */
#define PRECISION 2300 /* bits: any sum of doubles is exact */

#define MOST_RANKS 4096

/* More than 1,024 ranks have smaller limbs. */
static const unsigned limb_counts[] = {1, 2, 3, 5, 8, 17, 64, 1024, 1025, MOST_RANKS};

/* As many rounds of small jobs; of large ones, one for each kind of block. */
static unsigned rounds_of(unsigned n, unsigned most)
{
	return n <= 64 ? most : 6;
}

/* Over n ranks, as switch and ranks do it. Returns the block's exponent. */
static int32_t reduce_doubles(unsigned n, double elements[][ELEMENTS], size_t count,
			      unsigned divisor, double *result)
{
	static uint32_t lanes[SML_LIMBS * ELEMENTS], sums[SML_LIMBS * ELEMENTS];
	int32_t exponent = SML_EXPONENT_ZERO;

	for (unsigned r = 0; r < n; r++) {
		int32_t own = sml_double_exponent_of(elements[r], count);

		exponent = own > exponent ? own : exponent;
	}
	memset(sums, 0, sizeof(sums));
	for (unsigned r = 0; r < n; r++) {
		sml_double_to_limbs(elements[r], count, exponent, n, lanes, count);
		ref_add_lanes(sums, lanes, SML_LIMBS * count);
	}
	sml_double_from_limbs(sums, count, count, exponent, n, divisor, result);
	return exponent;
}

/* |got - sum / divisor| in units of 2^power, as a double; both exact until then. */
static double error_in(mpfr_t sum, unsigned divisor, double got, int power)
{
	double error;
	mpfr_t difference;

	mpfr_init2(difference, PRECISION + 200);
	mpfr_div_ui(difference, sum, divisor, MPFR_RNDN);
	mpfr_sub_d(difference, difference, got, MPFR_RNDN);
	mpfr_mul_2si(difference, difference, -power, MPFR_RNDN);
	error = fabs(mpfr_get_d(difference, MPFR_RNDN));
	mpfr_clear(difference);
	return error;
}

static void sum_exactly(unsigned n, double elements[][ELEMENTS], size_t i, mpfr_t sum)
{
	mpfr_set_zero(sum, 1);
	for (unsigned r = 0; r < n; r++)
		mpfr_add_d(sum, sum, elements[r][i], MPFR_RNDN);
}

static bool is_large(unsigned n, double elements[][ELEMENTS], size_t i, int32_t exponent)
{
	for (unsigned r = 0; r < n; r++)
		if (elements[r][i] != 0 &&
		    fabs(elements[r][i]) < ldexp(1, exponent + 52 - sml_limb_bits(n)))
			return false;
	return true;
}

static int ulp_power(double value)
{
	int exponent;

	(void)frexp(value, &exponent);
	return exponent - 53 < -1074 || value == 0 ? -1074 : exponent - 53;
}

TEST(sums_of_doubles_are_exact_and_rounded_once_and_averages_within_one_and_a_half_ulps)
{
	static double elements[MOST_RANKS][ELEMENTS], result[ELEMENTS], average[ELEMENTS];
	unsigned long n_exact = 0, n_bound = 0;
	mpfr_t sum;

	mpfr_init2(sum, PRECISION);
	FOR_EACH(r, limb_counts)
	for (unsigned round = 0; round < rounds_of(limb_counts[r], 60); round++) {
		unsigned n = limb_counts[r];
		int32_t exponent;

		for (unsigned rank = 0; rank < n; rank++)
			fill_random(SML_FLOAT64, (enum kind)(round % KINDS), elements[rank],
				    ELEMENTS);
		exponent = reduce_doubles(n, elements, ELEMENTS, 1, result);
		reduce_doubles(n, elements, ELEMENTS, n, average);
		for (size_t i = 0; i < ELEMENTS; i++) {
			bool large = is_large(n, elements, i, exponent);
			int unit = exponent - sml_limb_bits(n), ulp = ulp_power(average[i]);
			/* The sum is rounded, and the quotient. */
			double nearest, bound = 1.5 + (large ? 0 : ldexp(0.5, unit - ulp));

			sum_exactly(n, elements, i, sum);
			nearest = mpfr_get_d(sum, MPFR_RNDN);
			if (large) {
				/* No sum of doubles in any order is closer. -0 counts as +0. */
				assert_true(result[i] == nearest);
				n_exact++;
			} else if (isfinite(nearest)) {
				/* n u / 2, and the rounding of the sum. */
				double units = error_in(sum, 1, result[i], unit);
				double ulps = ldexp(0.5, ulp_power(result[i]) - unit);

				assert_true(units <= n / 2.0 + ulps);
				n_bound++;
			}
			/* An average is finite, however large the sum. */
			assert_true(isfinite(average[i]));
			assert_true(error_in(sum, n, average[i], ulp) <= bound);
		}
	}
	assert_true(n_exact > 10000 && n_bound > 10000);
	mpfr_clear(sum);
}

/* -DBL_MAX - DBL_MAX / 2^40 + …: the sum's upper part alone would be infinite. */
TEST(sums_just_below_the_largest_double_stay_finite)
{
	static double elements[3][ELEMENTS];
	double result[ELEMENTS];
	const double most = 0x1.fffffffffffffp1023;

	elements[0][0] = -most;
	elements[1][0] = 0x1p1000;
	elements[2][0] = 0;
	elements[0][1] = most;
	elements[1][1] = -most;
	elements[2][1] = most;
	elements[0][2] = elements[1][2] = elements[2][2] = most;
	reduce_doubles(3, elements, 3, 1, result);
	assert_true(result[0] == -most + 0x1p1000);
	assert_true(result[1] == most);
	assert_true(isinf(result[2]) && result[2] > 0);
	reduce_doubles(3, elements, 3, 3, result);
	assert_true(result[2] == most);
}

TEST(special_doubles_spoil_or_zero_their_block)
{
	static double elements[2][ELEMENTS];
	static const double bad[] = {INFINITY, -INFINITY, NAN};
	double result[ELEMENTS];

	FOR_EACH(b, bad)
	{
		fill_random(SML_FLOAT64, ORDINARY, elements[0], ELEMENTS);
		fill_random(SML_FLOAT64, ORDINARY, elements[1], ELEMENTS);
		elements[b % 2][b] = bad[b];
		assert_int_equal(reduce_doubles(2, elements, ELEMENTS, 1, result),
				 SML_EXPONENT_NONFINITE);
		for (size_t i = 0; i < ELEMENTS; i++)
			assert_true(isnan(result[i]));
	}
	for (size_t i = 0; i < ELEMENTS; i++)
		elements[0][i] = elements[1][i] = i % 2 ? -0.0 : 0.0;
	assert_int_equal(reduce_doubles(2, elements, ELEMENTS, 1, result), SML_EXPONENT_ZERO);
	for (size_t i = 0; i < ELEMENTS; i++)
		assert_true(result[i] == 0 && !signbit(result[i]));
}

/* Limbs and exponents that no honest rank sends: there must be no undefined behavior. */
TEST(any_lanes_become_some_doubles)
{
	static uint32_t lanes[SML_LIMBS * ELEMENTS];
	static double elements[ELEMENTS];

	for (unsigned round = 0; round < 500; round++) {
		int32_t exponent =
			round % 3 ? (int32_t)random_below(2200) - 1100 : (int32_t)random_bits();
		unsigned n = random_below(2) ? 64 : MOST_RANKS;

		for (size_t i = 0; i < SML_LIMBS * ELEMENTS; i++)
			lanes[i] = random_below(4) ? (uint32_t)random_bits() : UINT32_MAX;
		sml_double_from_limbs(lanes, ELEMENTS, ELEMENTS, exponent, n, 1 + random_below(n),
				      elements);
		sml_int64_from_limbs(lanes, ELEMENTS, n, 1 + random_below(n), elements);
		fill_random(SML_FLOAT64, PATTERNS, elements, ELEMENTS);
		elements[0] = NAN;
		elements[1] = -INFINITY;
		sml_double_to_limbs(elements, ELEMENTS, exponent, n, lanes, ELEMENTS);
		sml_double_quantize_int32(elements, ELEMENTS, exponent, 64, lanes);
		sml_double_quantize_int16(elements, ELEMENTS, exponent, 64, lanes);
	}
}

/* The extreme values of limbs: n ranks, every limb at its largest and smallest. */
static void add_extremes(unsigned n)
{
	static const double extremes[] = {0x1.fffffffffffffp0, -0x1.fffffffffffffp0, -0x1p0, 1};
	static const int64_t integers[] = {INT64_MAX, INT64_MIN, -1, 0x3fffff, 0x7ffffffffff};

	FOR_EACH(e, extremes)
	{
		uint32_t lanes[SML_LIMBS], sums[SML_LIMBS] = {0};
		double result;

		sml_double_to_limbs(&extremes[e], 1, 1, n, lanes, 1);
		for (unsigned rank = 0; rank < n; rank++)
			ref_add_lanes(sums, lanes, SML_LIMBS);
		sml_double_from_limbs(sums, 1, 1, 1, n, 1, &result);
		assert_true(result == extremes[e] * n);
	}
	FOR_EACH(e, integers)
	{
		uint32_t lanes[SML_LIMBS], sums[SML_LIMBS] = {0};
		int64_t result;

		sml_int64_to_limbs(&integers[e], 1, n, lanes);
		for (unsigned rank = 0; rank < n; rank++)
			ref_add_lanes(sums, lanes, SML_LIMBS);
		sml_int64_from_limbs(sums, 1, n, 1, &result);
		assert_int_equal(result, (int64_t)((uint64_t)integers[e] * n));
	}
}

TEST(limbs_of_as_many_ranks_as_allowed_do_not_overflow)
{
	add_extremes(SML_LIMB_WIDE_RANKS);
	add_extremes(MOST_RANKS);
}

TEST(sums_of_int64_are_exact_modulo_2_to_the_64)
{
	static int64_t elements[MOST_RANKS][ELEMENTS], result[ELEMENTS];
	static uint32_t lanes[SML_LIMBS * ELEMENTS], sums[SML_LIMBS * ELEMENTS];

	FOR_EACH(r, limb_counts)
	for (unsigned round = 0; round < rounds_of(limb_counts[r], 60); round++) {
		unsigned n = limb_counts[r];
		uint64_t expected[ELEMENTS] = {0};

		memset(sums, 0, sizeof(sums));
		for (unsigned rank = 0; rank < n; rank++) {
			for (size_t i = 0; i < ELEMENTS; i++) {
				elements[rank][i] = (int64_t)random_bits() >> random_below(64);
				expected[i] += (uint64_t)elements[rank][i];
			}
			sml_int64_to_limbs(elements[rank], ELEMENTS, n, lanes);
			ref_add_lanes(sums, lanes, SML_LIMBS * ELEMENTS);
		}
		sml_int64_from_limbs(sums, ELEMENTS, n, 1, result);
		assert_memory_equal(result, expected, sizeof(expected));
		sml_int64_from_limbs(sums, ELEMENTS, n, n, result);
		for (size_t i = 0; i < ELEMENTS; i++)
			assert_int_equal(result[i], (int64_t)expected[i] / (int64_t)n);
	}
}

/* float64 on the wires of float32: their accuracy. */
TEST(doubles_on_narrow_wires_are_within_their_bounds)
{
	static double elements[MOST_RANKS][ELEMENTS], result[ELEMENTS];
	static uint32_t lanes[ELEMENTS], sums[ELEMENTS];
	mpfr_t sum;

	mpfr_init2(sum, PRECISION);
	FOR_EACH(r, limb_counts)
	for (unsigned round = 0; round < rounds_of(limb_counts[r], 60); round++) {
		unsigned n = limb_counts[r];
		bool narrow = round / 6 % 2;
		int bits = (narrow ? 15 : 31) - (int)ref_headroom(n);
		int32_t exponent = SML_EXPONENT_ZERO;

		memset(sums, 0, sizeof(sums));
		for (unsigned rank = 0; rank < n; rank++) {
			int32_t own;

			fill_random(SML_FLOAT64, (enum kind)(round % KINDS), elements[rank],
				    ELEMENTS);
			own = sml_double_exponent_of(elements[rank], ELEMENTS);
			exponent = own > exponent ? own : exponent;
		}
		for (unsigned rank = 0; rank < n; rank++) {
			(narrow ? sml_double_quantize_int16 : sml_double_quantize_int32)(
				elements[rank], ELEMENTS, exponent, n, lanes);
			for (size_t i = 0; i < ELEMENTS; i++) {
				int width = narrow ? 16 : 32;
				int64_t both = (int64_t)ref_get_lane(sums, i, width) +
					       ref_get_lane(lanes, i, width);

				/* No lane overflows. */
				assert_in_range(both + INT64_C(0x80000000),
						narrow ? 0x80000000 - 0x8000 : 0,
						narrow ? 0x80007fff : UINT32_MAX);
				ref_put_lane(sums, i, width, (int32_t)both);
			}
		}
		(narrow ? sml_double_dequantize_int16
			: sml_double_dequantize_int32)(sums, ELEMENTS, exponent, n, 1, result);
		for (size_t i = 0; i < ELEMENTS; i++) {
			sum_exactly(n, elements, i, sum);
			if (isfinite(result[i])) {
				assert_true(error_in(sum, 1, result[i], exponent - bits) <= n);
				continue;
			}
			/* Infinite only if the error could reach infinity. */
			mpfr_abs(sum, sum, MPFR_RNDN);
			mpfr_add_d(sum, sum, ldexp(n, exponent - bits), MPFR_RNDN);
			assert_true(mpfr_cmp_ui_2exp(sum, 1, 1024) >= 0);
		}
	}
	mpfr_clear(sum);
}

/* ---- chunks of which a rank wants a part ---- */

/* The largest case: two elements of 8 bytes in each of the most lanes. The sanitizer checks it. */
TEST(part_of_the_largest_chunk_fits)
{
	enum { N = 6000 };
	static double send[N], recv[N / 2];
	static uint32_t lanes[SML_MAX_LANES];
	struct sml_tensor_spec spec = {
		.collective = SML_REDUCE_SCATTER,
		.type = SML_FLOAT64,
		.op = SML_SUM,
		.wire = SML_WIRE_INT16,
		.count = N,
		.send = send,
		.send_count = N,
		.recv = recv,
		.recv_count = N / 2,
	};
	const struct sml_shape shape = {.lanes = SML_MAX_LANES, .n_ranks = 2};
	struct sml_sequence sequence = {0};
	struct sml_tensor tensor;
	void *memory = malloc(sml_tensor_memory_bytes(&spec, &shape));

	for (int i = 0; i < N; i++)
		send[i] = i;
	assert_non_null(memory);
	sml_tensor_init(&tensor, &spec, &shape, &sequence, memory);
	for (enum sml_stream_id stream = SML_HEAD; stream < SML_STREAMS; stream++) {
		assert_true(sml_tensor_claim(&tensor, stream, 0));
		sml_tensor_fill(&tensor, stream, 0, lanes);
		sml_tensor_take(&tensor, stream, 0, lanes);
	}
	/* A unit of the block is 8192 / 2^14. */
	for (int i = 0; i < N / 2; i++)
		assert_true(fabs(recv[i] - i) <= 0.5);
	free(memory);
}

/* Also for elements above the exponent and for NaN, which only a dishonest rank causes. */
TEST(vectors_and_scalars_agree_on_every_bit)
{
	static double elements[ELEMENTS], back[ELEMENTS], plain_back[ELEMENTS];
	static uint32_t lanes[SML_LIMBS * ELEMENTS], plain[SML_LIMBS * ELEMENTS];

	for (unsigned round = 0; round < 20000; round++) {
		size_t count = random_below(ELEMENTS + 1), bytes = 8 * count;
		size_t stride = count + random_below((unsigned)(ELEMENTS - count) + 1);
		unsigned n = random_below(64) ? 1 + random_below(64)
					      : 1025 + random_below(MOST_RANKS - 1024);
		unsigned divisor = random_below(2) ? 1 : n;
		int32_t exponent;

		fill_random(SML_FLOAT64, (enum kind)(round % KINDS), elements, count);
		exponent = sml_double_exponent_of(elements, count);
		assert_int_equal(exponent, plain_double_exponent_of(elements, count));
		if (exponent > -1000 && exponent < 1000 && random_below(2))
			exponent += (int32_t)random_below(70) - 4;
		if (count && random_below(16) == 0)
			elements[random_below((unsigned)count)] = NAN;

		/* Lanes between the limbs belong to other blocks: they stay as they are. */
		memset(lanes, 0x5a, sizeof(lanes));
		memset(plain, 0x5a, sizeof(plain));
		sml_double_to_limbs(elements, count, exponent, n, lanes, stride);
		plain_double_to_limbs(elements, count, exponent, n, plain, stride);
		assert_memory_equal(lanes, plain, sizeof(lanes));
		for (size_t limb = 0; limb < SML_LIMBS; limb++)
			for (size_t i = count; i < stride; i++)
				assert_int_equal(lanes[limb * stride + i], 0x5a5a5a5a);
		for (unsigned r = 1; r < n; r++)
			ref_add_lanes(lanes, plain, SML_LIMBS * stride);
		sml_double_from_limbs(lanes, stride, count, exponent, n, divisor, back);
		plain_double_from_limbs(lanes, stride, count, exponent, n, divisor, plain_back);
		assert_memory_equal(back, plain_back, bytes);

		sml_int64_to_limbs(elements, count, n, lanes);
		plain_int64_to_limbs(elements, count, n, plain);
		assert_memory_equal(lanes, plain, SML_LIMBS * 4 * count);
		sml_int64_from_limbs(lanes, count, n, divisor, back);
		plain_int64_from_limbs(lanes, count, n, divisor, plain_back);
		assert_memory_equal(back, plain_back, bytes);

		sml_double_quantize_int32(elements, count, exponent, n, lanes);
		plain_double_quantize_int32(elements, count, exponent, n, plain);
		assert_memory_equal(lanes, plain, 4 * count);
		sml_double_dequantize_int32(lanes, count, exponent, n, divisor, back);
		plain_double_dequantize_int32(lanes, count, exponent, n, divisor, plain_back);
		assert_memory_equal(back, plain_back, bytes);

		sml_double_quantize_int16(elements, count, exponent, n, lanes);
		plain_double_quantize_int16(elements, count, exponent, n, plain);
		assert_memory_equal(lanes, plain, 4 * ((count + 1) / 2));
		sml_double_dequantize_int16(lanes, count, exponent, n, divisor, back);
		plain_double_dequantize_int16(lanes, count, exponent, n, divisor, plain_back);
		assert_memory_equal(back, plain_back, bytes);
	}
}

TESTS_BETWEEN(seed_is_set, NULL)
