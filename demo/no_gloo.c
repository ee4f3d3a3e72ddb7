/* SPDX-License-Identifier: BSD-3-Clause */
/* A build that has not found Gloo: there is no option --gloo, and nothing of gloo.h is reached. */
#include "demo/gloo.h"

#include <errno.h>

#include "demo/report.h"

struct demo_gloo *demo_gloo_open(const char *folder, int rank, int world, int timeout_ms)
{
	(void)folder;
	(void)world;
	(void)timeout_ms;
	demo_error(rank, "this build has no Gloo");
	return NULL;
}

void demo_gloo_close(struct demo_gloo *gloo)
{
	(void)gloo;
}

void demo_gloo_submit(struct demo_gloo *gloo, int call, const float *in, float *out, size_t count,
		      bool average)
{
	(void)gloo;
	(void)call;
	(void)in;
	(void)out;
	(void)count;
	(void)average;
}

int demo_gloo_wait(struct demo_gloo *gloo, int call)
{
	(void)gloo;
	(void)call;
	return -EIO;
}
