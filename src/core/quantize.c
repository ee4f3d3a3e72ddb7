/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Block floating point: see quantize.h for the rule and docs/internals/numbers.md for its errors.
 * The one invariant: for any elements, exponent and lanes (the last two come from the network), no
 * conversion leaves its range, and no sum over n_ranks honest ranks overflows its lane.
 *
 * Every step is one IEEE operation rounded to nearest even, so the bits do not depend on compiler,
 * vector width or machine. The only exception is a process that makes its CPU flush subnormals
 * (FTZ, DAZ) or round in another mode.
 */
#include "core/quantize.h"

#include "core/blocks.h"
#include "core/element.h"
#include "core/float16.h"
#include "core/multiversion.h"
#include "core/wire.h"

unsigned sml_headroom_bits(unsigned n_ranks)
{
	sml_assert(n_ranks >= 1 && n_ranks <= 2 * SML_MAX_WORLD);
	return n_ranks == 1 ? 0 : 32 - (unsigned)__builtin_clz(n_ranks - 1);
}

/* Calls an inline function with a type that the compiler then knows. */
#define OF_TYPE(function, type, ...)                                                               \
	((type) == SML_FLOAT16	  ? function(SML_FLOAT16, __VA_ARGS__)                             \
	 : (type) == SML_BFLOAT16 ? function(SML_BFLOAT16, __VA_ARGS__)                            \
				  : function(SML_FLOAT32, __VA_ARGS__))

/* What is rounded: the element, or with `fed` its sum with the residual. */
SML_INLINE uint32_t load(enum sml_type type, bool fed, const void *elements, const float *residual,
			 size_t i)
{
	uint32_t bits = sml_element_load(type, elements, i);

	return fed ? sml_bits_of(sml_float_of(bits) + residual[i]) : bits;
}

/*
 * Magnitudes of floats are in the same order as their bits, so a block's exponent is that of its
 * largest bits. Signed, because old x86 CPUs have only a signed maximum.
 */
SML_INLINE uint32_t largest_of(enum sml_type type, bool fed, const void *elements,
			       const float *residual, size_t count)
{
	int32_t largest = 0;
	int16_t largest_half = 0;

	if (type == SML_FLOAT32 || fed) {
		for (size_t i = 0; i < count; i++) {
			int32_t rest =
				(int32_t)(load(type, fed, elements, residual, i) & 0x7fffffffu);

			largest = rest > largest ? rest : largest;
		}
		return (uint32_t)largest;
	}
	for (size_t i = 0; i < count; i++) {
		int16_t rest = (int16_t)(((const sml_any_u16 *)elements)[i] & 0x7fffu);

		largest_half = rest > largest_half ? rest : largest_half;
	}
	return (uint32_t)largest_half;
}

/* E of an element with these bits. Below the first exponent are subnormals, largest * 2^least. */
SML_INLINE int16_t exponent_of(enum sml_type type, uint32_t largest)
{
	int mantissa = type == SML_FLOAT32 ? 23 : type == SML_FLOAT16 ? 10 : 7;
	int bias = type == SML_FLOAT16 ? 15 : 127, least = 1 - bias - mantissa;
	uint32_t infinity = (uint32_t)(2 * bias + 1) << mantissa;

	if (largest == 0)
		return SML_EXPONENT_ZERO;
	if (largest >= infinity)
		return SML_EXPONENT_NONFINITE;
	if (largest < (uint32_t)1 << mantissa)
		return (int16_t)(32 - __builtin_clz(largest) + least);
	return (int16_t)((int)(largest >> mantissa) - bias + 1);
}

/*
 * Blocks are short, so all blocks of a packet are converted in one call, here and below. A loop
 * over as many elements as a whole block has is unrolled by the compiler.
 */
SML_INLINE void measure(enum sml_type type, bool fed, const uint8_t *elements,
			const float *residual, size_t count, size_t block, int16_t *exponents)
{
	const enum sml_type sum = fed ? SML_FLOAT32 : type;
	size_t bytes = type == SML_FLOAT32 ? 4 : 2;

	for (; count > 0; elements += block * bytes, exponents++) {
		size_t here = count < block ? count : block;

		count -= here;
		if (here == SML_BLOCK_OF_NARROW)
			*exponents = exponent_of(sum, largest_of(type, fed, elements, residual,
								 SML_BLOCK_OF_NARROW));
		else
			*exponents =
				exponent_of(sum, largest_of(type, fed, elements, residual, here));
		residual = fed ? residual + here : NULL;
	}
}

