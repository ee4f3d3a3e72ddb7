/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lanes of floats, which are added without an error and rounded once. The elements travel as they
 * are, in big-endian order: one float32 in a lane, or two of the half types, the first in the upper
 * half.
 *
 * Each element has a double, to which contributions are added. Sums of float16 are always exact in
 * it. So are those of float32 and bfloat16, unless one element's contributions span more than some
 * 2^25 or 2^40. Each addition is checked before it counts: one that is not exact makes its element
 * a long number (sum.h), whose place is reserved, and not touched before. Infinities and NaN stay
 * in their own double.
 *
 * So a result depends only on what was contributed, and not on its order: it is the exact sum, or
 * the exact mean, rounded once to nearest, ties to even. Signs of zeros, subnormals and overflow
 * are as this one rounding gives them, and there is one NaN.
 */
#ifndef SML_CORE_EXACT_H
#define SML_CORE_EXACT_H

#include "core/slot.h"
#include "core/sum.h"
#include "core/wire.h"

/* The number of elements that one step adds. */
#define SML_EXACT_PORTION 32

/* The most elements that n lanes have, as whole portions. */
static inline size_t sml_exact_elements(uint32_t lanes)
{
	return (2 * (size_t)lanes + SML_EXACT_PORTION - 1) & ~(size_t)(SML_EXACT_PORTION - 1);
}

/* Where the sums of a packet's elements are. */
struct sml_exact_sums {
	/* sml_exact_elements() doubles, 8-byte aligned. Results replace them. */
	void *doubles;
	/* SML_SUM_WORDS for each of these elements. They are read only after they were written. */
	uint32_t *words;
	/* Before the first lanes, ranks have come without any: their zeros are positive. */
	bool after_zeros;
};

/*
 * One step of combining n lanes (4-byte aligned), if it is not NONE or FINISH: those are NEXT and
 * LAST without lanes (arrived is NULL), which adds +0. The last one leaves a result's lanes where
 * the doubles were, of the sum divided by `divisor`.
 */
void sml_exact_combine(uint8_t lane_kind, enum sml_lane_step step, unsigned divisor,
		       struct sml_exact_sums sums, const void *arrived, uint32_t n);

/*
 * The same for rows of lanes that are all here, `stride` bytes apart. The result may not overlap
 * them.
 */
void sml_exact_reduce(uint8_t lane_kind, unsigned divisor, const void *rows, size_t stride,
		      unsigned n_rows, uint32_t n, void *result);

/* Floats of at most 32 bits as doubles, and doubles rounded to such floats. */
void sml_exact_widen(enum sml_type type, const void *elements, size_t count, double *doubles);
void sml_exact_narrow(enum sml_type type, const double *doubles, size_t count, void *elements);

#endif
