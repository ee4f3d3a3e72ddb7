/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces of the sizes of Intel's and OSU's benchmarks: no bytes, one element, … 4 MiB. Rank 0
 * prints each size.
 *
 *	mpi-sizes float|double|int|long
 */
#include <string.h>

#include "program.h"

#define MOST_BYTES ((size_t)4 << 20)

static const struct type {
	const char *name;
	MPI_Datatype type;
	size_t bytes;
} types[] = {{"float", MPI_FLOAT, sizeof(float)},
	     {"double", MPI_DOUBLE, sizeof(double)},
	     {"int", MPI_INT, sizeof(int)},
	     {"long", MPI_LONG, sizeof(long)}};

static char send[MOST_BYTES], recv[MOST_BYTES], right[MOST_BYTES];

static void put(const struct type *type, void *data, size_t i, int x)
{
	if (type->type == MPI_FLOAT)
		((float *)data)[i] = (float)x;
	else if (type->type == MPI_DOUBLE)
		((double *)data)[i] = x;
	else if (type->type == MPI_LONG)
		((long *)data)[i] = x;
	else
		((int *)data)[i] = x;
}

static void check(const struct type *type, size_t bytes, int rank)
{
	memset(recv, 0xa5, sizeof(recv));
	MPI_Allreduce(send, recv, (int)(bytes / type->bytes), type->type, MPI_SUM, MPI_COMM_WORLD);
	if (memcmp(recv, right, bytes) != 0)
		complain("differs in a call of so many bytes", (double)bytes, 0);
	if (rank == 0)
		printf("%zu\n", bytes);
}

int main(int argc, char **argv)
{
	const struct type *type = NULL;
	int rank, n_ranks;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (argc == 2 && strcmp(argv[1], types[i].name) == 0)
			type = &types[i];
	if (type == NULL)
		MPI_Abort(MPI_COMM_WORLD, 2);
	for (size_t i = 0; i < MOST_BYTES / type->bytes; i++) {
		put(type, send, i, value(rank, (int)i, 0));
		put(type, right, i, sum(n_ranks, (int)i, 0));
	}
	check(type, 0, rank);
	for (size_t bytes = type->bytes; bytes <= MOST_BYTES; bytes *= 2)
		check(type, bytes, rank);
	return end();
}
