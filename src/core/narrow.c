/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Integers of 8 and 16 bits: see quantize.h. Sums are exact modulo 2^16 in half a lane and modulo
 * 2^32 in a lane, so stored results are exact modulo the element's width.
 */
#include "core/element.h"
#include "core/multiversion.h"
#include "core/quantize.h"

typedef uint8_t __attribute__((may_alias)) any_u8;
typedef int8_t __attribute__((may_alias)) any_s8;
typedef int16_t __attribute__((may_alias)) any_s16;

/* Callers pass a constant type, here and below. */
SML_INLINE int32_t load(enum sml_type type, const void *elements, size_t i)
{
	if (type == SML_INT16)
		return ((const any_s16 *)elements)[i];
	if (type == SML_INT8)
		return ((const any_s8 *)elements)[i];
	if (type == SML_BOOL)
		return ((const any_u8 *)elements)[i] != 0;
	return ((const any_u8 *)elements)[i];
}

SML_INLINE void store(enum sml_type type, void *elements, size_t i, int32_t value)
{
	if (type == SML_INT16)
		((any_s16 *)elements)[i] = (int16_t)value;
	else if (type == SML_BOOL)
		((any_u8 *)elements)[i] = value != 0;
	else
		((any_u8 *)elements)[i] = (uint8_t)value;
}

SML_INLINE void to_lanes(enum sml_type type, const void *restrict elements, size_t count,
			 uint32_t flip, sml_any_u32 *restrict lanes)
{
	for (size_t i = 0; i < count; i++)
		lanes[i] = sml_be32((uint32_t)load(type, elements, i) ^ flip);
}

SML_INLINE void to_halves(enum sml_type type, const void *restrict elements, size_t count,
			  sml_any_u16 *restrict lanes)
{
	for (size_t i = 0; i < count; i++)
		lanes[i] = sml_be16((uint16_t)load(type, elements, i));
}

/* Division by doubles: see decode_divided() in order.c. Compilers leave out one by a constant 1. */
SML_INLINE int32_t divided(int32_t sum, double divisor)
{
	return (int32_t)((double)sum / divisor);
}

SML_INLINE void from_lanes(enum sml_type type, const sml_any_u32 *restrict lanes, size_t count,
			   uint32_t flip, double divisor, void *restrict elements)
{
	for (size_t i = 0; i < count; i++)
		store(type, elements, i, divided((int32_t)(sml_be32(lanes[i]) ^ flip), divisor));
}

SML_INLINE void from_halves(enum sml_type type, const sml_any_u16 *restrict lanes, size_t count,
			    double divisor, void *restrict elements)
{
	for (size_t i = 0; i < count; i++)
		store(type, elements, i, divided((int16_t)sml_be16(lanes[i]), divisor));
}

/* One loop for each type, with the type known to the compiler. */
#define FOR_TYPE(type, loop, ...)                                                                  \
	do {                                                                                       \
		if ((type) == SML_INT16)                                                           \
			loop(SML_INT16, __VA_ARGS__);                                              \
		else if ((type) == SML_INT8)                                                       \
			loop(SML_INT8, __VA_ARGS__);                                               \
		else if ((type) == SML_BOOL)                                                       \
			loop(SML_BOOL, __VA_ARGS__);                                               \
		else                                                                               \
			loop(SML_UINT8, __VA_ARGS__);                                              \
	} while (0)

SML_MULTIVERSION
static void encode(enum sml_type type, const void *elements, size_t count, uint32_t flip,
		   void *lanes)
{
	FOR_TYPE(type, to_lanes, elements, count, flip, lanes);
}

SML_MULTIVERSION
static void decode(enum sml_type type, const void *lanes, size_t count, uint32_t flip,
		   double divisor, void *elements)
{
	if (divisor == 1)
		FOR_TYPE(type, from_lanes, lanes, count, flip, 1, elements);
	else
		FOR_TYPE(type, from_lanes, lanes, count, flip, divisor, elements);
}

SML_MULTIVERSION
static void encode_pairs(enum sml_type type, const void *elements, size_t count, void *lanes)
{
	FOR_TYPE(type, to_halves, elements, count, lanes);
}

SML_MULTIVERSION
static void decode_pairs(enum sml_type type, const void *lanes, size_t count, double divisor,
			 void *elements)
{
	if (divisor == 1)
		FOR_TYPE(type, from_halves, lanes, count, 1, elements);
	else
		FOR_TYPE(type, from_halves, lanes, count, divisor, elements);
}

void sml_narrow_encode(enum sml_type type, const void *elements, size_t count, bool minimum,
		       void *lanes)
{
	encode(type, elements, count, minimum ? UINT32_MAX : 0, lanes);
}

void sml_narrow_decode(enum sml_type type, const void *lanes, size_t count, bool minimum,
		       unsigned divisor, void *elements)
{
	sml_assert(divisor >= 1);
	decode(type, lanes, count, minimum ? UINT32_MAX : 0, divisor, elements);
}

void sml_narrow_encode_pairs(enum sml_type type, const void *elements, size_t count, void *lanes)
{
	if (count % 2 != 0)
		((sml_any_u16 *)lanes)[count] = 0;
	encode_pairs(type, elements, count, lanes);
}

void sml_narrow_decode_pairs(enum sml_type type, const void *lanes, size_t count, unsigned divisor,
			     void *elements)
{
	sml_assert(divisor >= 1);
	decode_pairs(type, lanes, count, divisor, elements);
}
