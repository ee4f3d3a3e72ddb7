/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The oracle: computes what a call must return, without slots, packets or chunks in flight.
 * Inputs are functions of (seed, call, rank).
 */
#ifndef SML_SIM_REFERENCE_H
#define SML_SIM_REFERENCE_H

#include "sim/world.h"

/* Fill `elements` with a rank's whole input of a call. */
void sim_input(const struct sim_world *world, uint32_t call, uint32_t rank, void *elements);

/*
 * Compute the whole result of a call. The tensor (of any rank) gives the form and the chunk
 * size. inputs[r] is rank r's input.
 */
void sim_reference(const struct sim_world *world, const struct sim_call *call,
		   const struct sml_tensor *tensor, void *const *inputs, void *result);

/*
 * Can the elements [first, first + count) of the whole tensor be these two results of one call, of
 * which a tree's switches have rounded partial sums?
 */
bool sim_close(const struct sim_world *world, const struct sim_call *call, void *const *inputs,
	       const void *a, const void *b, size_t first, size_t count);

/* Are the elements equal? Any NaN equals any other NaN. */
bool sim_equal(enum sml_type type, const void *a, const void *b, size_t count);

#endif
