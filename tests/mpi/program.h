/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For the MPI programs of this directory. They know nothing of SwitchML, only MPI and the
 * correct results.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define LARGE 100003 /* floats: above every threshold, and not a multiple of anything */

static int wrong;

/* Small integers, so that every order of additions gives the same float result. */
static inline int value(int rank, int i, int seed)
{
	return (rank * 7 + i * 3 + seed * 11) % 101 - 50;
}

static inline int sum(int n_ranks, int i, int seed)
{
	int all = 0;

	for (int rank = 0; rank < n_ranks; rank++)
		all += value(rank, i, seed);
	return all;
}

static inline void fill(float *data, int n, int rank, int seed)
{
	for (int i = 0; i < n; i++)
		data[i] = (float)value(rank, i, seed);
}

static inline void complain(const char *what, double is, double should_be)
{
	int rank;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (wrong++ < 10)
		fprintf(stderr, "rank %d: %s: %g, should be %g\n", rank, what, is, should_be);
}

static inline void check_sum(const char *what, const float *data, int n, int n_ranks, int seed)
{
	for (int i = 0; i < n; i++) {
		if (data[i] == (float)sum(n_ranks, i, seed))
			continue;
		complain(what, (double)data[i], sum(n_ranks, i, seed));
		return;
	}
}

/* Every rank's verdict, and the end. */
static inline int end(void)
{
	int rank, all = 0;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%d wrong\n", all);
	MPI_Finalize();
	return wrong > 0;
}

#endif
