/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A second implementation of docs/internals/numbers.md's rules: one number at a time, with libm and
 * double precision, without using core/. Tests compare with it.
 */
#ifndef SML_TESTS_QUANTIZE_REFERENCE_H
#define SML_TESTS_QUANTIZE_REFERENCE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "sim/floats.h"
#include "switchml.h"

static inline size_t ref_bytes(enum sml_type type)
{
	return type == SML_FLOAT64 ? 8 : type == SML_FLOAT32 || type == SML_INT32 ? 4 : 2;
}

static inline unsigned ref_headroom(unsigned n_ranks)
{
	unsigned bits = 0;

	while ((1u << bits) < n_ranks)
		bits++;
	return bits;
}

static inline uint16_t ref_encode_half(double value, int mantissa_bits, int least)
{
	uint16_t sign = signbit(value) ? 0x8000 : 0;
	int special = 0x7fff >> mantissa_bits;
	double ulps;
	int exponent;

	if (isnan(value))
		return (uint16_t)(special << mantissa_bits | 1 << (mantissa_bits - 1));
	if (isinf(value))
		return (uint16_t)(sign | special << mantissa_bits);
	(void)frexp(value, &exponent);
	exponent = exponent - 1 > least ? exponent - 1 : least;
	ulps = nearbyint(ldexp(fabs(value), mantissa_bits - exponent));
	if (ulps == 0)
		return sign;
	/* ulps counts from the exponent's own 2^mantissa_bits, except for subnormals. */
	ulps += ldexp(exponent - least, mantissa_bits);
	if (ulps > special << mantissa_bits)
		ulps = special << mantissa_bits;
	return (uint16_t)(sign | (int)ulps);
}

static inline void ref_store(enum sml_type type, void *elements, size_t i, double value)
{
	float single = (float)value;
	uint32_t nan = 0x7fc00000;
	uint16_t half;

	if (type == SML_FLOAT64) {
		memcpy((char *)elements + 8 * i, &value, 8);
		return;
	}
	if (type == SML_FLOAT32) {
		memcpy((char *)elements + 4 * i, isnan(value) ? (void *)&nan : (void *)&single, 4);
		return;
	}
	half = type == SML_FLOAT16 ? ref_encode_half((double)single, 10, -14)
				   : ref_encode_half((double)single, 7, -126);
	memcpy((char *)elements + 2 * i, &half, 2);
}

static inline int32_t ref_exponent(enum sml_type type, const void *elements, size_t count)
{
	double largest = 0;
	int exponent;

	for (size_t i = 0; i < count; i++) {
		double value = ref_load(type, elements, i);

		if (!isfinite(value))
			return SML_EXPONENT_NONFINITE;
		largest = fmax(largest, fabs(value));
	}
	(void)frexp(largest, &exponent);
	return largest == 0 ? SML_EXPONENT_ZERO : exponent;
}

/* lane_bits is 32, 16 or 8. */
static inline int32_t ref_quantize(double value, int lane_bits, int32_t exponent, unsigned n_ranks)
{
	int bits = lane_bits - 1 - (int)ref_headroom(n_ranks);
	double limit = ldexp(1, bits) - 1;
	double y;

	if (exponent < -148 || exponent > 128)
		return 0;
	y = nearbyint(ldexp(value, bits - exponent));
	return (int32_t)fmax(fmin(y, limit), -limit);
}

static inline double ref_dequantize(enum sml_type type, int32_t sum, int lane_bits,
				    int32_t exponent, unsigned n_ranks, unsigned divisor)
{
	int power = exponent - (lane_bits - 1 - (int)ref_headroom(n_ranks));

	if (exponent == SML_EXPONENT_ZERO)
		return 0;
	if (exponent < -148 || exponent > 128)
		return NAN;
	if (type == SML_FLOAT32)
		return (double)sum * (ldexp(1, power) / divisor);
	/* In float32: the sum, the reciprocal and the product are each rounded to float32. */
	return (double)(float)ldexp((double)(float)sum * (double)(1 / (float)divisor), power);
}

static inline void ref_put_lane(void *lanes, size_t i, int lane_bits, int32_t lane)
{
	unsigned char *at = (unsigned char *)lanes + i * (size_t)lane_bits / 8;

	if (lane_bits == 32) {
		*at++ = (unsigned char)((uint32_t)lane >> 24);
		*at++ = (unsigned char)((uint32_t)lane >> 16);
	}
	if (lane_bits > 8)
		*at++ = (unsigned char)((uint32_t)lane >> 8);
	*at = (unsigned char)lane;
}

static inline int32_t ref_get_lane(const void *lanes, size_t i, int lane_bits)
{
	const unsigned char *at = (const unsigned char *)lanes + i * (size_t)lane_bits / 8;

	if (lane_bits == 8)
		return (int8_t)at[0];
	if (lane_bits == 16)
		return (int16_t)(at[0] << 8 | at[1]);
	return (int32_t)((uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 |
			 at[3]);
}

/* What a switch does with 32-bit lanes. */
static inline void ref_add_lanes(uint32_t *sums, const uint32_t *lanes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ref_put_lane(sums, i, 32,
			     (int32_t)((uint32_t)ref_get_lane(sums, i, 32) +
				       (uint32_t)ref_get_lane(lanes, i, 32)));
}

static inline void ref_max_lanes(uint32_t *most, const uint32_t *lanes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ref_get_lane(lanes, i, 32) > ref_get_lane(most, i, 32))
			most[i] = lanes[i];
}

#endif
