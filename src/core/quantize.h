/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers on the wire: convert the elements of a tensor to lanes and back, in one pass over memory
 * each. Everything here is a pure function of its arguments: no state, no libc, the same bits on
 * every machine.
 *
 * Block floating point: the elements of one block share one exponent E, the smallest with |x| < 2^E
 * for every element on every rank. An element becomes the integer nearest to x * 2^(B - E), B = 31
 * - ceil(log2 ranks) for int32 lanes and 15 - ceil(log2 ranks) for int16, so that the sum over all
 * ranks cannot overflow. int8 lanes have 7 - ceil(log2 ranks), so the switch must round their sums
 * (rounding.h). docs/numbers.md derives the error bounds.
 *
 * Lanes are 32 bits each, big-endian, 4-byte aligned. Narrow lanes are packed, two int16 or
 * four int8 to a 32-bit lane, in the order of the elements; the rest of the last lane is zero.
 */
#ifndef SML_CORE_QUANTIZE_H
#define SML_CORE_QUANTIZE_H

#include "core/base.h"
#include "switchml.h"

/*
 * Exponents fit into 16 bits, and travel in lanes of op MAX. Ordinary ones lie in [-148, 128], or
 * those of doubles in [-1073, 1024].
 */
#define SML_EXPONENT_ZERO      INT16_MIN /* every element is +-0 */
#define SML_EXPONENT_NONFINITE INT16_MAX /* an element is infinite or NaN */

/* ceil(log2 n): bits by which a sum over n ranks can grow. n is 1 to 4096. */
unsigned sml_headroom_bits(unsigned n_ranks);

/* This rank's part of the shared exponent: E of these count elements. Float types. */
int32_t sml_exponent_of(enum sml_type type, const void *elements, size_t count);

/*
 * count elements to count int32 lanes, or to packed lanes of `width` bits (16 or 8). With
 * SML_EXPONENT_ZERO or _NONFINITE all lanes are zero. Float types. At most 2^(width - 4) ranks.
 */
void sml_quantize_int32(enum sml_type type, const void *elements, size_t count, int32_t exponent,
			unsigned n_ranks, void *lanes);
void sml_quantize_narrow(unsigned width, enum sml_type type, const void *elements, size_t count,
			 int32_t exponent, unsigned n_ranks, void *lanes);

/*
 * Summed lanes back to elements, divided by divisor (1, or the number of ranks
 * for AVG). SML_EXPONENT_NONFINITE makes every element NaN, _ZERO makes +0. Of sums that were
 * rounded by s bits, n_ranks is 2^s: at most 2 * SML_MAX_WORLD on every width.
 */
void sml_dequantize_int32(enum sml_type type, const void *lanes, size_t count, int32_t exponent,
			  unsigned n_ranks, unsigned divisor, void *elements);
void sml_dequantize_narrow(unsigned width, enum sml_type type, const void *lanes, size_t count,
			   int32_t exponent, unsigned n_ranks, unsigned divisor, void *elements);

/*
 * MAX and MIN, exact: a map to int32 that keeps the order (for MIN, reverses it), so that the
 * switch's op MAX works for both. NaN maps above everything. Float types and int32; one element per
 * lane.
 */
void sml_order_encode(enum sml_type type, const void *elements, size_t count, bool minimum,
		      void *lanes);
void sml_order_decode(enum sml_type type, const void *lanes, size_t count, bool minimum,
		      void *elements);

/* int32 tensors for SUM and AVG. divisor as above; quotients are rounded towards zero. */
void sml_int32_encode(const void *elements, size_t count, void *lanes);
void sml_int32_decode(const void *lanes, size_t count, unsigned divisor, void *elements);

/*
 * Integers of 8 and 16 bits. For SUM, MAX and, with `minimum`, MIN: one element per lane; only SUM
 * has a divisor. In pairs (packed as the int16 lanes of quantizing), sums are exact modulo 2^16,
 * and an average is right if no sum leaves int16.
 */
void sml_narrow_encode(enum sml_type type, const void *elements, size_t count, bool minimum,
		       void *lanes);
void sml_narrow_decode(enum sml_type type, const void *lanes, size_t count, bool minimum,
		       unsigned divisor, void *elements);
void sml_narrow_encode_pairs(enum sml_type type, const void *elements, size_t count, void *lanes);
void sml_narrow_decode_pairs(enum sml_type type, const void *lanes, size_t count, unsigned divisor,
			     void *elements);

#endif
