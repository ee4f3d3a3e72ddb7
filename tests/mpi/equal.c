/* SPDX-License-Identifier: BSD-3-Clause */
/* All ranks have equal arrays: each sum is the exact one, rounded once. */
#include <math.h>

#include "program.h"

#define MOST 1000000

static const int counts[] = {1, 100, LARGE, MOST};

/* Every bit of the fraction in use, both signs, 2^-60 to 2^59: small elements beside large ones. */
static float element(int i)
{
	unsigned mixed = (unsigned)i * 2654435761U + 12345;
	float fraction = 1 + (float)(mixed >> 9) * 0x1p-23F;

	return ldexpf(i % 2 ? -fraction : fraction, (int)(mixed % 120) - 60);
}

static void check_equal(float *data, int n, int n_ranks)
{
	for (int i = 0; i < n; i++)
		data[i] = element(i);
	MPI_Allreduce(MPI_IN_PLACE, data, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < n; i++) {
		/* A float64 holds n times a float32 exactly. */
		float exact = (float)((double)element(i) * n_ranks);

		if (data[i] == exact)
			continue;
		complain("a sum of equal elements", (double)data[i], (double)exact);
		return;
	}
}

int main(int argc, char **argv)
{
	static float data[MOST];
	int n_ranks;

	MPI_Init(&argc, &argv);
	MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		check_equal(data, counts[i], n_ranks);
	return end();
}
