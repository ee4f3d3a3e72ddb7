/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One element of a float tensor, to float32 and back, without the help of the
 * machine's half-precision instructions (float16.h has that): integer operations
 * and selects only, so that loops over them become vectors everywhere.
 *
 * Neither here nor in the loops does a sum follow a product, so even a compiler
 * that may contract cannot fuse the two and round differently where FMA is.
 */
#ifndef SML_CORE_ELEMENT_H
#define SML_CORE_ELEMENT_H

#include "core/base.h"
#include "switchml.h"

/* float and double are what they say; x87 would compute in 80 bits. */
_Static_assert(__FLT_EVAL_METHOD__ == 0 || __FLT_EVAL_METHOD__ == 16,
	       "float32 must be rounded to float32 after every operation");

#define SML_INLINE static inline __attribute__((always_inline))

/* Tensors and packets belong to others, who may see them as any type. */
typedef uint16_t __attribute__((may_alias)) sml_any_u16;
typedef uint32_t __attribute__((may_alias)) sml_any_u32;

#define SML_FLOAT32_INFINITY 0x7f800000u
#define SML_FLOAT32_NAN	     0x7fc00000u
#define SML_FLOAT32_SIGN     0x80000000u
#define SML_FLOAT32_REST     0x7fffffffu

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
 * yes or no, without a branch. Compilers make branches of ?: whose arms are
 * arithmetic on floats (a skipped operation raises no flag), and then no vector.
 */
SML_INLINE uint32_t sml_select(bool condition, uint32_t yes, uint32_t no)
{
	return no ^ ((yes ^ no) & -(uint32_t)condition);
}

/*
 * float16 has 5 bits of exponent with bias 15, so 112 is added to get float32's
 * 127. A subnormal k * 2^-24 becomes the mantissa of 2^-14 + k * 2^-24, from
 * which 2^-14 goes exactly: no subnormal float32 comes up, which many machines
 * are slow at.
 */
SML_INLINE uint32_t sml_float16_widen(uint32_t half)
{
	uint32_t rest = (half & 0x7fffu) << 13;
	uint32_t subnormal = -(uint32_t)((int32_t)rest < 1 << 23);
	uint32_t special = -(uint32_t)((int32_t)rest >= 31 << 23);
	float value = sml_float_of(rest + (112u << 23) + (subnormal & 1u << 23));

	value -= sml_float_of(subnormal & sml_bits_of(0x1p-14f));
	return (sml_bits_of(value) + (special & 112u << 23)) | (half & 0x8000u) << 16;
}

/*
 * Not for NaN. To nearest, ties to even. A float16 has ulp = 2^(e - 10), where
 * 2^e <= |value| < 2^(e + 1), and never below 2^-24 (e = -14: the subnormals).
 * |value| + 2^23 ulp makes the machine round to it, and the mantissa's last bits
 * count how many they are: 1024 to 2048 if normal, so the sum below carries
 * into the exponent as it must. 2^16 and above come out as infinity.
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

/* Not for NaN. A carry out of the mantissa ends in the exponent, as it must. */
SML_INLINE uint32_t sml_bfloat16_narrow(uint32_t bits)
{
	return (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
}

/* Element i as the bits of a float32: exact. Callers make type a constant. */
SML_INLINE uint32_t sml_element_load(enum sml_type type, const void *elements, size_t i)
{
	if (type == SML_FLOAT16)
		return sml_float16_widen(((const sml_any_u16 *)elements)[i]);
	if (type == SML_BFLOAT16)
		return (uint32_t)((const sml_any_u16 *)elements)[i] << 16;
	return ((const sml_any_u32 *)elements)[i];
}

/* Not for NaN. */
SML_INLINE void sml_element_store(enum sml_type type, void *elements, size_t i, uint32_t bits)
{
	if (type == SML_FLOAT16)
		((sml_any_u16 *)elements)[i] = (uint16_t)sml_float16_narrow(bits);
	else if (type == SML_BFLOAT16)
		((sml_any_u16 *)elements)[i] = (uint16_t)sml_bfloat16_narrow(bits);
	else
		((sml_any_u32 *)elements)[i] = bits;
}

/* The one NaN that we write. */
SML_INLINE void sml_element_store_nan(enum sml_type type, void *elements, size_t i)
{
	if (type == SML_FLOAT32)
		((sml_any_u32 *)elements)[i] = SML_FLOAT32_NAN;
	else
		((sml_any_u16 *)elements)[i] = type == SML_FLOAT16 ? 0x7e00 : 0x7fc0;
}

#endif
