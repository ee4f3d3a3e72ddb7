/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators: copies, parts, parts of copies, one rank, two groups, freed and recreated ones. */
#include <math.h>

#include "program.h"

static float send_data[LARGE], recv_data[LARGE];

static void try(const char *what, MPI_Comm comm, int seed)
{
	int rank, n_ranks;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &n_ranks);
	for (int round = 0; round < 3; round++) {
		fill(send_data, LARGE, rank, seed + round);
		MPI_Allreduce(send_data, recv_data, LARGE, MPI_FLOAT, MPI_SUM, comm);
		check_sum(what, recv_data, LARGE, n_ranks, seed + round);
	}
}

/* The even ranks and the odd ranks, each numbered in reverse. */
static MPI_Comm part(MPI_Comm comm)
{
	MPI_Comm parted;
	int rank;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_split(comm, rank % 2, -rank, &parted);
	return parted;
}

static void across(MPI_Comm local, int rank, int n_ranks)
{
	MPI_Comm inter;
	int n_remote;

	/* The first rank of a part is the last of all even, or all odd, ranks. */
	MPI_Intercomm_create(local, 0, MPI_COMM_WORLD,
			     n_ranks % 2 == rank % 2 ? n_ranks - 1 : n_ranks - 2, 0, &inter);
	MPI_Comm_remote_size(inter, &n_remote);
	MPI_Comm_rank(local, &rank);
	fill(send_data, LARGE, rank, 40);
	MPI_Allreduce(send_data, recv_data, LARGE, MPI_FLOAT, MPI_SUM, inter);
	check_sum("the other group", recv_data, LARGE, n_remote, 40);
	MPI_Comm_free(&inter);
}

static void largest(void *in, void *in_out, int *n, MPI_Datatype *type)
{
	const float *a = in;
	float *b = in_out;

	(void)type;
	for (int i = 0; i < *n; i++)
		b[i] = fmaxf(a[i], b[i]);
}

static void own_operation(int rank, int n_ranks)
{
	MPI_Op op;

	MPI_Op_create(largest, 1, &op);
	for (int i = 0; i < LARGE; i++)
		send_data[i] = (float)(rank + i % 5);
	MPI_Allreduce(send_data, recv_data, LARGE, MPI_FLOAT, op, MPI_COMM_WORLD);
	if (recv_data[4] != (float)(n_ranks - 1 + 4))
		complain("an operation of its own", (double)recv_data[4], n_ranks + 3);
	MPI_Op_free(&op);
}

int main(int argc, char **argv)
{
	MPI_Comm copy, parted, copy_of_part, turned;
	int rank, n_ranks;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);

	try("world", MPI_COMM_WORLD, 1);
	try("self", MPI_COMM_SELF, 2);
	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	try("a copy", copy, 3);
	parted = part(copy);
	try("a part", parted, 4);
	MPI_Comm_dup(parted, &copy_of_part);
	try("a copy of a part", copy_of_part, 5);
	/* Reversed: rank 0 of this communicator is the last rank of all. */
	MPI_Comm_split(MPI_COMM_WORLD, 0, n_ranks - rank, &turned);
	try("turned", turned, 6);
	try("a part again", parted, 7);
	try("world again", MPI_COMM_WORLD, 8);
	MPI_Comm_free(&copy_of_part);
	MPI_Comm_free(&copy);
	for (int i = 0; i < 5; i++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &copy);
		try("made again", copy, 20 + i);
		MPI_Comm_free(&copy);
	}
	if (n_ranks > 1)
		across(parted, rank, n_ranks);
	own_operation(rank, n_ranks);
	MPI_Comm_free(&parted);
	/* `turned` is left to MPI_Finalize(). */
	return end();
}