SML_MULTIVERSION
static void measure_blocks(enum sml_type type, const void *elements, const float *residual,
			   size_t count, size_t block, int16_t *exponents)
{
	if (residual)
		OF_TYPE(measure, type, true, elements, residual, count, block, exponents);
	else
		OF_TYPE(measure, type, false, elements, NULL, count, block, exponents);
}

void sml_exponents_of(enum sml_type type, const void *elements, const float *residual, size_t count,
		      size_t block, int16_t *exponents)
{
	measure_blocks(type, elements, residual, count, block, exponents);
}

int32_t sml_exponent_of(enum sml_type type, const void *elements, size_t count)
{
	int16_t exponent = SML_EXPONENT_ZERO;

	measure_blocks(type, elements, NULL, count, count, &exponent);
	return exponent;
}

/* ---- elements to lanes ---- */

/* NaN compares false with everything and becomes limit. */
SML_INLINE float scaled(uint32_t bits, bool one, struct sml_scale scale)
{
	float y = sml_float_of(bits) * scale.first;

	y = one ? y : y * scale.second;
	y = y < scale.limit ? y : scale.limit;
	return y > -scale.limit ? y : -scale.limit;
}

#if SML_HAS_MULTIVERSION

/* One instruction. */
SML_INLINE int32_t integer_of(float y)
{
	return __builtin_irintf(y);
}

#else

/*
 * From 2^23 on, a float32 is an integer. Below, adding 2^23 of the same sign leaves no bits for a
 * fraction, and subtracting it again is exact.
 */
SML_INLINE int32_t integer_of(float y)
{
	float magic = sml_float_of((sml_bits_of(y) & SML_FLOAT32_SIGN) | sml_bits_of(0x1p23f));
	float rounded = (y + magic) - magic;

	return (int32_t)sml_float_of(
		sml_select(__builtin_fabsf(y) < 0x1p23f, sml_bits_of(rounded), sml_bits_of(y)));
}

#endif

/*
 * One block. Narrow lanes: |y| < 2^15, so adding 1.5 * 2^23 leaves the integer in the last bits of
 * the mantissa.
 *
 * What is lost is exact. If the unit is not below the last bit of x, y is an integer, or its
 * fraction has no more bits than x. If it is, y is an integer. A limit leaves less than a unit.
 */
SML_INLINE void quantize_part(unsigned width, enum sml_type type, bool one, bool fed,
			      const void *restrict elements, const float *restrict residual,
			      size_t count, struct sml_scale scale, struct sml_factor unit,
			      unsigned spare, void *restrict lanes, float *restrict lost)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t bits = load(type, fed, elements, residual, i);
		float y = scaled(bits, one, scale), sent;

		if (width == 32) {
			int32_t lane = integer_of(y);

			((sml_any_u32 *)lanes)[i] = sml_be32((uint32_t)lane);
			sent = (float)lane;
		} else {
			y += 0x1.8p23f;
			sml_narrow_store(width, lanes, i, sml_bits_of(y) << (fed ? spare : 0));
			sent = y - 0x1.8p23f;
		}
		if (fed) {
			sent *= unit.first;
			lost[i] = sml_float_of(bits) - (one ? sent : sent * unit.second);
		}
	}
}

