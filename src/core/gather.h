/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Float tensors that are gathered. The bits of every rank travel in lanes that are zero for
 * all other ranks, so a SUM of integers gathers them. Then every rank adds the elements
 * itself.
 *
 * The result is the exact sum, or the exact sum divided by the number of ranks, rounded once
 * to the type (to nearest, ties to even). So it depends only on the elements, not on the
 * order of the ranks. Infinities, NaN and the signs of zeros are as IEEE 754 says, with one NaN.
 *
 * A packet has n_ranks parts of sml_gather_lanes() lanes each, in the order of ranks. A part
 * contains its elements in big-endian order, and zeros in the rest of its last lane.
 */
#ifndef SML_CORE_GATHER_H
#define SML_CORE_GATHER_H

#include "core/base.h"
#include "switchml.h"

/* Lanes that `count` elements of one rank need. Float types only. */
uint32_t sml_gather_lanes(enum sml_type type, uint32_t count);

/* The number of elements that fit into these lanes for every rank; may be 0. */
uint32_t sml_gather_capacity(enum sml_type type, uint32_t lanes, unsigned n_ranks);

/* Write one rank's part. */
void sml_gather_encode(enum sml_type type, const void *elements, uint32_t count, void *lanes);

/* Combine all parts into the result. divisor is 1, or for AVG the number of the job's ranks. */
void sml_gather_reduce(enum sml_type type, const void *lanes, uint32_t count, unsigned n_ranks,
		       unsigned divisor, void *elements);

#endif
