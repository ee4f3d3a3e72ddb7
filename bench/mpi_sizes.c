/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An MPI rank for bench/mpi-sizes: all-reduces of the sizes of Intel's and OSU's benchmarks, with
 * the preload and without it. Under the preload, MPI_Allreduce() is its function, which decides by
 * its table, and PMPI_Allreduce() is MPI's own. Both alternate, so that other load slows both.
 *
 *	mpi_sizes TYPE SMALLEST LARGEST SECONDS-PER-SIZE
 *
 * Rank 0 prints a line for each size: bytes, pairs, the medians of both times (microseconds, of the
 * slowest rank), and of the ratios "with" / "without" the median and the two that enclose the
 * median of many more with a probability of 95 %.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIN_PAIRS      12
#define MAX_PAIRS      400
#define SAMPLE_SECONDS 1e-3
#define MAX_CALLS      50

enum way { WITHOUT, WITH, WAYS };

struct bench {
	MPI_Datatype type;
	size_t element_bytes;
	void *send, *recv;
	double seconds; /* per size */
	int rank, n_ranks;
};

/* Exact sums in every type, whatever their order. */
static int value(int rank, size_t i)
{
	return (int)((i * 3 + (size_t)rank * 7) % 101) - 50;
}

static void put(const struct bench *bench, void *place, size_t i, int x)
{
	if (bench->type == MPI_FLOAT)
		((float *)place)[i] = (float)x;
	else if (bench->type == MPI_DOUBLE)
		((double *)place)[i] = x;
	else if (bench->type == MPI_LONG)
		((long *)place)[i] = x;
	else
		((int *)place)[i] = x;
}

static double sample(const struct bench *bench, int count, int calls, enum way way)
{
	double began;

	PMPI_Barrier(MPI_COMM_WORLD);
	began = PMPI_Wtime();
	for (int i = 0; i < calls; i++) {
		if (way == WITH)
			MPI_Allreduce(bench->send, bench->recv, count, bench->type, MPI_SUM,
				      MPI_COMM_WORLD);
		else
			PMPI_Allreduce(bench->send, bench->recv, count, bench->type, MPI_SUM,
				       MPI_COMM_WORLD);
	}
	return (PMPI_Wtime() - began) / calls;
}

/* The calls of a sample and the pairs of samples, alike on all ranks. */
static void plan(const struct bench *bench, int count, int *calls, int *pairs)
{
	double both = 0, slowest;

	for (int i = 0; i < 3; i++) /* the first calls open a job and connections */
		both = sample(bench, count, 1, WITHOUT) + sample(bench, count, 1, WITH);
	PMPI_Allreduce(&both, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	*calls = (int)fmin(MAX_CALLS, 1 + 2 * SAMPLE_SECONDS / slowest);
	*pairs = (int)fmin(MAX_PAIRS, fmax(MIN_PAIRS, bench->seconds / (slowest * *calls)));
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double at(double *values, int n, double place)
{
	qsort(values, (size_t)n, sizeof(*values), compare);
	return values[(int)fmin(n - 1, fmax(0, round(place)))];
}

static void print(const struct bench *bench, int count, int pairs, double times[WAYS][MAX_PAIRS])
{
	static double ratios[MAX_PAIRS];
	double middle = (pairs - 1) / 2.0, spread = 0.98 * sqrt(pairs);

	for (int i = 0; i < pairs; i++)
		ratios[i] = times[WITH][i] / times[WITHOUT][i];
	printf("%zu %d %.1f %.1f %.3f %.3f %.3f\n", (size_t)count * bench->element_bytes, pairs,
	       1e6 * at(times[WITHOUT], pairs, middle), 1e6 * at(times[WITH], pairs, middle),
	       at(ratios, pairs, middle), at(ratios, pairs, middle - spread),
	       at(ratios, pairs, middle + spread));
	fflush(stdout);
}

/* The last result must be right, on every rank. */
static int is_wrong(const struct bench *bench, int count)
{
	char right[8];

	for (size_t i = 0; i < (size_t)count; i++) {
		int sum = 0;

		for (int rank = 0; rank < bench->n_ranks; rank++)
			sum += value(rank, i);
		put(bench, right, 0, sum);
		if (memcmp(right, (char *)bench->recv + i * bench->element_bytes,
			   bench->element_bytes) == 0)
			continue;
		fprintf(stderr, "mpi_sizes: rank %d: element %zu of %d is wrong\n", bench->rank, i,
			count);
		return 1;
	}
	return 0;
}

static int measure(const struct bench *bench, size_t bytes)
{
	static double own[WAYS][MAX_PAIRS], slowest[WAYS][MAX_PAIRS];
	int count = (int)(bytes / bench->element_bytes), calls, pairs;

	plan(bench, count, &calls, &pairs);
	for (int i = 0; i < pairs; i++)
		for (int turn = 0; turn < WAYS; turn++) {
			enum way way = (enum way)((i + turn) % WAYS);

			own[way][i] = sample(bench, count, calls, way);
		}
	for (int way = 0; way < WAYS; way++)
		PMPI_Reduce(own[way], slowest[way], pairs, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	if (bench->rank == 0)
		print(bench, count, pairs, slowest);
	memset(bench->recv, 0xa5, bytes);
	sample(bench, count, 1, WITH);
	return is_wrong(bench, count);
}

static int choose(struct bench *bench, const char *word)
{
	const struct {
		const char *word;
		MPI_Datatype type;
		size_t bytes;
	} types[] = {{"float", MPI_FLOAT, sizeof(float)},
		     {"double", MPI_DOUBLE, sizeof(double)},
		     {"int", MPI_INT, sizeof(int)},
		     {"long", MPI_LONG, sizeof(long)}};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strcmp(types[i].word, word) == 0) {
			bench->type = types[i].type;
			bench->element_bytes = types[i].bytes;
			return 1;
		}
	return 0;
}

/* Whether any rank has a wrong result. */
static int measure_all(const struct bench *bench, size_t least, size_t most)
{
	int wrong = 0;

	for (size_t i = 0; i < most / bench->element_bytes; i++)
		put(bench, bench->send, i, value(bench->rank, i));
	for (size_t bytes = least; bytes <= most; bytes = bytes ? 2 * bytes : bench->element_bytes)
		wrong |= measure(bench, bytes);
	PMPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	return wrong;
}

int main(int argc, char **argv)
{
	struct bench bench = {0};
	size_t least, most;
	int wrong = 0;

	MPI_Init(&argc, &argv);
	if (argc != 5 || !choose(&bench, argv[1])) {
		fprintf(stderr, "Usage: mpi_sizes TYPE SMALLEST LARGEST SECONDS-PER-SIZE\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
		return 2;
	}
	least = strtoull(argv[2], NULL, 10);
	most = strtoull(argv[3], NULL, 10);
	bench.seconds = strtod(argv[4], NULL);
	MPI_Comm_rank(MPI_COMM_WORLD, &bench.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &bench.n_ranks);
	bench.send = malloc(most + 8);
	bench.recv = malloc(most + 8);
	if (bench.send != NULL && bench.recv != NULL) {
		wrong = measure_all(&bench, least, most);
	} else {
		fprintf(stderr, "mpi_sizes: rank %d has no memory for two buffers of %zu bytes\n",
			bench.rank, most);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	free(bench.send);
	free(bench.recv);
	MPI_Finalize();
	return wrong;
}
