/* SPDX-License-Identifier: BSD-3-Clause */
/* One block of any length, whose sums no switch has rounded, as core/quantize.h takes it. */
#ifndef SML_TESTS_QUANTIZE_BLOCK_H
#define SML_TESTS_QUANTIZE_BLOCK_H

#include "core/quantize.h"

static inline void quantize_block(unsigned width, enum sml_type type, const void *elements,
				  size_t count, int32_t exponent, unsigned n_ranks, void *lanes)
{
	const int16_t exponents = (int16_t)exponent;
	const struct sml_blocks blocks = {.exponents = &exponents, .size = UINT32_MAX};

	sml_quantize(width, type, elements, count, &blocks, n_ranks, lanes);
}

static inline void dequantize_block(unsigned width, enum sml_type type, const void *lanes,
				    size_t count, int32_t exponent, unsigned n_ranks,
				    unsigned divisor, void *elements)
{
	const int16_t exponents = (int16_t)exponent;
	const struct sml_blocks blocks = {.exponents = &exponents, .size = UINT32_MAX};

	sml_dequantize(width, type, lanes, count, &blocks, n_ranks, divisor, elements);
}

#endif
