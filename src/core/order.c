/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Codings without a shared exponent: MAX and MIN, through a map that keeps the order; and int32
 * tensors, unchanged. See quantize.h.
 */
#include "core/element.h"
#include "core/multiversion.h"
#include "core/quantize.h"
#include "core/wire.h"

#define LANE_NAN INT32_MAX /* above everything, for MAX and MIN alike */

/*
 * The bits of floats, read as integers, are in order from +0 upward. Negative floats are in reverse
 * order; complementing all bits but the sign corrects that (and undoes it). -0 is -1 and +0 is 0,
 * so -0 < +0. The half types are the upper half of a lane.
 *
 * Complementing all bits reverses the order for MIN. Only the image of 0xffffffff then becomes
 * LANE_NAN, and 0xffffffff is already a NaN.
 */
SML_INLINE int32_t order_of(uint32_t bits, uint32_t infinity, uint32_t flip)
{
	uint32_t negative = -(bits >> 31);
	uint32_t key = bits ^ (negative & SML_FLOAT32_REST) ^ flip;

	return (bits & SML_FLOAT32_REST) > infinity ? LANE_NAN : (int32_t)key;
}

SML_INLINE uint32_t order_undo(uint32_t lane, uint32_t nan, uint32_t flip)
{
	uint32_t key = lane ^ flip;
	uint32_t negative = -(key >> 31);

	return lane == (uint32_t)LANE_NAN ? nan : key ^ (negative & SML_FLOAT32_REST);
}

SML_MULTIVERSION
static void encode_32(const sml_any_u32 *restrict elements, size_t count, uint32_t flip,
		      sml_any_u32 *restrict lanes)
{
	for (size_t i = 0; i < count; i++)
		lanes[i] = sml_be32((uint32_t)order_of(elements[i], SML_FLOAT32_INFINITY, flip));
}

SML_MULTIVERSION
static void encode_16(const sml_any_u16 *restrict elements, size_t count, uint32_t infinity,
		      uint32_t flip, sml_any_u32 *restrict lanes)
{
	for (size_t i = 0; i < count; i++)
		lanes[i] =
			sml_be32((uint32_t)order_of((uint32_t)elements[i] << 16, infinity, flip));
}

SML_MULTIVERSION
static void decode_32(const sml_any_u32 *restrict lanes, size_t count, uint32_t flip,
		      sml_any_u32 *restrict elements)
{
	for (size_t i = 0; i < count; i++)
		elements[i] = order_undo(sml_be32(lanes[i]), SML_FLOAT32_NAN, flip);
}

SML_MULTIVERSION
static void decode_16(const sml_any_u32 *restrict lanes, size_t count, uint32_t nan, uint32_t flip,
		      sml_any_u16 *restrict elements)
{
	for (size_t i = 0; i < count; i++)
		elements[i] = (uint16_t)(order_undo(sml_be32(lanes[i]), nan, flip) >> 16);
}

SML_MULTIVERSION
static void copy_swapped(const sml_any_u32 *restrict from, size_t count, uint32_t flip,
			 sml_any_u32 *restrict to)
{
	for (size_t i = 0; i < count; i++)
		to[i] = sml_be32(from[i] ^ flip);
}

void sml_order_encode(enum sml_type type, const void *elements, size_t count, bool minimum,
		      void *lanes)
{
	uint32_t flip = minimum ? UINT32_MAX : 0;

	if (type == SML_INT32)
		copy_swapped(elements, count, flip, lanes);
	else if (type == SML_FLOAT16)
		encode_16(elements, count, 0x7c000000u, flip, lanes);
	else if (type == SML_BFLOAT16)
		encode_16(elements, count, SML_FLOAT32_INFINITY, flip, lanes);
	else
		encode_32(elements, count, flip, lanes);
}

void sml_order_decode(enum sml_type type, const void *lanes, size_t count, bool minimum,
		      void *elements)
{
	uint32_t flip = minimum ? UINT32_MAX : 0;

	if (type == SML_INT32)
		copy_swapped(lanes, count, flip, elements);
	else if (type == SML_FLOAT16)
		decode_16(lanes, count, 0x7e000000u, flip, elements);
	else if (type == SML_BFLOAT16)
		decode_16(lanes, count, SML_FLOAT32_NAN, flip, elements);
	else
		decode_32(lanes, count, flip, elements);
}

void sml_int32_encode(const void *elements, size_t count, void *lanes)
{
	copy_swapped(elements, count, 0, lanes);
}

/*
 * Vector units cannot divide integers; dividing doubles gives the same quotient. If the quotient is
 * not an integer it is at least 1/64 away from one, and at most 2^31 large: rounding to 53 bits
 * does not bring it there.
 */
SML_MULTIVERSION
static void decode_divided(const sml_any_u32 *restrict lanes, size_t count, double divisor,
			   sml_any_u32 *restrict elements)
{
	for (size_t i = 0; i < count; i++) {
		double sum = (int32_t)sml_be32(lanes[i]);

		elements[i] = (uint32_t)(int32_t)(sum / divisor);
	}
}

void sml_int32_decode(const void *lanes, size_t count, unsigned divisor, void *elements)
{
	sml_assert(divisor >= 1 && divisor <= SML_MAX_WORLD);
	if (divisor == 1)
		copy_swapped(lanes, count, 0, elements);
	else
		decode_divided(lanes, count, divisor, elements);
}
