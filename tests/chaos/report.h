/* SPDX-License-Identifier: BSD-3-Clause */
/* The results of build/tests/chaos --chaos-ranks, as a line and as a JSON file. */
#ifndef SML_CHAOS_REPORT_H
#define SML_CHAOS_REPORT_H

#include "chaos/chaos.h"

struct chaos_results {
	uint64_t changes;	 /* memberships that followed another one, and had a sum */
	uint64_t decisions;	 /* those of them that the switch has decided on */
	uint64_t late;		 /* ranks that asked it too late, and began anew */
	uint64_t kills, returns; /* of ranks */
	uint64_t switch_kills;
	uint64_t sums, wrong;
	uint64_t untold; /* members whose switch died before it told them of another one's death */
	uint64_t hangs, false_names;
	uint64_t unexpected;	  /* errors without a cause */
	struct bench_times times; /* from a kill to the next sum on all members */
};

/* Returns nonzero if anything was wrong, or the file cannot be written. */
int chaos_report(const struct chaos_options *options, const struct chaos_results *results);

#endif
