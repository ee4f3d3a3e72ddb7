/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Convert one element of a float tensor to float32 and back, without the
 * machine's half-precision instructions (float16.h uses those). The code has
 * only integer operations and selects, so that compilers can vectorize loops
 * over it on every machine.
 *
 * Neither this file nor the loops add to a product. So a compiler that
 * contracts expressions cannot fuse the two into an FMA, which would round
 * differently.
 */
#ifndef SML_CORE_ELEMENT_H
#define SML_CORE_ELEMENT_H

#include "core/base.h"
#include "switchml.h"

/* float and double have their own precision; x87 would compute in 80 bits. */
_Static_assert(__FLT_EVAL_METHOD__ == 0 || __FLT_EVAL_METHOD__ == 16,
	       "float32 must be rounded to float32 after every operation");

#define SML_INLINE static inline __attribute__((always_inline))

/*
 * Tensors and packets belong to other code, which may access them as any type.
 */
typedef uint16_t __attribute__((may_alias)) sml_any_u16;
typedef uint32_t __attribute__((may_alias)) sml_any_u32;
typedef uint64_t __attribute__((may_alias)) sml_any_u64;

#define SML_FLOAT32_INFINITY 0x7f800000u
#define SML_FLOAT32_NAN	     0x7fc00000u
#define SML_FLOAT32_SIGN     0x80000000u
#define SML_FLOAT32_REST     0x7fffffffu
#define SML_FLOAT64_INFINITY 0x7ff0000000000000u
#define SML_FLOAT64_NAN	     0x7ff8000000000000u
#define SML_FLOAT64_REST     0x7fffffffffffffffu

SML_INLINE float sml_float_of(uint32_t bits)
{
	float value;

	__builtin_memcpy(&value, &bits, sizeof(value));
	return value;
}

SML_INLINE uint32_t sml_bits_of(float value)
{
	uint32_t bits;

	__builtin_memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/*
 * Select yes or no without a branch. If the arms of ?: are float arithmetic,
 * compilers make a branch (a skipped operation must raise no flag) and do not
 * vectorize.
 */
SML_INLINE uint32_t sml_select(bool condition, uint32_t yes, uint32_t no)
{
	return no ^ ((yes ^ no) & -(uint32_t)condition);
}

/*
 * float16 has 5 bits of exponent with bias 15, so 112 is added to get float32's
 * 127. A subnormal k * 2^-24 becomes the mantissa of 2^-14 + k * 2^-24, and
 * subtracting 2^-14 is exact. No subnormal float32 occurs, which is slow on
 * many machines.
 */
SML_INLINE uint32_t sml_float16_widen(uint32_t half)
{
	uint32_t rest = (half & 0x7fffu) << 13;
	uint32_t subnormal = -(uint32_t)((int32_t)rest < 1 << 23);
	uint32_t special = -(uint32_t)((int32_t)rest > (31 << 23) - 1);
	float value = sml_float_of(rest + (112u << 23) + (subnormal & 1u << 23));

	value -= sml_float_of(subnormal & sml_bits_of(0x1p-14f));
	return (sml_bits_of(value) + (special & 112u << 23)) | (half & 0x8000u) << 16;
}

/*
 * Rounds to nearest, ties to even. Not for NaN. A float16 has ulp = 2^(e - 10), where
 * 2^e <= |value| < 2^(e + 1), and never below 2^-24 (e = -14: the subnormals).
 * Adding 2^23 ulp to |value| makes the machine round to multiples of ulp, and
 * the last bits of the mantissa count them: 1024 to 2048 if normal, so the sum
 * below correctly carries into the exponent. 2^16 and above become infinity.
 */
SML_INLINE uint32_t sml_float16_narrow(uint32_t bits)
{
	int32_t rest = (int32_t)(bits & SML_FLOAT32_REST);
	int32_t exponent, ulps, large;

	rest = rest < 143 << 23 ? rest : 143 << 23;
	exponent = rest & (255 << 23);
	exponent = exponent > 113 << 23 ? exponent : 113 << 23;
	large = exponent + (13 << 23);
	ulps = (int32_t)sml_bits_of(sml_float_of((uint32_t)rest) + sml_float_of((uint32_t)large)) -
	       large;
	return (uint32_t)(((exponent - (113 << 23)) >> 13) + ulps) |
	       (bits & SML_FLOAT32_SIGN) >> 16;
}

/* The same for bfloat16. A carry out of the mantissa goes into the exponent, which is correct. */
SML_INLINE uint32_t sml_bfloat16_narrow(uint32_t bits)
{
	return (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
}

/*
 * Element i as the bits of a float32, which is exact. Callers pass a constant type, so
 * that the switch is resolved at compile time.
 */
SML_INLINE uint32_t sml_element_load(enum sml_type type, const void *elements, size_t i)
{
	if (type == SML_FLOAT16)
		return sml_float16_widen(((const sml_any_u16 *)elements)[i]);
	if (type == SML_BFLOAT16)
		return (uint32_t)((const sml_any_u16 *)elements)[i] << 16;
	return ((const sml_any_u32 *)elements)[i];
}

/* Stores element i, rounded to its type. Not for NaN. */
SML_INLINE void sml_element_store(enum sml_type type, void *elements, size_t i, uint32_t bits)
{
	if (type == SML_FLOAT16)
		((sml_any_u16 *)elements)[i] = (uint16_t)sml_float16_narrow(bits);
	else if (type == SML_BFLOAT16)
		((sml_any_u16 *)elements)[i] = (uint16_t)sml_bfloat16_narrow(bits);
	else
		((sml_any_u32 *)elements)[i] = bits;
}

/*
 * Narrow lane i, of 16 or 8 bits. Callers pass a constant width. Storing keeps the last bits of a
 * value.
 */
SML_INLINE void sml_narrow_store(unsigned width, void *lanes, size_t i, uint32_t value)
{
	if (width == 16)
		((sml_any_u16 *)lanes)[i] = sml_be16((uint16_t)value);
	else
		((uint8_t *)lanes)[i] = (uint8_t)value;
}

SML_INLINE int32_t sml_narrow_load(unsigned width, const void *lanes, size_t i)
{
	if (width == 16)
		return (int16_t)sml_be16(((const sml_any_u16 *)lanes)[i]);
	return (int8_t)((const uint8_t *)lanes)[i];
}

/* The only NaN that we write. */
SML_INLINE void sml_element_store_nan(enum sml_type type, void *elements, size_t i)
{
	if (type == SML_FLOAT32)
		((sml_any_u32 *)elements)[i] = SML_FLOAT32_NAN;
	else
		((sml_any_u16 *)elements)[i] = type == SML_FLOAT16 ? 0x7e00 : 0x7fc0;
}

#endif
