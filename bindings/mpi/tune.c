/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * switchml-mpi-tune: finds the size from which an all-reduce through the switch is no slower
 * than MPI's own. `switchml tune` runs it under MPI's launcher. It contains the preload's
 * code, so MPI_Allreduce() goes through the switch and PMPI_Allreduce() does not. The two
 * alternate, so that other load on the machines slows both.
 *
 *	switchml-mpi-tune [-o FILE] [-a] [-b BYTES] [-e BYTES] [-s SECONDS] [-t TYPE]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bindings/mpi/communicator.h"
#include "bindings/mpi/decide.h"

#define STEP	   4
#define MAX_SIZES  16
#define MIN_ROUNDS 7
#define MAX_ROUNDS 201

struct options {
	const char *path; /* NULL: standard output */
	bool append;
	uint64_t min_bytes, max_bytes;
	double seconds;	  /* seconds per size, for both ways together */
	const char *type; /* NULL: all */
};

/* A type that is measured, and the other types that use its result. */
struct kind {
	MPI_Datatype handle;
	MPI_Op op;
	enum sml_type type;
	int n_alike;
	enum sml_type alike[2];
};

enum way { THROUGH_MPI, THROUGH_SWITCH, WAYS };

struct bench {
	const struct options *options;
	MPI_Comm comm;
	int rank, size;
	struct sml_mpi_site site;
	void *send, *recv;
	FILE *out; /* of rank 0 */
};

/* ---- one size ---- */

