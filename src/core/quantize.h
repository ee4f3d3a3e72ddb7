/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers on the wire: convert the elements of a tensor to lanes and back, in one pass over memory
 * each. Everything here is a pure function of its arguments: no state, no libc, the same bits on
 * every machine.
 *
 * Block floating point: the elements of one block share one exponent E, the smallest with |x| < 2^E
 * for every element on every rank. An element becomes the integer nearest to x * 2^(B - E). For
 * int32 lanes, B = 31 - ceil(log2 ranks), so that the sum over all ranks cannot overflow; likewise
 * 15 for int16 where the switch does not round. Where it does (rounding.h), B is 15 for int16 and 7
 * for int8. docs/internals/numbers.md derives the error bounds.
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

/* By how many bits a sum over n ranks can grow: ceil(log2 n). n is 1 to 4096. */
unsigned sml_headroom_bits(unsigned n_ranks);

/* How many elements a block of narrow lanes has, the same where switches round (rounding.h). */
#define SML_BLOCK_OF_NARROW 64

/* Error feedback for a run of elements. */
struct sml_feedback {
	const float *residual; /* what is added to each */
	float *lost;	       /* gets what their lanes lose of that sum: of what is no number, 0 */
};

/* The blocks of a run of elements. All have one size, but the outer ones may be in it in part. */
struct sml_blocks {
	const int16_t *exponents; /* one for each block that has elements in the run */
	/* By how many bits each block's sums were rounded; NULL if they were not. */
	const uint8_t *shifts;
	uint32_t size; /* how many elements a block has */
	uint32_t skip; /* how many elements of the first block come before the run */
	const struct sml_feedback *feedback; /* while quantizing; NULL if there is none */
	uint8_t spare; /* with it, this many of the last bits of each lane stay 0 */
};

/* This rank's part of the shared exponent: E of these count elements. Only for float types. */
int32_t sml_exponent_of(enum sml_type type, const void *elements, size_t count);

/*
 * The same for each block of these elements, after the residual has been added unless it is NULL.
 * The last block may be shorter.
 */
void sml_exponents_of(enum sml_type type, const void *elements, const float *residual, size_t count,
		      size_t block, int16_t *exponents);

/*
 * Convert count elements to count lanes of 32 bits, or to packed lanes of 16 or 8 bits. With
 * SML_EXPONENT_ZERO or _NONFINITE all lanes of a block are zero. Only for float types, and at most
 * 2^(width - 4) ranks. Shifts are not read. What is lost is exact: the element plus its residual,
 * rounded to float32, less what the lane says.
 */
void sml_quantize(unsigned width, enum sml_type type, const void *elements, size_t count,
		  const struct sml_blocks *blocks, unsigned n_ranks, void *lanes);

/* Where elements travel in their own type: the sums as such, and what that type loses. */
void sml_add_residual(enum sml_type type, const void *elements, const struct sml_feedback *feedback,
		      size_t count, uint32_t *sums);

/*
 * Convert summed lanes back to elements, divided by divisor (1, or the number of ranks for AVG).
 * SML_EXPONENT_NONFINITE makes every element of a block NaN, _ZERO makes +0. n_ranks is 1 for sums
 * that were rounded.
 */
void sml_dequantize(unsigned width, enum sml_type type, const void *lanes, size_t count,
		    const struct sml_blocks *blocks, unsigned n_ranks, unsigned divisor,
		    void *elements);

/*
 * MAX and MIN, exact: a map to int32 that keeps the order (for MIN, reverses it), so that the
 * switch's op MAX works for both. NaN maps above everything. For float types and int32; each lane
 * has one element.
 */
void sml_order_encode(enum sml_type type, const void *elements, size_t count, bool minimum,
		      void *lanes);
void sml_order_decode(enum sml_type type, const void *lanes, size_t count, bool minimum,
		      void *elements);

/* int32 tensors for SUM and AVG. divisor is as above; quotients are rounded towards zero. */
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
