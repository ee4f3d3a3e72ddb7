/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Block floating point: see quantize.h for the rule and docs/numbers.md for its errors. The one
 * invariant: for any elements, exponent and lanes (the last two come from the network), no
 * conversion leaves its range, and no sum over n_ranks honest ranks overflows its lane.
 *
 * Every step is one IEEE operation rounded to nearest even, so the bits do not depend on compiler,
 * vector width or machine. The only exception is a process that makes its CPU flush subnormals
 * (FTZ, DAZ) or round in another mode.
 */
#include "core/quantize.h"

#include "core/element.h"
#include "core/float16.h"
#include "core/multiversion.h"
#include "core/wire.h"

#define EXPONENT_MIN (-148) /* of 2^-149, the smallest float32 */
#define EXPONENT_MAX 128    /* of FLT_MAX */

unsigned sml_headroom_bits(unsigned n_ranks)
{
	sml_assert(n_ranks >= 1 && n_ranks <= 2 * SML_MAX_WORLD);
	return n_ranks == 1 ? 0 : 32 - (unsigned)__builtin_clz(n_ranks - 1);
}

/*
 * True if the lanes hold numbers: the exponent is neither a marker nor a value that no honest rank
 * sends.
 */
static bool is_ordinary(int32_t exponent)
{
	return exponent >= EXPONENT_MIN && exponent <= EXPONENT_MAX;
}

/*
 * Magnitudes of floats are in the same order as their bits, so a block's exponent is that of its
 * largest bits. Signed, because old x86 CPUs have only a signed maximum.
 */
SML_MULTIVERSION
static uint32_t largest_of_32(const sml_any_u32 *elements, size_t count)
{
	int32_t largest = 0;

	for (size_t i = 0; i < count; i++) {
		int32_t rest = (int32_t)(elements[i] & 0x7fffffffu);

		largest = rest > largest ? rest : largest;
	}
	return (uint32_t)largest;
}

SML_MULTIVERSION
static uint32_t largest_of_16(const sml_any_u16 *elements, size_t count)
{
	int16_t largest = 0;

	for (size_t i = 0; i < count; i++) {
		int16_t rest = (int16_t)(elements[i] & 0x7fffu);

		largest = rest > largest ? rest : largest;
	}
	return (uint32_t)largest;
}

int32_t sml_exponent_of(enum sml_type type, const void *elements, size_t count)
{
	uint32_t largest;

	if (type == SML_FLOAT16)
		largest = sml_float16_widen(largest_of_16(elements, count));
	else if (type == SML_BFLOAT16)
		largest = largest_of_16(elements, count) << 16;
	else
		largest = largest_of_32(elements, count);

	if (largest == 0)
		return SML_EXPONENT_ZERO;
	if (largest >= SML_FLOAT32_INFINITY)
		return SML_EXPONENT_NONFINITE;
	if (largest < 1u << 23) /* subnormal, largest * 2^-149 */
		return 32 - __builtin_clz(largest) - 149;
	return (int32_t)(largest >> 23) - 126;
}

/*
 * How the elements of one block become integers: y = x * 2^power, with power = B - E in [3 - 128,
 * 31 + 148]. 2^power can exceed the range of float32, so it is applied as two factors, each between
 * 2^-60 and 2^90 and thus exact:
 *
 * - power >= 0: |x| < 2^E, and x * first < 2^B; nothing overflows or is
 *   rounded.
 * - power < 0: a product is rounded only where it is subnormal. If the first
 *   is, |x| < 2^-66, and if the second is, |y| < 2^-126: y becomes the integer
 *   0 with or without that error.
 *
 * An exponent that is too small for these elements (only a dishonest rank sends one) can make y
 * infinite, and elements that changed after the exponent was measured can make it NaN. `limit`
 * bounds both. struct sml_scale has the factors and `limit`.
 */
static float float_power(int32_t power)
{
	return sml_float_of((uint32_t)(127 + power) << 23);
}

static struct sml_scale scale_of(int32_t power, float limit)
{
	int32_t half = power / 2;

	return (struct sml_scale){float_power(half), float_power(power - half), limit};
}

