/* SPDX-License-Identifier: BSD-3-Clause */
/* Elements of float types, read one at a time and in a simple way, not by the core's code. And one
 * block of any length by the core's code. */
#ifndef SML_SIM_FLOATS_H
#define SML_SIM_FLOATS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/quantize.h"
#include "switchml.h"

/* A small format with this many mantissa bits and this smallest exponent. */
static inline double ref_decode_half(uint16_t half, int mantissa_bits, int least)
{
	int mantissa = half & ((1 << mantissa_bits) - 1);
	int field = (half & 0x7fff) >> mantissa_bits;
	int special = 0x7fff >> mantissa_bits;
	double value;

	if (field == special)
		value = mantissa != 0 ? NAN : INFINITY;
	else if (field == 0)
		value = ldexp(mantissa, least - mantissa_bits);
	else
		value = ldexp(mantissa + (1 << mantissa_bits), least + field - 1 - mantissa_bits);
	return half & 0x8000 ? -value : value;
}

static inline double ref_load(enum sml_type type, const void *elements, size_t i)
{
	uint16_t half;
	double wide;
	float single;

	if (type == SML_FLOAT64) {
		memcpy(&wide, (const char *)elements + 8 * i, 8);
		return wide;
	}
	if (type == SML_FLOAT32) {
		memcpy(&single, (const char *)elements + 4 * i, 4);
		return (double)single;
	}
	memcpy(&half, (const char *)elements + 2 * i, 2);
	return type == SML_FLOAT16 ? ref_decode_half(half, 10, -14)
				   : ref_decode_half(half, 7, -126);
}

/* No switch has rounded its sums. */

static inline void quantize(int width, enum sml_type type, const void *elements, size_t count,
			    int32_t exponent, unsigned n_ranks, void *lanes)
{
	const int16_t exponents = (int16_t)exponent;
	const struct sml_blocks blocks = {.exponents = &exponents, .size = UINT32_MAX};

	sml_quantize((unsigned)width, type, elements, count, &blocks, n_ranks, lanes);
}

static inline void dequantize(int width, enum sml_type type, const void *lanes, size_t count,
			      int32_t exponent, unsigned n_ranks, unsigned divisor, void *elements)
{
	const int16_t exponents = (int16_t)exponent;
	const struct sml_blocks blocks = {.exponents = &exponents, .size = UINT32_MAX};

	sml_dequantize((unsigned)width, type, lanes, count, &blocks, n_ranks, divisor, elements);
}

#endif
