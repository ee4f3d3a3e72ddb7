/* SPDX-License-Identifier: BSD-3-Clause */
/* The sums of a rank of build/tests/chaos --chaos-ranks. */
#ifndef SML_CHAOS_SUMS_H
#define SML_CHAOS_SUMS_H

#include "chaos/ranks.h"

struct chaos_sums {
	const struct chaos_options *options;
	struct chaos_memory *memory;
	unsigned place; /* of this process */
	struct bench_buffers buffers;
};

/*
 * The sum of this number of a membership: `order` says who the members are, and this rank. Its
 * result is checked, and compared with that of the other members; what is wrong is counted, and no
 * error. Returns that of the call.
 */
int chaos_make_sum(struct chaos_sums *sums, struct sml_context *context,
		   const struct chaos_order *order, uint32_t number);

#endif
