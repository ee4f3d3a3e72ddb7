/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The same training's all-reduces over Gloo's ring, to compare: what PyTorch does with its
 * backend "gloo". Calls are made by one thread, one after the other, while the caller
 * computes. What fails ends the process after an error line. Builds that have not found Gloo
 * have no option --gloo, and none of these functions: they are weak.
 */
#ifndef SML_DEMO_GLOO_H
#define SML_DEMO_GLOO_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct demo_gloo;

/* Meet the other ranks in an empty folder, and connect to all of them on $GLOO_SOCKET_IFNAME. */
__attribute__((weak)) struct demo_gloo *demo_gloo_open(const char *folder, int rank, int world);
__attribute__((weak)) void demo_gloo_close(struct demo_gloo *gloo);

/* The sum of all ranks' data, in the caller's thread: by a ring or bcube, of float16 or float. */
__attribute__((weak)) void demo_gloo_allreduce(struct demo_gloo *gloo, bool ring, bool half,
					       const void *in, void *out, size_t count);

/* Start call 0, 1, 2 or 3: the sum of all ranks' data, which stay in place until wait(). */
__attribute__((weak)) void demo_gloo_submit(struct demo_gloo *gloo, int call, const float *in,
					    float *out, size_t count);
__attribute__((weak)) void demo_gloo_wait(struct demo_gloo *gloo, int call);

#ifdef __cplusplus
}
#endif

#endif
