/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * The exit program as a separate program that BPF_PROG_TEST_RUN accepts, because it refuses
 * programs of a devmap. The clone leaves by the loopback.
 */
#include "bpf/switchml.bpf.c"

SEC("xdp")
int exit_by_loopback(struct xdp_md *ctx)
{
	return leave(ctx, 1);
}
