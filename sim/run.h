/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One run of the deterministic simulator: the production core under a virtual
 * clock. First a phase with the world's faults, in which nothing wrong may
 * happen; then a phase without, in which every live rank must finish.
 *
 * What is checked: every result against the reference, bit for bit, on every
 * rank; no chunk summed twice in an epoch; slots idle at the end; counters that
 * add up. The trace hash covers every event and packet header.
 */
#ifndef SML_SIM_RUN_H
#define SML_SIM_RUN_H

#include "sim/world.h"

struct sim_result {
	bool passed;
	char failure[240];
	uint64_t hash;
	uint64_t events;
	uint64_t virtual_ns;
	uint64_t resumes;
	uint64_t verdicts[SML_VERDICTS];
};

void sim_run(const struct sim_world *world, struct sim_result *result);

#endif
