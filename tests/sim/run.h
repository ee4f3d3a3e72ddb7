/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One run of the deterministic simulator: the production core under a virtual clock. The
 * first phase has the world's faults, and nothing wrong may happen. The second phase has no
 * faults, and every live rank must finish.
 *
 * What is checked: every result equals the reference, bit for bit, on every rank. No chunk
 * is summed twice in an epoch. Slots are idle at the end. Counters add up. The trace hash
 * covers every event and packet header.
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
