/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the measured programs share: a rank of any library, told what to do by
 * bench/compare over a Unix socket (those cross network namespaces).
 *
 *	prepare COUNT OUTPUTS SEED	buffers and inputs
 *	run WARMUPS RUNS PIECES		all-reduces, one after the other
 *	check				every result of the last run
 *	rest MILLISECONDS		do nothing, to see what that costs
 *	quit
 *
 * A rank answers each line with one: "ok …" or "error WHY". While it waits for
 * a line it blocks in read(), so libraries that are not measured cost nothing.
 */
#ifndef SML_BENCH_PEER_H
#define SML_BENCH_PEER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bench_library {
	void *state;
	int rank, n_ranks;
	int n_stripes; /* of ours: switches that share the work */
	/* How exact sums are: float32 additions in any order, or ours of 32 or 16 bits. */
	enum { BENCH_SUMS_FLOAT32, BENCH_SUMS_INT32, BENCH_SUMS_INT16 } sums;
	/*
	 * Sum count floats of all ranks, as so many calls in flight at once. 0, or
	 * anything else with *why set.
	 */
	int (*allreduce)(void *state, const float *input, float *output, size_t count,
			 unsigned pieces, const char **why);
};

/*
 * Serve bench/compare until it says quit. The socket's path is $BENCH_SOCKET,
 * the name that we answer to $BENCH_NAME. Returns what main() returns.
 */
int bench_serve(const struct bench_library *library);

/* A number of the environment; ends the program if it isn't there. */
int bench_environment_number(const char *name);

#ifdef __cplusplus
}
#endif

#endif
