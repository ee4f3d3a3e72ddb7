/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Float tensors that are gathered: every rank's own bits travel, each rank's in lanes that
 * are zero for all others (a SUM of integers gathers them), and every rank adds them.
 *
 * The result is the exact sum, or the exact sum divided by the number of ranks, rounded
 * once to the type (to nearest, ties to even). So it depends on nothing but the elements,
 * not even on the order of the ranks. An element that is infinite or NaN on any rank is
 * NaN; a sum that is zero is +0.
 *
 * A packet has n_ranks parts of sml_gather_lanes() lanes each, in the order of ranks. A
 * part has its elements in big-endian order, and zeros in the rest of its last lane.
 */
#ifndef SML_CORE_GATHER_H
#define SML_CORE_GATHER_H

#include "core/base.h"
#include "switchml.h"

/* Lanes that count elements of a rank take. Float types. */
uint32_t sml_gather_lanes(enum sml_type type, uint32_t count);

/* Elements for which every rank has room in so many lanes; may be 0. */
uint32_t sml_gather_capacity(enum sml_type type, uint32_t lanes, unsigned n_ranks);

/* Write one rank's part. */
void sml_gather_encode(enum sml_type type, const void *elements, uint32_t count, void *lanes);

/* All parts to the result. divisor is 1, or n_ranks for AVG. */
void sml_gather_reduce(enum sml_type type, const void *lanes, uint32_t count, unsigned n_ranks,
		       unsigned divisor, void *elements);

#endif