SML_INLINE void quantize_run(enum sml_type type, unsigned width, bool fed, const uint8_t *elements,
			     size_t count, const struct sml_blocks *blocks, int32_t bits,
			     uint8_t *lanes)
{
	const size_t from = type == SML_FLOAT32 ? 4 : 2, to = width / 8;
	struct sml_part p;

	for (bool more = sml_first_part(blocks, count, &p); more;
	     more = sml_next_part(blocks, count, &p)) {
		struct sml_scale scale = sml_scale_of(width, bits, p.exponent);
		const float *residual = fed ? blocks->feedback->residual + p.at : NULL;
		float *lost = fed ? blocks->feedback->lost + p.at : NULL;
		const uint8_t *part = elements + p.at * from;
		struct sml_factor unit = {0};
		bool one = scale.one;

		if (!sml_part_is_ordinary(&p)) {
			__builtin_memset(lanes + p.at * to, 0, p.count * to);
			if (fed)
				__builtin_memset(lost, 0, p.count * sizeof(*lost));
			continue;
		}
		if (fed) {
			unit = sml_factor_of(SML_FLOAT32, p.exponent - bits, 1);
			one = one && unit.steps == SML_STEPS_ONE;
		}
		if (!one)
			quantize_part(width, type, false, fed, part, residual, p.count, scale, unit,
				      blocks->spare, lanes + p.at * to, lost);
		else if (width < 32 && p.count == SML_BLOCK_OF_NARROW)
			quantize_part(width, type, true, fed, part, residual, SML_BLOCK_OF_NARROW,
				      scale, unit, blocks->spare, lanes + p.at * to, lost);
		else
			quantize_part(width, type, true, fed, part, residual, p.count, scale, unit,
				      blocks->spare, lanes + p.at * to, lost);
	}
}

/* One for each width, which the compiler then knows. */
#define DEFINE_QUANTIZE(name, width)                                                               \
	SML_MULTIVERSION                                                                           \
	static void name(enum sml_type type, const void *elements, size_t count,                   \
			 const struct sml_blocks *blocks, int32_t bits, void *lanes)               \
	{                                                                                          \
		if (blocks->feedback)                                                              \
			OF_TYPE(quantize_run, type, width, true, elements, count, blocks, bits,    \
				lanes);                                                            \
		else                                                                               \
			OF_TYPE(quantize_run, type, width, false, elements, count, blocks, bits,   \
				lanes);                                                            \
	}

DEFINE_QUANTIZE(quantize_32, 32)
DEFINE_QUANTIZE(quantize_16, 16)
DEFINE_QUANTIZE(quantize_8, 8)

static int32_t bits_of(unsigned width, const struct sml_blocks *blocks, unsigned n_ranks)
{
	int32_t bits = (int32_t)width - 1 - (int32_t)sml_headroom_bits(n_ranks) - blocks->spare;

	sml_assert(bits >= 3);
	return bits;
}

void sml_quantize(unsigned width, enum sml_type type, const void *elements, size_t count,
		  const struct sml_blocks *blocks, unsigned n_ranks, void *lanes)
{
	int32_t bits = bits_of(width, blocks, n_ranks);

	for (size_t i = count; i % (32 / width) != 0; i++)
		sml_narrow_store(width, lanes, i, 0);
	if (type == SML_FLOAT16 && blocks->feedback == NULL &&
	    sml_float16_quantize(width, elements, count, blocks, bits, lanes))
		return;
	if (width == 32)
		quantize_32(type, elements, count, blocks, bits, lanes);
	else if (width == 16)
		quantize_16(type, elements, count, blocks, bits, lanes);
	else
		quantize_8(type, elements, count, blocks, bits, lanes);
}

/* ---- elements that travel as they are ---- */

/* In its type, also if it is NaN. */
SML_INLINE uint32_t narrowed(enum sml_type type, uint32_t bits)
{
	bool is_nan = (bits & SML_FLOAT32_REST) > SML_FLOAT32_INFINITY;

	return type == SML_FLOAT16 ? sml_select(is_nan, 0x7e00, sml_float16_narrow(bits))
				   : sml_select(is_nan, 0x7fc0, sml_bfloat16_narrow(bits));
}

/* Of an infinity or a NaN, nothing is left. */
SML_INLINE void add_halves(enum sml_type type, const void *restrict elements,
			   const float *restrict residual, size_t count, sml_any_u16 *restrict sums,
			   float *restrict lost)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t bits = load(type, true, elements, residual, i), rest;
		const uint16_t sum = (uint16_t)narrowed(type, bits);

		sums[i] = sum;
		rest = sml_bits_of(sml_float_of(bits) -
				   sml_float_of(sml_element_load(type, &sum, 0)));
		lost[i] = sml_float_of(
			sml_select((rest & SML_FLOAT32_INFINITY) == SML_FLOAT32_INFINITY, 0, rest));
	}
}

