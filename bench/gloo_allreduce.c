/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank of Gloo, for bench/compare. Ranks meet in a folder (a FileStore), as
 * PyTorch's file:// rendezvous does, and talk TCP.
 *
 *	gloo_allreduce ring|bcube FOLDER RANK N
 */
#include <err.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peer.h"
#include "demo/gloo.h"

static bool is_ring;

static int allreduce(void *state, enum sml_type type, const void *input, void *output, size_t count,
		     const char **why)
{
	*why = "Gloo adds float32 and float16 only";
	if (type != SML_FLOAT32 && type != SML_FLOAT16)
		return -1;
	demo_gloo_allreduce(state, is_ring, type == SML_FLOAT16, input, output, count);
	return 0;
}

int main(int argc, char **argv)
{
	struct bench_library library = {.float_sums = true, .allreduce = allreduce};

	if (argc != 5)
		errx(2, "usage: gloo_allreduce ring|bcube FOLDER RANK N; bench/compare starts it");
	is_ring = strcmp(argv[1], "ring") == 0;
	library.rank = (int)strtol(argv[3], NULL, 10);
	library.n_ranks = (int)strtol(argv[4], NULL, 10);
	library.state = demo_gloo_open(argv[2], library.rank, library.n_ranks);
	return bench_serve(&library);
}