/* NaN compares false with everything and becomes limit. */
SML_INLINE float scaled(uint32_t bits, struct sml_scale scale)
{
	float y = sml_float_of(bits) * scale.first * scale.second;

	y = y < scale.limit ? y : scale.limit;
	return y > -scale.limit ? y : -scale.limit;
}

/*
 * From 2^23 on, a float32 is an integer. Below, adding 2^23 of the same sign leaves no bits for a
 * fraction, and subtracting it again is exact.
 */
SML_INLINE float round_to_even(float y)
{
	float magic = sml_float_of((sml_bits_of(y) & SML_FLOAT32_SIGN) | sml_bits_of(0x1p23f));
	float rounded = (y + magic) - magic;

	return sml_float_of(
		sml_select(__builtin_fabsf(y) < 0x1p23f, sml_bits_of(rounded), sml_bits_of(y)));
}

SML_INLINE void quantize_int32_loop(enum sml_type type, const void *restrict elements, size_t done,
				    size_t count, struct sml_scale scale,
				    sml_any_u32 *restrict lanes)
{
	for (size_t i = done; i < count; i++) {
		float y = scaled(sml_element_load(type, elements, i), scale);

		lanes[i] = sml_be32((uint32_t)(int32_t)round_to_even(y));
	}
}

/* |y| < 2^15: adding 1.5 * 2^23 leaves the integer in the last bits of the mantissa. */
SML_INLINE void quantize_narrow_loop(unsigned width, enum sml_type type,
				     const void *restrict elements, size_t done, size_t count,
				     struct sml_scale scale, void *restrict lanes)
{
	for (size_t i = done; i < count; i++) {
		float y = scaled(sml_element_load(type, elements, i), scale);

		sml_narrow_store(width, lanes, i, sml_bits_of(y + 0x1.8p23f));
	}
}

/*
 * Only float16 may have `done` some elements already. The other loops begin at a constant, which
 * makes them 10 % faster. The scale is passed by address: a struct of floats in a register would be
 * stored in parts and loaded as a whole, which stalls for longer than a block of 64 takes.
 */
SML_MULTIVERSION
static void quantize_int32(enum sml_type type, const void *elements, size_t done, size_t count,
			   const struct sml_scale *by, void *lanes)
{
	const struct sml_scale scale = *by;

	if (type == SML_FLOAT16)
		quantize_int32_loop(SML_FLOAT16, elements, done, count, scale, lanes);
	else if (type == SML_BFLOAT16)
		quantize_int32_loop(SML_BFLOAT16, elements, 0, count, scale, lanes);
	else
		quantize_int32_loop(SML_FLOAT32, elements, 0, count, scale, lanes);
}

/* One for each width, which the compiler then knows. */
#define DEFINE_QUANTIZE_NARROW(name, width)                                                        \
	SML_MULTIVERSION                                                                           \
	static void name(enum sml_type type, const void *elements, size_t done, size_t count,      \
			 const struct sml_scale *by, void *lanes)                                  \
	{                                                                                          \
		const struct sml_scale scale = *by;                                                \
                                                                                                   \
		if (type == SML_FLOAT16)                                                           \
			quantize_narrow_loop(width, SML_FLOAT16, elements, done, count, scale,     \
					     lanes);                                               \
		else if (type == SML_BFLOAT16)                                                     \
			quantize_narrow_loop(width, SML_BFLOAT16, elements, 0, count, scale,       \
					     lanes);                                               \
		else                                                                               \
			quantize_narrow_loop(width, SML_FLOAT32, elements, 0, count, scale,        \
					     lanes);                                               \
	}

DEFINE_QUANTIZE_NARROW(quantize_int16, 16)
DEFINE_QUANTIZE_NARROW(quantize_int8, 8)

/*
 * B = 31 - h. |x| < 2^E and x has 24 bits, so |y| <= 2^B - 2^(B - 24). With up to 128 ranks, this
 * is an integer, so limit changes nothing. n * 2^B <= 2^31: no sum overflows, and with n = 1 the
 * conversion to int32 gets at most 2^31 - 2^7. With more ranks, rounding could reach 2^B, and the
 * limit is 2^B - 1, as for narrow lanes below.
 */
