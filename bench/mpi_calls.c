/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of MPI, each beside the same call through the switch: which of them would a
 * program gain from? The two alternate, so that other load on the machine slows both.
 *
 *	bench/on-links -n 8 -r 100 bench/mpi-on-links build/bench/mpi_calls [-b BYTES] [-e BYTES]
 *
 * Prints the median time of the slowest rank in milliseconds, and MPI's time divided by the
 * switch's. Sizes are those of the whole vector; of a reduce-scatter, of all parts.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "switchml.h"

#define STEP	   16
#define MIN_ROUNDS 7
#define MAX_ROUNDS 101
#define SECONDS	   4.0

static struct sml_context *job;
static float *input, *output;
static int rank, n_ranks;

struct call {
	const char *name;
	void (*by_mpi)(int count);
	int (*by_switch)(size_t count);
	bool has_size;
};

static void mpi_allreduce(int count)
{
	MPI_Allreduce(input, output, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static int switch_allreduce(size_t count)
{
	return sml_allreduce(job, input, output, count, SML_FLOAT32, SML_SUM, NULL);
}

static void mpi_reduce(int count)
{
	MPI_Reduce(input, output, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}

static int switch_reduce(size_t count)
{
	return sml_reduce(job, input, output, count, SML_FLOAT32, SML_SUM, 0, NULL);
}

static void mpi_reduce_scatter(int count)
{
	MPI_Reduce_scatter_block(input, output, count / n_ranks, MPI_FLOAT, MPI_SUM,
				 MPI_COMM_WORLD);
}

static int switch_reduce_scatter(size_t count)
{
	return sml_reduce_scatter(job, input, output, count / (size_t)n_ranks, SML_FLOAT32, SML_SUM,
				  NULL);
}

static void mpi_bcast(int count)
{
	MPI_Bcast(input, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static int switch_bcast(size_t count)
{
	return sml_broadcast(job, input, count, SML_FLOAT32, 0);
}

static void mpi_barrier(int count)
{
	(void)count;
	MPI_Barrier(MPI_COMM_WORLD);
}

static int switch_barrier(size_t count)
{
	(void)count;
	return sml_barrier(job);
}

static const struct call calls[] = {
	{"allreduce", mpi_allreduce, switch_allreduce, true},
	{"reduce", mpi_reduce, switch_reduce, true},
	{"reduce_scatter_block", mpi_reduce_scatter, switch_reduce_scatter, true},
	{"bcast", mpi_bcast, switch_bcast, true},
	{"barrier", mpi_barrier, switch_barrier, false},
};

/* The first error of the job ends the program: other ranks would wait. */
static double once(const struct call *call, size_t count, int through_switch)
{
	double began;

	MPI_Barrier(MPI_COMM_WORLD);
	began = MPI_Wtime();
	if (!through_switch) {
		call->by_mpi((int)count);
	} else if (call->by_switch(count)) {
		fprintf(stderr, "mpi_calls: %s\n", sml_error_text(job));
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	return MPI_Wtime() - began;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(const struct call *call, size_t bytes)
{
	static double own[2][MAX_ROUNDS], slowest[2][MAX_ROUNDS];
	size_t count = bytes / sizeof(float);
	double pair = 0;
	int rounds;

	for (int i = 0; i < 2; i++)
		pair = once(call, count, 0) + once(call, count, 1);
	rounds = SECONDS / pair > MAX_ROUNDS ? MAX_ROUNDS : (int)(SECONDS / pair);
	if (rounds < MIN_ROUNDS)
		rounds = MIN_ROUNDS;
	MPI_Bcast(&rounds, 1, MPI_INT, 0, MPI_COMM_WORLD);
	for (int i = 0; i < rounds; i++)
		for (int turn = 0; turn < 2; turn++)
			own[(i + turn) % 2][i] = once(call, count, (i + turn) % 2);
	for (int way = 0; way < 2; way++) {
		MPI_Reduce(own[way], slowest[way], rounds, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
		qsort(slowest[way], (size_t)rounds, sizeof(double), compare);
	}
	if (rank == 0) {
		double by_mpi = slowest[0][rounds / 2], by_switch = slowest[1][rounds / 2];

		printf("%-21s %9zu %6d %10.3f %10.3f %6.2f\n", call->name, bytes, rounds,
		       1e3 * by_mpi, 1e3 * by_switch, by_mpi / by_switch);
		fflush(stdout);
	}
}

static int open_job(void)
{
	struct sml_config config;
	int error = sml_config_init(&config);

	config.rank = rank;
	config.world_size = n_ranks;
	config.job = "mpi_calls";
	return error ? error : sml_open(&job, &config);
}

int main(int argc, char **argv)
{
	size_t least = 1024, most = 4 << 20;
	int letter;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
	while ((letter = getopt(argc, argv, "b:e:")) != -1) {
		if (letter == 'b')
			least = strtoul(optarg, NULL, 10);
		else if (letter == 'e')
			most = strtoul(optarg, NULL, 10);
	}
	input = calloc(1, most);
	output = calloc(1, most);
	if (input == NULL || output == NULL || least < sizeof(float) * (size_t)n_ranks ||
	    most > 1u << 30) {
		fprintf(stderr, "mpi_calls: sizes are an element for each rank to 1 GiB\n");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	if (open_job()) {
		fprintf(stderr, "mpi_calls: %s\n", sml_error_text(NULL));
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	if (rank == 0)
		printf("%-21s %9s %6s %10s %10s %6s\n", "call", "bytes", "rounds", "MPI ms",
		       "switch ms", "ratio");
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		for (size_t bytes = least; bytes <= most; bytes *= STEP) {
			measure(&calls[i], bytes);
			if (!calls[i].has_size)
				break;
		}
	sml_close(job);
	free(input);
	free(output);
	MPI_Finalize();
	return 0;
}
