/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Elements of 64 bits (float64, int64) on lanes of 32: quantize.h has the rest. Pure functions, the
 * same bits on every machine. docs/internals/numbers.md derives the bounds.
 *
 * Limbs. A 64-bit two's complement number v is
 *
 *	v = high * 2^43 + middle * 2^22 + low    0 <= low < 2^22, 0 <= middle < 2^21
 *
 * and each limb has a lane. A lane that is summed over up to 1,024 ranks does not overflow: 2^10 *
 * 2^22 = 2^32 (lanes of low and middle are read as unsigned). More ranks, up to 4,096, use
 *
 *	v = high * 2^40 + middle * 2^20 + low    0 <= low < 2^20, 0 <= middle < 2^20
 *
 * where 2^12 * 2^20 = 2^32. The high limb of an int64 may overflow, because sums are modulo 2^64;
 * that of a float64 may not, so v has 4 bits less. The limbs of a chunk are planar:
 * `stride` lanes of low, then of middle, then of high. A block of the chunk has count of each.
 *
 * Pairs, for MAX and MIN. An element becomes a 64-bit key in the same order. Lanes are compared
 * separately, so the key travels in two passes: first the upper halves; then the lower halves, but
 * only of the ranks whose upper half was the largest.
 */
#ifndef SML_CORE_WIDE_H
#define SML_CORE_WIDE_H

#include "core/base.h"
#include "switchml.h"

#define SML_LIMBS 3

/* The most ranks over which the wider limbs can be summed. */
#define SML_LIMB_WIDE_RANKS 1024

/* How many bits v has for a block's largest float64. */
static inline int32_t sml_limb_bits(unsigned n_ranks)
{
	return n_ranks <= SML_LIMB_WIDE_RANKS ? 63 : 59;
}

/* E of these doubles: see sml_exponent_of(). Ordinary values are in [-1073, 1024]. */
int32_t sml_double_exponent_of(const void *elements, size_t count);

/* Write each element as a multiple of 2^(E - sml_limb_bits()): exactly, or the nearest one. */
void sml_double_to_limbs(const void *elements, size_t count, int32_t exponent, unsigned n_ranks,
			 void *lanes, size_t stride);

/*
 * Convert summed limbs back. The sum is rounded once; for a divisor other than 1 the quotient is
 * rounded, too.
 */
void sml_double_from_limbs(const void *lanes, size_t stride, size_t count, int32_t exponent,
			   unsigned n_ranks, unsigned divisor, void *elements);

/* As sml_quantize() and sml_dequantize(), for doubles. */
void sml_double_quantize_int32(const void *elements, size_t count, int32_t exponent,
			       unsigned n_ranks, void *lanes);
void sml_double_quantize_int16(const void *elements, size_t count, int32_t exponent,
			       unsigned n_ranks, void *lanes);
void sml_double_dequantize_int32(const void *lanes, size_t count, int32_t exponent,
				 unsigned n_ranks, unsigned divisor, void *elements);
void sml_double_dequantize_int16(const void *lanes, size_t count, int32_t exponent,
				 unsigned n_ranks, unsigned divisor, void *elements);

/* The same for int64, modulo 2^64. divisor is as in sml_int32_decode(). */
void sml_int64_to_limbs(const void *elements, size_t count, unsigned n_ranks, void *lanes);
void sml_int64_from_limbs(const void *lanes, size_t count, unsigned n_ranks, unsigned divisor,
			  void *elements);

/*
 * The two passes of MAX and MIN. highs has the count results of the first pass. In the second pass,
 * an element whose upper half was not the largest becomes the least lane.
 */
void sml_pair_high(enum sml_type type, const void *elements, size_t count, bool minimum,
		   void *lanes);
void sml_pair_keep_highs(const void *lanes, size_t count, int32_t *highs);
void sml_pair_low(enum sml_type type, const void *elements, size_t count, bool minimum,
		  const int32_t *highs, void *lanes);
void sml_pair_decode(enum sml_type type, const int32_t *highs, const void *lanes, size_t count,
		     bool minimum, void *elements);

#endif
