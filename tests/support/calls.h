/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces whose results are compared with sums that are computed in a simple way. A rank's
 * hash takes in all of its results.
 */
#ifndef SML_TESTS_CALLS_H
#define SML_TESTS_CALLS_H

#include "support/ranks.h"

struct call {
	size_t count;
	enum sml_type type;
	enum sml_op op;
	enum sml_wire wire;
	bool in_place;
};

/* Write a rank's input of a call. The salt makes calls differ. */
void call_fill(struct rank *rank, const struct call *call, unsigned salt, void *send);

/* Compare the result of a call with what it should be. */
void call_check(struct rank *rank, const struct call *call, unsigned salt, const void *recv);

/* Make one call, and check its result. */
void call_allreduce(struct rank *rank, const struct call *call, unsigned salt);

/* Bodies of a job: every type, operation, width and many counts; and 24 different calls. */
void calls_of_every_kind(struct rank *rank);
void calls_of_some_kinds(struct rank *rank);
/* Error feedback: no sum of two may lose more than float32 does. */
void calls_with_residuals(struct rank *rank);

/*
 * The counters once they count this many tensors. A caller that tests just then sees the end of a
 * tensor before the thread that completed it has counted it.
 */
void counters_after(struct rank *rank, uint64_t tensors, struct sml_counters *counters);

#endif
