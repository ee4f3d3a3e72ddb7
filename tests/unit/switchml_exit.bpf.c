/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * What the exit program does, as a program of its own that BPF_PROG_TEST_RUN takes:
 * it refuses those of a devmap. The clone leaves by the loopback.
 */
#include "bpf/switchml.bpf.c"

SEC("xdp")
int exit_by_loopback(struct xdp_md *ctx)
{
	return leave(ctx, 1);
}
