/* SPDX-License-Identifier: BSD-3-Clause */
/* What all files of a run need: noting a failure, memory, and a drawn moment. */
#include "sim/run_internal.h"

#include <stdio.h>
#include <stdlib.h>

void sim_fail(struct sim_run *run, const char *what, uint32_t a, uint32_t b)
{
	if (!run->result->passed)
		return;
	run->result->passed = false;
	snprintf(run->result->failure, sizeof(run->result->failure), "%s (%u, %u)", what, a, b);
}

void *sim_must(void *memory)
{
	if (memory == NULL)
		abort();
	return memory;
}

uint64_t sim_later(struct sim_run *run, uint32_t within_us)
{
	return run->network.now_ns + gen_below(&run->gen, within_us * 1000u + 1);
}
