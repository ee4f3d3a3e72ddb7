/* SPDX-License-Identifier: BSD-3-Clause */
#include "bindings/mpi/summary.h"

#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t calls[SML_MPI_WAYS][2];		/* atomic; [blocking] */
static uint64_t carried_bytes, jobs;		/* atomic */
static uint64_t others[SML_MPI_COLLECTIVES][2]; /* atomic; [carried] */

void sml_mpi_count(enum sml_mpi_way way, bool blocking, uint64_t bytes)
{
	__atomic_add_fetch(&calls[way][blocking], 1, __ATOMIC_RELAXED);
	if (way == SML_MPI_SWITCH)
		__atomic_add_fetch(&carried_bytes, bytes, __ATOMIC_RELAXED);
}

void sml_mpi_count_other(enum sml_mpi_collective collective, bool carried, uint64_t bytes)
{
	__atomic_add_fetch(&others[collective][carried], 1, __ATOMIC_RELAXED);
	if (carried)
		__atomic_add_fetch(&carried_bytes, bytes, __ATOMIC_RELAXED);
}

void sml_mpi_count_job(void)
{
	__atomic_add_fetch(&jobs, 1, __ATOMIC_RELAXED);
}

static uint64_t all(enum sml_mpi_way way)
{
	return calls[way][false] + calls[way][true];
}

/* Only if the program made such calls where the switch could carry them. */
static void say_others(int rank)
{
	static const char *const names[] = {
		[SML_MPI_REDUCE] = "reduces",
		[SML_MPI_REDUCE_SCATTER] = "reduce-scatters",
		[SML_MPI_BCAST] = "broadcasts",
	};

	for (int i = SML_MPI_REDUCE; i < SML_MPI_COLLECTIVES; i++) {
		uint64_t carried = others[i][true], made = carried + others[i][false];

		if (made > 0)
			fprintf(stderr,
				"switchml-mpi[rank %d]: %" PRIu64 " of %" PRIu64
				" %s through the switch\n",
				rank, carried, made, names[i]);
	}
}

void sml_mpi_summary(void)
{
	const char *wanted = getenv("SWITCHML_MPI_SUMMARY");
	uint64_t total = 0;
	int rank = 0;

	if (wanted == NULL || strcmp(wanted, "1") != 0)
		return;
	for (int way = 0; way < SML_MPI_WAYS; way++)
		total += all((enum sml_mpi_way)way);
	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	fprintf(stderr,
		"switchml-mpi[rank %d]: %" PRIu64 " of %" PRIu64
		" all-reduces through the switch (%" PRIu64 " blocking, %" PRIu64
		" nonblocking, %.1f MB, %" PRIu64 " job%s); through MPI: %" PRIu64
		" below the threshold, %" PRIu64
		" that the table leaves to MPI at any size%s, %" PRIu64
		" of other types or operations, %" PRIu64 " on other communicators, %" PRIu64
		" before the job had begun, %" PRIu64 " without a switch\n",
		rank, all(SML_MPI_SWITCH), total, calls[SML_MPI_SWITCH][true],
		calls[SML_MPI_SWITCH][false], (double)carried_bytes / 1e6, jobs,
		jobs == 1 ? "" : "s", all(SML_MPI_SMALL), all(SML_MPI_UNWORTHY),
		all(SML_MPI_UNWORTHY) > 0 ? " (SWITCHML_MPI_THRESHOLD=64K overrules it)" : "",
		all(SML_MPI_KIND), all(SML_MPI_GROUP), all(SML_MPI_EARLY), all(SML_MPI_NO_SWITCH));
	say_others(rank);
}