static double once(const struct bench *bench, const struct kind *kind, uint64_t bytes, enum way way)
{
	int count = (int)(bytes / sml_type_size(kind->type));
	double began;

	PMPI_Barrier(bench->comm);
	began = PMPI_Wtime();
	if (way == THROUGH_SWITCH)
		MPI_Allreduce(bench->send, bench->recv, count, kind->handle, kind->op, bench->comm);
	else
		PMPI_Allreduce(bench->send, bench->recv, count, kind->handle, kind->op,
			       bench->comm);
	return PMPI_Wtime() - began;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Medians of the slowest rank's times, on rank 0. */
static void measure(const struct bench *bench, const struct kind *kind, uint64_t bytes,
		    double medians[WAYS])
{
	static double own[WAYS][MAX_ROUNDS], slowest[WAYS][MAX_ROUNDS];
	int rounds = 0;
	double pair;

	/* The first calls open the job and warm up. */
	for (int i = 0; i < 2; i++)
		pair = once(bench, kind, bytes, THROUGH_MPI) +
		       once(bench, kind, bytes, THROUGH_SWITCH);
	if (bench->rank == 0) {
		double most = bench->options->seconds / pair;

		rounds = most < MIN_ROUNDS   ? MIN_ROUNDS
			 : most > MAX_ROUNDS ? MAX_ROUNDS
					     : (int)most;
	}
	PMPI_Bcast(&rounds, 1, MPI_INT, 0, bench->comm);
	for (int i = 0; i < rounds; i++)
		for (int turn = 0; turn < WAYS; turn++) {
			enum way way = (enum way)((i + turn) % WAYS);

			own[way][i] = once(bench, kind, bytes, way);
		}
	for (int way = 0; way < WAYS; way++) {
		PMPI_Reduce(own[way], slowest[way], rounds, MPI_DOUBLE, MPI_MAX, 0, bench->comm);
		qsort(slowest[way], (size_t)rounds, sizeof(double), compare);
		medians[way] = slowest[way][rounds / 2];
	}
}

/* ---- one kind ---- */

static void print_line(const struct bench *bench, enum sml_type type, const struct kind *kind,
		       uint64_t from)
{
	fprintf(bench->out, "%-9s %-4s %2d %-8s %s ",
		bench->site.embedded ? "embedded" : "dedicated",
		sml_mpi_hosts_word(bench->site.hosts), bench->size, sml_mpi_type_word(type),
		kind->op == MPI_SUM ? "sum" : "max");
	if (from == SML_MPI_NEVER)
		fprintf(bench->out, "never\n");
	else
		fprintf(bench->out, "%llu\n", (unsigned long long)from);
}

/* The smallest size from which the switch was never slower. */
static void measure_kind(const struct bench *bench, const struct kind *kind)
{
	double medians[MAX_SIZES][WAYS];
	uint64_t sizes[MAX_SIZES], from = SML_MPI_NEVER;
	int n = 0;

	for (uint64_t bytes = bench->options->min_bytes;
	     bytes <= bench->options->max_bytes && n < MAX_SIZES; bytes *= STEP, n++) {
		sizes[n] = bytes;
		measure(bench, kind, bytes, medians[n]);
	}
	if (bench->rank != 0)
		return;
	fprintf(bench->out, "# ms through MPI and through the switch:");
	for (int i = 0; i < n; i++)
		fprintf(bench->out, " %llu: %.3g %.3g;", (unsigned long long)sizes[i],
			1e3 * medians[i][THROUGH_MPI], 1e3 * medians[i][THROUGH_SWITCH]);
	fprintf(bench->out, "\n");
	for (int i = n; i-- > 0 && medians[i][THROUGH_SWITCH] <= medians[i][THROUGH_MPI];)
		from = sizes[i];
	print_line(bench, kind->type, kind, from);
	for (int i = 0; i < kind->n_alike; i++)
		print_line(bench, kind->alike[i], kind, from);
	fflush(bench->out);
}

/* ---- one communicator ---- */

/* Do the ranks have a switch? All ranks know. */
static bool has_switch(const struct bench *bench)
{
	const struct sml_mpi_communicator *communicator;
	char byte = 1, sum = 0;

	MPI_Allreduce(&byte, &sum, 1, MPI_UNSIGNED_CHAR, MPI_SUM, bench->comm);
	communicator = sml_mpi_communicator_of(bench->comm, false);
	return communicator && communicator->state == SML_MPI_OPEN;
}

static bool is_chosen(const struct options *options, enum sml_type type)
{
	return options->type == NULL || strcmp(options->type, sml_mpi_type_word(type)) == 0;
}

static bool measure_all(struct bench *bench)
{
	const struct kind kinds[] = {
		{MPI_FLOAT, MPI_SUM, SML_FLOAT32, 0, {0}},
		{MPI_DOUBLE, MPI_SUM, SML_FLOAT64, 0, {0}},
		{MPI_INT32_T, MPI_SUM, SML_INT32, 0, {0}},
		{MPI_INT64_T, MPI_SUM, SML_INT64, 0, {0}},
		{MPI_INT16_T, MPI_SUM, SML_INT16, 0, {0}},
		{MPI_UINT8_T, MPI_SUM, SML_UINT8, 1, {SML_INT8}},
		{MPI_FLOAT, MPI_MAX, SML_FLOAT32, 0, {0}},
		{MPI_DOUBLE, MPI_MAX, SML_FLOAT64, 0, {0}},
		{MPI_INT32_T, MPI_MAX, SML_INT32, 0, {0}},
		{MPI_INT64_T, MPI_MAX, SML_INT64, 0, {0}},
		{MPI_INT16_T, MPI_MAX, SML_INT16, 0, {0}},
		{MPI_UINT8_T, MPI_MAX, SML_UINT8, 2, {SML_INT8, SML_BOOL}},
	};

	if (!sml_mpi_site_of(bench->comm, bench->rank, bench->size, &bench->site) ||
	    !has_switch(bench))
		return false;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!is_chosen(bench->options, kinds[i].type))
			continue;
		/* Normal numbers, not subnormal ones. */
		memset(bench->send,
		       kinds[i].type == SML_FLOAT32 || kinds[i].type == SML_FLOAT64 ? 0x3f : 1,
		       bench->options->max_bytes);
		measure_kind(bench, &kinds[i]);
	}
	return true;
}

