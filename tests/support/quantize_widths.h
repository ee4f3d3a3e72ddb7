/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks in lanes of every width, for tests of numbers. */
#ifndef SML_TESTS_QUANTIZE_WIDTHS_H
#define SML_TESTS_QUANTIZE_WIDTHS_H

#include "support/quantize_random.h"

static const int widths[] = {32, 16, 8};

/* With more ranks, sums do not fit into a lane without rounding, or keep too few bits. */
static inline unsigned most_ranks(int width)
{
	return width == 8 ? 16 : MAX_RANKS;
}

static inline size_t lane_bytes(int width, size_t count)
{
	size_t per_lane = 32 / (size_t)width;

	return 4 * ((count + per_lane - 1) / per_lane);
}

#endif
