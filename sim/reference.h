/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a call must return, computed without slots, packets or chunks in
 * flight: the oracle. Inputs are functions of (seed, call, rank).
 */
#ifndef SML_SIM_REFERENCE_H
#define SML_SIM_REFERENCE_H

#include "sim/world.h"

/* Fill elements with a rank's whole-tensor input of a call. */
void sim_input(const struct sim_world *world, uint32_t call, uint32_t rank, void *elements);

/*
 * The whole result of a call, whose tensor (of any rank) tells form and chunk
 * size. inputs[r] is rank r's input.
 */
void sim_reference(const struct sim_world *world, const struct sim_call *call,
		   const struct sml_tensor *tensor, void *const *inputs, void *result);

/* Equal, where any NaN equals any other. */
bool sim_equal(enum sml_type type, const void *a, const void *b, size_t count);

#endif