/* Other ranks wait without using the cores, which the measuring ranks may share. */
static void wait_for_all(void)
{
	MPI_Request request;
	int done = 0;

	PMPI_Ibarrier(MPI_COMM_WORLD, &request);
	while (PMPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done)
		usleep(2000);
}

/* A communicator of the first `size` ranks. */
static bool measure_first(struct bench *bench, int size)
{
	int rank, good = 1, all = 1;

	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	PMPI_Comm_split(MPI_COMM_WORLD, rank < size ? 0 : MPI_UNDEFINED, rank, &bench->comm);
	if (bench->comm != MPI_COMM_NULL) {
		bench->rank = rank;
		bench->size = size;
		good = measure_all(bench);
		MPI_Comm_free(&bench->comm);
	}
	wait_for_all();
	PMPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	return all;
}

/* ---- the file ---- */

static FILE *open_table(const struct options *options)
{
	FILE *out = options->path ? fopen(options->path, options->append ? "ae" : "we") : stdout;

	if (out == NULL)
		perror(options->path);
	else if (!options->append || ftell(out) == 0)
		fprintf(out, "switchml-mpi-table 1\n# switch, hosts, ranks, type, op, from\n");
	return out;
}

static bool close_table(FILE *out)
{
	bool good = !ferror(out);

	good &= (out == stdout ? fflush(out) : fclose(out)) == 0;
	if (!good)
		perror("switchml-mpi-tune: the table could not be written");
	return good;
}

static bool parse_options(struct options *options, int argc, char **argv)
{
	int letter;

	while ((letter = getopt(argc, argv, "o:ab:e:s:t:")) != -1) {
		if (letter == 'o')
			options->path = optarg;
		else if (letter == 'a')
			options->append = true;
		else if (letter == 't')
			options->type = optarg;
		else if (letter == 's')
			options->seconds = strtod(optarg, NULL);
		else if ((letter != 'b' && letter != 'e') ||
			 !sml_mpi_parse_bytes(optarg, letter == 'b' ? &options->min_bytes
								    : &options->max_bytes))
			return false;
	}
	/* Counts are ints, and elements are whole. */
	return optind == argc && options->min_bytes % 8 == 0 &&
	       options->min_bytes <= options->max_bytes && options->max_bytes <= 1u << 30 &&
	       options->seconds > 0;
}

static int tune(const struct options *options)
{
	struct bench bench = {.options = options};
	int rank, n, good = 1;

	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	PMPI_Comm_size(MPI_COMM_WORLD, &n);
	bench.send = malloc(options->max_bytes);
	bench.recv = malloc(options->max_bytes);
	if (rank == 0)
		bench.out = open_table(options);
	good = bench.send && bench.recv && (rank != 0 || bench.out) && n >= 2 &&
	       n <= SML_MPI_MAX_RANKS;
	PMPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	for (int size = 2; good && size < n; size *= 2)
		good = measure_first(&bench, size);
	good = good && measure_first(&bench, n);
	if (!good && rank == 0)
		fprintf(stderr,
			"switchml-mpi-tune: nothing was measured: it takes 2 to %d ranks, memory, "
			"a file that can be written, and a switch\n",
			SML_MPI_MAX_RANKS);
	if (rank == 0 && bench.out)
		good = close_table(bench.out) && good;
	free(bench.send);
	free(bench.recv);
	return good ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct options options = {.min_bytes = 1024, .max_bytes = 4 << 20, .seconds = 0.5};
	int status = 2;

	setenv("SWITCHML_MPI_THRESHOLD", "1", 1);
	MPI_Init(&argc, &argv);
	if (parse_options(&options, argc, argv))
		status = tune(&options);
	else
		fprintf(stderr, "Usage: switchml-mpi-tune [-o FILE] [-a] [-b BYTES] [-e BYTES] "
				"[-s SECONDS] [-t TYPE]\n");
	MPI_Finalize();
	return status;
}
