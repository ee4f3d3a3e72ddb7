/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The oracle: computes what a call must return, without slots, packets or chunks in flight.
 * Inputs are functions of (seed, call, rank).
 */
#ifndef SML_SIM_REFERENCE_H
#define SML_SIM_REFERENCE_H

#include "sim/tree.h"

/* Fill `elements` with a rank's whole input of a call. */
void sim_input(const struct sim_world *world, uint32_t call, uint32_t rank, void *elements);

/*
 * Compute the whole result of a call. The tensor (of any rank) gives the form and the chunk
 * size. inputs[r] is rank r's input. If switches round, they are those of stripe 0 in epoch 1.
 */
void sim_reference(const struct sim_world *world, const struct sim_call *call,
		   const struct sml_tensor *tensor, void *const *inputs, void *result);

/*
 * Does this tree's rounding give these elements of one block of the whole tensor? The block of
 * `result` becomes what the tree gives.
 */
bool sim_is_of_tree(const struct sim_world *world, const struct sim_call *call,
		    const struct sim_tree *tree, void *const *inputs, const void *got, size_t first,
		    size_t count, void *result);

/* Are the elements equal? Any NaN equals any other NaN. */
bool sim_equal(enum sml_type type, const void *a, const void *b, size_t count);

#endif
