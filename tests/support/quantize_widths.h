/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks in lanes of every width, for tests of numbers. */
#ifndef SML_TESTS_QUANTIZE_WIDTHS_H
#define SML_TESTS_QUANTIZE_WIDTHS_H

#include "core/quantize.h"
#include "support/quantize_random.h"

static const int widths[] = {32, 16, 8};

/* With more ranks, sums do not fit into a lane without rounding, or keep too few bits. */
static inline unsigned most_ranks(int width)
{
	return width == 8 ? 16 : MAX_RANKS;
}

/* The code under test: one block of any length, whose sums no switch has rounded. */

static inline void quantize(int width, enum sml_type type, const void *elements, size_t count,
			    int32_t exponent, unsigned n_ranks, void *lanes)
{
	const int16_t exponents = (int16_t)exponent;
	const struct sml_blocks blocks = {.exponents = &exponents, .size = UINT32_MAX};

	sml_quantize((unsigned)width, type, elements, count, &blocks, n_ranks, lanes);
}

static inline void dequantize(int width, enum sml_type type, const void *lanes, size_t count,
			      int32_t exponent, unsigned n_ranks, unsigned divisor, void *elements)
{
	const int16_t exponents = (int16_t)exponent;
	const struct sml_blocks blocks = {.exponents = &exponents, .size = UINT32_MAX};

	sml_dequantize((unsigned)width, type, lanes, count, &blocks, n_ranks, divisor, elements);
}

static inline size_t lane_bytes(int width, size_t count)
{
	size_t per_lane = 32 / (size_t)width;

	return 4 * ((count + per_lane - 1) / per_lane);
}

#endif
