/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The common part of the measured programs: a rank of any library, controlled by
 * bench/compare over a Unix socket, which works across network namespaces.
 *
 *	prepare COUNT OUTPUTS SEED TYPE	buffers and inputs; TYPE is float32, float16 or bfloat16
 *	run WARMUPS RUNS PIECES		all-reduces, one after the other
 *	check				every result of the last run
 *
 * A rank answers each line with one line: "ok …" or "error WHY". While it waits for a line,
 * it blocks in read(), so libraries that are not measured cost nothing.
 */
#ifndef SML_BENCH_PEER_H
#define SML_BENCH_PEER_H

#include <stdbool.h>
#include <stddef.h>

#include "switchml.h"

struct bench_library {
	void *state;
	int rank, n_ranks;
	int n_stripes; /* for SwitchML: number of switches that share the work */
	/* How exact sums are: additions of floats in any order, or as this wire of SwitchML's. */
	bool float_sums;
	enum sml_wire wire;
	/* Sum `count` elements of all ranks. Returns 0, or another value with *why set. */
	int (*allreduce)(void *state, enum sml_type type, const void *input, void *output,
			 size_t count, const char **why);
	/* NULL, or the same in `pieces` simultaneous calls. */
	int (*in_pieces)(void *state, enum sml_type type, const void *input, void *output,
			 size_t count, unsigned pieces, const char **why);
};

/* Serve bench/compare at $BENCH_SOCKET until it sends no more. Returns the result for main(). */
int bench_serve(const struct bench_library *library);

#endif
