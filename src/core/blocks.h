/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Block floating point, one block at a time: which elements a block has, and by what they are
 * multiplied. quantize.c and float16.c share this; their loops over a block's elements differ.
 */
#ifndef SML_CORE_BLOCKS_H
#define SML_CORE_BLOCKS_H

#include "core/element.h"
#include "core/quantize.h"
#include "core/rounding.h"

#define SML_EXPONENT_MIN (-148) /* of 2^-149, the smallest float32 */
#define SML_EXPONENT_MAX 128	/* of FLT_MAX */

/* The elements [at, at + count) of a run: all that it has of one block. */
struct sml_part {
	size_t at, count;
	size_t block; /* the block's number, counted from the first one of the run */
	int32_t exponent;
	int32_t shift; /* by how many bits the block's sums were rounded */
};

/*
 * True if the lanes hold numbers: the exponent is neither a marker nor a value that no honest rank
 * sends.
 */
SML_INLINE bool sml_part_is_ordinary(const struct sml_part *part)
{
	return part->exponent >= SML_EXPONENT_MIN && part->exponent <= SML_EXPONENT_MAX;
}

SML_INLINE void sml_describe_part(const struct sml_blocks *blocks, size_t count, size_t rest,
				  struct sml_part *part)
{
	part->count = count - part->at < rest ? count - part->at : rest;
	part->exponent = blocks->exponents[part->block];
	part->shift = 0;
	if (blocks->shifts != NULL) {
		part->shift = blocks->shifts[part->block];
		/* A switch that lies must not lead out of the range. */
		if (part->shift > SML_ROUNDED_SHIFT_MAX)
			part->shift = SML_ROUNDED_SHIFT_MAX;
	}
}

/* Find the first part of a run of count elements. Returns false if there is none. */
SML_INLINE bool sml_first_part(const struct sml_blocks *blocks, size_t count, struct sml_part *part)
{
	part->at = part->block = 0;
	if (count == 0)
		return false;
	sml_describe_part(blocks, count, blocks->size - blocks->skip, part);
	return true;
}

/* Find the next one. Returns false if there is none. */
SML_INLINE bool sml_next_part(const struct sml_blocks *blocks, size_t count, struct sml_part *part)
{
	part->at += part->count;
	part->block++;
	if (part->at == count)
		return false;
	sml_describe_part(blocks, count, blocks->size, part);
	return true;
}

/* Write a part that is not ordinary: all zeros or all NaN. elements are those of the run. */
SML_INLINE void sml_fill_part(enum sml_type type, const struct sml_part *part, void *elements)
{
	for (size_t i = part->at; i < part->at + part->count; i++) {
		if (part->exponent == SML_EXPONENT_ZERO)
			sml_element_store(type, elements, i, 0);
		else
			sml_element_store_nan(type, elements, i);
	}
}

SML_INLINE float sml_float_power(int32_t power)
{
	return sml_float_of((uint32_t)(127 + power) << 23);
}

/*
 * How the elements of one block become integers: y = x * 2^power, with power = B - E in [3 - 128,
 * 31 + 148]. Usually 2^power is one factor. It can exceed the range of float32, and is then applied
 * as two factors, each between 2^-60 and 2^90 and thus exact:
 *
 * - power >= 0: |x| < 2^E, and x * first < 2^B; nothing overflows or is
 *   rounded.
 * - power < 0: a product is rounded only where it is subnormal. If the first
 *   is, |x| < 2^-66, and if the second is, |y| < 2^-126: y becomes the integer
 *   0 with or without that error.
 *
 * So both ways give the same integers. An exponent that is too small for these elements (only a
 * dishonest rank sends one) can make y infinite, and elements that changed after the exponent was
 * measured can make it NaN. `limit` bounds both.
 *
 * int32 lanes: |x| < 2^E and x has 24 bits, so |y| <= 2^B - 2^(B - 24). With up to 128 ranks, this
 * is an integer, so limit changes nothing. n * 2^B <= 2^31: no sum overflows, and with n = 1 the
 * conversion to int32 gets at most 2^31 - 2^7. With more ranks, rounding could reach 2^B, and the
 * limit is 2^B - 1.
 *
 * Narrow lanes: rounding could reach 2^B, and the sum of n of them 2^15, or 2^7. So the limit is
 * 2^B - 1; the price is an error below 1, instead of 1/2, for these elements.
 */
struct sml_scale {
	bool one; /* the second factor is 1 */
	float first, second;
	float limit; /* the most that |y| may be, an integer */
};

SML_INLINE struct sml_scale sml_scale_of(unsigned width, int32_t bits, int32_t exponent)
{
	int32_t power = bits - exponent;
	bool one = power >= -126 && power <= 127;
	int32_t half = one ? power : power / 2;
	bool exact = width == 32 && bits >= 24;

	return (struct sml_scale){
		.one = one,
		.first = sml_float_power(half),
		.second = sml_float_power(power - half),
		.limit = sml_float_power(bits) - (exact ? sml_float_power(bits - 24) : 1),
	};
}

/*
 * The factor of a sum: 2^power / divisor, power = E - B in [-148 - 31, 128 + 6]: B is -6 for sums
 * of int8 that were rounded by 13 bits.
 *
 * float32: in double precision. For SUM the product is exact (32 bits times a power of two within
 * the range of doubles), and the conversion to float32 is the only rounding. For AVG the factor and
 * the product are also rounded to 53 bits. A value too large for float32 becomes infinity.
 *
 * Half types: in float32, which has 13 more bits than float16 and is faster. In two steps if the
 * power exceeds the range of one factor; the first step is exact.
 *
 * One step is enough, and gives the same bits, if the factor is not subnormal: then no product is,
 * either. With a factor that is a power of two, it gives those of the double, too, because both
 * round once: the sum as it becomes a float32, or the product.
 */
enum sml_steps { SML_STEPS_ONE, SML_STEPS_TWO, SML_STEPS_DOUBLE };

struct sml_factor {
	enum sml_steps steps;
	double whole;	     /* the factor, if SML_STEPS_DOUBLE */
	float first, second; /* the factors of the steps otherwise; second is 1 if there is one */
};

SML_INLINE struct sml_factor sml_factor_of(enum sml_type type, int32_t power, unsigned divisor)
{
	uint64_t bits = (uint64_t)(1023 + power) << 52;
	bool one = power >= -126 + 12 && power <= 127; /* divisor <= 2^12 */
	int32_t half = one ? power : power / 2;
	struct sml_factor factor = {.steps = one ? SML_STEPS_ONE : SML_STEPS_TWO};

	_Static_assert(SML_MAX_WORLD <= 1 << 12, "");
	sml_assert(divisor >= 1 && divisor <= SML_MAX_WORLD);
	factor.first = sml_float_power(half);
	factor.second = sml_float_power(power - half);
	if (type == SML_FLOAT32 && (!one || (divisor & (divisor - 1)) != 0)) {
		factor.steps = SML_STEPS_DOUBLE;
		__builtin_memcpy(&factor.whole, &bits, sizeof(bits));
		factor.whole /= divisor;
	}
	if (divisor > 1 && one)
		factor.first /= (float)divisor;
	else if (divisor > 1)
		factor.second /= (float)divisor;
	return factor;
}

#endif
