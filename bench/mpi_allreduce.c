/* SPDX-License-Identifier: BSD-3-Clause */
/* An MPI rank for bench/compare, which starts it with mpirun. */
#include <mpi.h>

#include "bench/peer.h"

static int allreduce(void *state, enum sml_type type, const void *input, void *output, size_t count,
		     const char **why)
{
	(void)state;
	if (type != SML_FLOAT32) {
		*why = "MPI has no type of 16 bits to sum";
		return -1;
	}
	*why = "MPI_Allreduce failed";
	return MPI_Allreduce(input, output, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) !=
	       MPI_SUCCESS;
}

int main(int argc, char **argv)
{
	struct bench_library library = {.float_sums = true, .allreduce = allreduce};
	int status;

	if (MPI_Init(&argc, &argv) != MPI_SUCCESS)
		return 1;
	MPI_Comm_rank(MPI_COMM_WORLD, &library.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &library.n_ranks);
	status = bench_serve(&library);
	MPI_Finalize();
	return status;
}