void sml_quantize_int32(enum sml_type type, const void *elements, size_t count, int32_t exponent,
			unsigned n_ranks, void *lanes)
{
	int32_t bits = 31 - (int32_t)sml_headroom_bits(n_ranks);
	float limit = float_power(bits) - (bits < 24 ? 1 : float_power(bits - 24));

	struct sml_scale scale;
	size_t done = 0;

	if (!is_ordinary(exponent)) {
		__builtin_memset(lanes, 0, 4 * count);
		return;
	}
	scale = scale_of(bits - exponent, limit);
	if (type == SML_FLOAT16)
		done = sml_float16_to_int32(elements, count, &scale, lanes);
	if (done < count)
		quantize_int32(type, elements, done, count, &scale, lanes);
}

/*
 * B = 15 - h, or 7 - h, >= 3. Here rounding could reach 2^B, and the sum of n of them 2^15, or 2^7.
 * So the limit is 2^B - 1; the price is an error below 1, instead of 1/2, for these elements.
 */
SML_INLINE void quantize_block(unsigned width, enum sml_type type, const void *elements,
			       size_t count, int32_t exponent, unsigned n_ranks, void *lanes)
{
	int32_t bits = (int32_t)width - 1 - (int32_t)sml_headroom_bits(n_ranks);
	size_t per_lane = 32 / width, done = 0;
	struct sml_scale scale;

	sml_assert(bits >= 3);
	if (!is_ordinary(exponent)) {
		__builtin_memset(lanes, 0, 4 * ((count + per_lane - 1) / per_lane));
		return;
	}
	for (size_t i = count; i % per_lane != 0; i++)
		sml_narrow_store(width, lanes, i, 0);
	scale = scale_of(bits - exponent, float_power(bits) - 1);
	if (type == SML_FLOAT16)
		done = sml_float16_to_narrow(width, elements, count, &scale, lanes);
	if (done == count)
		return;
	if (width == 16)
		quantize_int16(type, elements, done, count, &scale, lanes);
	else
		quantize_int8(type, elements, done, count, &scale, lanes);
}

/* Blocks are short, so the compiler shall know the width. */
void sml_quantize_narrow(unsigned width, enum sml_type type, const void *elements, size_t count,
			 int32_t exponent, unsigned n_ranks, void *lanes)
{
	if (width == 16)
		quantize_block(16, type, elements, count, exponent, n_ranks, lanes);
	else
		quantize_block(8, type, elements, count, exponent, n_ranks, lanes);
}

/*
 * The factor of a sum: 2^power / divisor, power = E - B in [-148 - 31, 128 + 6]: B is -6 for sums
 * of int8 that were rounded by 13 bits.
 *
 * float32: in double precision. For SUM the product is exact (32 bits times a power of two within
 * the range of doubles), and the conversion to float32 is the only rounding. For AVG the factor and
 * the product are also rounded to 53 bits. A value too large for float32 becomes infinity.
 *
 * Half types: in float32, which has 13 more bits than float16 and is faster. In two steps, because
 * the power can exceed the range of one factor; the first step is exact.
 */
struct factor {
	double whole;
	float first, second;
};

static struct factor factor_of(int32_t power, unsigned divisor)
{
	uint64_t bits = (uint64_t)(1023 + power) << 52;
	int32_t half = power / 2;
	struct factor factor;

	sml_assert(divisor >= 1 && divisor <= SML_MAX_WORLD);
	__builtin_memcpy(&factor.whole, &bits, sizeof(bits));
	factor.whole /= divisor;
	factor.first = float_power(half);
	factor.second = float_power(power - half) / (float)divisor;
	return factor;
}

SML_INLINE uint32_t multiplied(enum sml_type type, int32_t sum, struct factor factor)
{
	if (type == SML_FLOAT32)
		return sml_bits_of((float)((double)sum * factor.whole));
	return sml_bits_of((float)sum * factor.first * factor.second);
}

