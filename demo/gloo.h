/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The same training's all-reduces over Gloo's ring, to compare: what PyTorch does with its
 * backend "gloo". Calls are made by one thread, one after the other, while the caller
 * computes. Only in builds that have found Gloo (DEMO_HAVE_GLOO).
 */
#ifndef SML_DEMO_GLOO_H
#define SML_DEMO_GLOO_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Calls that may be under way at a time. */
#define DEMO_GLOO_CALLS 8

struct demo_gloo;

/*
 * Meet the other ranks in an empty folder, and connect to all of them on $GLOO_SOCKET_IFNAME.
 * Returns NULL after an error line. Closing may take up to the timeout if another rank is
 * gone.
 */
struct demo_gloo *demo_gloo_open(const char *folder, int rank, int world, int timeout_ms);
void demo_gloo_close(struct demo_gloo *gloo); /* NULL is fine */

/* Start a call: the sum of all ranks' data, or their average. The data stay in place until wait().
 */
void demo_gloo_submit(struct demo_gloo *gloo, int call, const float *in, float *out, size_t count,
		      bool average);

/* Returns 0, or -EIO after an error line. */
int demo_gloo_wait(struct demo_gloo *gloo, int call);

#ifdef __cplusplus
}
#endif

#endif