SML_MULTIVERSION
void sml_add_residual(enum sml_type type, const void *elements, const struct sml_feedback *feedback,
		      size_t count, uint32_t *sums)
{
	if (type == SML_FLOAT16) {
		add_halves(SML_FLOAT16, elements, feedback->residual, count, (sml_any_u16 *)sums,
			   feedback->lost);
		return;
	}
	if (type == SML_BFLOAT16) {
		add_halves(SML_BFLOAT16, elements, feedback->residual, count, (sml_any_u16 *)sums,
			   feedback->lost);
		return;
	}
	for (size_t i = 0; i < count; i++)
		sums[i] = load(SML_FLOAT32, true, elements, feedback->residual, i);
	__builtin_memset(feedback->lost, 0, count * sizeof(*feedback->lost));
}

/* ---- lanes to elements ---- */

SML_INLINE void dequantize_part(unsigned width, enum sml_type type, enum sml_steps steps,
				const void *restrict lanes, size_t count, struct sml_factor factor,
				void *restrict elements)
{
	for (size_t i = 0; i < count; i++) {
		int32_t sum = width == 32 ? (int32_t)sml_be32(((const sml_any_u32 *)lanes)[i])
					  : sml_narrow_load(width, lanes, i);
		float product = (float)sum * factor.first;

		if (steps == SML_STEPS_TWO)
			product *= factor.second;
		if (steps == SML_STEPS_DOUBLE)
			product = (float)((double)sum * factor.whole);
		sml_element_store(type, elements, i, sml_bits_of(product));
	}
}

SML_INLINE void dequantize_run(enum sml_type type, unsigned width, const uint8_t *lanes,
			       size_t count, const struct sml_blocks *blocks, int32_t bits,
			       unsigned divisor, uint8_t *elements)
{
	const enum sml_steps rarely = type == SML_FLOAT32 ? SML_STEPS_DOUBLE : SML_STEPS_TWO;
	const size_t from = width / 8, to = type == SML_FLOAT32 ? 4 : 2;
	struct sml_part p;

	for (bool more = sml_first_part(blocks, count, &p); more;
	     more = sml_next_part(blocks, count, &p)) {
		const uint8_t *part = lanes + p.at * from;
		struct sml_factor factor;

		if (!sml_part_is_ordinary(&p)) {
			sml_fill_part(type, &p, elements);
			continue;
		}
		factor = sml_factor_of(type, p.exponent + p.shift - bits, divisor);
		if (factor.steps != SML_STEPS_ONE)
			dequantize_part(width, type, rarely, part, p.count, factor,
					elements + p.at * to);
		else if (width < 32 && p.count == SML_BLOCK_OF_NARROW)
			dequantize_part(width, type, SML_STEPS_ONE, part, SML_BLOCK_OF_NARROW,
					factor, elements + p.at * to);
		else
			dequantize_part(width, type, SML_STEPS_ONE, part, p.count, factor,
					elements + p.at * to);
	}
}

#define DEFINE_DEQUANTIZE(name, width)                                                             \
	SML_MULTIVERSION                                                                           \
	static void name(enum sml_type type, const void *lanes, size_t count,                      \
			 const struct sml_blocks *blocks, int32_t bits, unsigned divisor,          \
			 void *elements)                                                           \
	{                                                                                          \
		OF_TYPE(dequantize_run, type, width, lanes, count, blocks, bits, divisor,          \
			elements);                                                                 \
	}

DEFINE_DEQUANTIZE(dequantize_32, 32)
DEFINE_DEQUANTIZE(dequantize_16, 16)
DEFINE_DEQUANTIZE(dequantize_8, 8)

void sml_dequantize(unsigned width, enum sml_type type, const void *lanes, size_t count,
		    const struct sml_blocks *blocks, unsigned n_ranks, unsigned divisor,
		    void *elements)
{
	int32_t bits = (int32_t)width - 1 - (int32_t)sml_headroom_bits(n_ranks);

	if (type == SML_FLOAT16 &&
	    sml_float16_dequantize(width, lanes, count, blocks, bits, divisor, elements))
		return;
	if (width == 32)
		dequantize_32(type, lanes, count, blocks, bits, divisor, elements);
	else if (width == 16)
		dequantize_16(type, lanes, count, blocks, bits, divisor, elements);
	else
		dequantize_8(type, lanes, count, blocks, bits, divisor, elements);
}