SML_INLINE void dequantize_int32_loop(enum sml_type type, const sml_any_u32 *restrict lanes,
				      size_t done, size_t count, struct factor factor,
				      void *restrict elements)
{
	for (size_t i = done; i < count; i++) {
		int32_t sum = (int32_t)sml_be32(lanes[i]);

		sml_element_store(type, elements, i, multiplied(type, sum, factor));
	}
}

SML_INLINE void dequantize_narrow_loop(unsigned width, enum sml_type type,
				       const void *restrict lanes, size_t done, size_t count,
				       struct factor factor, void *restrict elements)
{
	for (size_t i = done; i < count; i++)
		sml_element_store(type, elements, i,
				  multiplied(type, sml_narrow_load(width, lanes, i), factor));
}

SML_MULTIVERSION
static void dequantize_int32(enum sml_type type, const void *lanes, size_t done, size_t count,
			     const struct factor *by, void *elements)
{
	const struct factor factor = *by;

	if (type == SML_FLOAT16)
		dequantize_int32_loop(SML_FLOAT16, lanes, done, count, factor, elements);
	else if (type == SML_BFLOAT16)
		dequantize_int32_loop(SML_BFLOAT16, lanes, 0, count, factor, elements);
	else
		dequantize_int32_loop(SML_FLOAT32, lanes, 0, count, factor, elements);
}

#define DEFINE_DEQUANTIZE_NARROW(name, width)                                                      \
	SML_MULTIVERSION                                                                           \
	static void name(enum sml_type type, const void *lanes, size_t done, size_t count,         \
			 const struct factor *by, void *elements)                                  \
	{                                                                                          \
		const struct factor factor = *by;                                                  \
                                                                                                   \
		if (type == SML_FLOAT16)                                                           \
			dequantize_narrow_loop(width, SML_FLOAT16, lanes, done, count, factor,     \
					       elements);                                          \
		else if (type == SML_BFLOAT16)                                                     \
			dequantize_narrow_loop(width, SML_BFLOAT16, lanes, 0, count, factor,       \
					       elements);                                          \
		else                                                                               \
			dequantize_narrow_loop(width, SML_FLOAT32, lanes, 0, count, factor,        \
					       elements);                                          \
	}

DEFINE_DEQUANTIZE_NARROW(dequantize_int16, 16)
DEFINE_DEQUANTIZE_NARROW(dequantize_int8, 8)

/* A block without numbers: all zeros or all NaN. */
static void fill(enum sml_type type, size_t count, int32_t exponent, void *elements)
{
	for (size_t i = 0; i < count; i++) {
		if (exponent == SML_EXPONENT_ZERO)
			sml_element_store(type, elements, i, 0);
		else
			sml_element_store_nan(type, elements, i);
	}
}

void sml_dequantize_int32(enum sml_type type, const void *lanes, size_t count, int32_t exponent,
			  unsigned n_ranks, unsigned divisor, void *elements)
{
	int32_t bits = 31 - (int32_t)sml_headroom_bits(n_ranks);

	struct factor factor;
	size_t done = 0;

	if (!is_ordinary(exponent)) {
		fill(type, count, exponent, elements);
		return;
	}
	factor = factor_of(exponent - bits, divisor);
	if (type == SML_FLOAT16)
		done = sml_float16_from_int32(lanes, count, factor.first, factor.second, elements);
	if (done < count)
		dequantize_int32(type, lanes, done, count, &factor, elements);
}

void sml_dequantize_narrow(unsigned width, enum sml_type type, const void *lanes, size_t count,
			   int32_t exponent, unsigned n_ranks, unsigned divisor, void *elements)
{
	int32_t bits = (int32_t)width - 1 - (int32_t)sml_headroom_bits(n_ranks);

	struct factor factor;
	size_t done = 0;

	if (!is_ordinary(exponent)) {
		fill(type, count, exponent, elements);
		return;
	}
	factor = factor_of(exponent - bits, divisor);
	if (type == SML_FLOAT16)
		done = sml_float16_from_narrow(width, lanes, count, factor.first, factor.second,
					       elements);
	if (done == count)
		return;
	if (width == 16)
		dequantize_int16(type, lanes, done, count, &factor, elements);
	else
		dequantize_int8(type, lanes, done, count, &factor, elements);
}
