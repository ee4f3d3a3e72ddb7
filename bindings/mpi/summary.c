/* SPDX-License-Identifier: BSD-3-Clause */
#include "bindings/mpi/communicator.h"

#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "switchml.h"

static uint64_t calls[SML_MPI_WAYS][2];		/* atomic; [blocking] */
static uint64_t offloaded_bytes, jobs;		/* atomic */
static uint64_t others[SML_MPI_COLLECTIVES][2]; /* atomic; [offloaded] */

void sml_mpi_count(enum sml_mpi_way way, bool blocking, uint64_t bytes)
{
	__atomic_add_fetch(&calls[way][blocking], 1, __ATOMIC_RELAXED);
	if (way == SML_MPI_SWITCH)
		__atomic_add_fetch(&offloaded_bytes, bytes, __ATOMIC_RELAXED);
}

void sml_mpi_count_other(enum sml_mpi_collective collective, bool offloaded, uint64_t bytes)
{
	__atomic_add_fetch(&others[collective][offloaded], 1, __ATOMIC_RELAXED);
	if (offloaded)
		__atomic_add_fetch(&offloaded_bytes, bytes, __ATOMIC_RELAXED);
}

void sml_mpi_count_job(void)
{
	__atomic_add_fetch(&jobs, 1, __ATOMIC_RELAXED);
}

static uint64_t all(enum sml_mpi_way way)
{
	return calls[way][false] + calls[way][true];
}

/* Only if the program made such calls where the switch could offload them. */
static void say_others(int rank)
{
	static const char *const names[] = {
		[SML_MPI_REDUCE] = "reduces",
		[SML_MPI_REDUCE_SCATTER] = "reduce-scatters",
		[SML_MPI_BCAST] = "broadcasts",
	};
	_Static_assert(sizeof(names) / sizeof(names[0]) == SML_MPI_COLLECTIVES, "each has a name");

	for (int i = SML_MPI_REDUCE; i < SML_MPI_COLLECTIVES; i++) {
		uint64_t offloaded = others[i][true], made = offloaded + others[i][false];

		if (made > 0)
			fprintf(stderr,
				"switchml-mpi[rank %d]: %" PRIu64 " of %" PRIu64
				" %s through the switch\n",
				rank, offloaded, made, names[i]);
	}
}

uint64_t sml_mpi_count_left(void)
{
	uint64_t n = 0;

	for (int way = 0; way < SML_MPI_WAYS; way++)
		if (way != SML_MPI_SWITCH)
			n += all((enum sml_mpi_way)way);
	for (int i = SML_MPI_REDUCE; i < SML_MPI_COLLECTIVES; i++)
		n += others[i][false];
	return n;
}

/* Why MPI got calls, and what changes that. */
static const struct reason {
	const char *why, *remedy;
} reasons[] = {
	[SML_MPI_SMALL] = {"below the threshold", "SWITCHML_MPI_THRESHOLD lowers it"},
	[SML_MPI_UNWORTHY] = {"that no switch speeds up here",
			      "SWITCHML_MPI_THRESHOLD=64K overrules it"},
	[SML_MPI_KIND] = {"of other types or operations", NULL},
	[SML_MPI_GROUP] = {"on other communicators", NULL},
	[SML_MPI_EARLY] = {"before the job had begun", NULL},
	[SML_MPI_NO_SWITCH] = {"without a switch", NULL},
};
_Static_assert(sizeof(reasons) / sizeof(reasons[0]) == SML_MPI_WAYS, "each has its reason");

/* "; through MPI: 34 below the threshold, 2 of other types or operations"; "": none. */
static void list_reasons(char *text, size_t bytes)
{
	size_t length = 0;

	text[0] = '\0';
	for (int way = SML_MPI_SWITCH + 1; way < SML_MPI_WAYS && length < bytes; way++) {
		uint64_t n = all((enum sml_mpi_way)way);
		bool told = way == SML_MPI_UNWORTHY;

		if (n > 0)
			length += (size_t)snprintf(
				text + length, bytes - length, "%s %" PRIu64 " %s%s%s%s",
				length ? "," : "; through MPI:", n, reasons[way].why,
				told ? " (" : "", told ? reasons[way].remedy : "", told ? ")" : "");
	}
}

/*
 * A switch is named, and got no call of a program that has made some: rank 0 says so, with the
 * reason of most calls.
 */
static void say_unused(int rank, uint64_t total)
{
	enum sml_mpi_way most = SML_MPI_SMALL;
	struct sml_config config = SML_CONFIG_INIT;
	const char *remedy;

	if (rank != 0 || total == 0 || offloaded_bytes > 0 || all(SML_MPI_SWITCH) > 0 ||
	    sml_config_init(&config) != 0 || config.switch_address == NULL ||
	    *config.switch_address == '\0' || !config.summary)
		return;
	for (unsigned way = most; way < SML_MPI_WAYS; way++)
		if (all((enum sml_mpi_way)way) > all(most))
			most = (enum sml_mpi_way)way;
	remedy = reasons[most].remedy;
	fprintf(stderr,
		"switchml-mpi: none of %" PRIu64
		" all-reduces went through the switch %s; MPI got %" PRIu64
		" %s%s%s (docs/mpi.md)\n",
		total, config.switch_address, all(most), reasons[most].why, remedy ? "; " : "",
		remedy ? remedy : "");
}

void sml_mpi_summary(void)
{
	/* Also where another setting is wrong, so that MPI does it all. */
	const char *wanted = getenv("SWITCHML_SUMMARY");
	char left[512], offloaded[160] = "";
	uint64_t total = 0;
	int rank = sml_mpi_world_rank();

	for (int way = 0; way < SML_MPI_WAYS; way++)
		total += all((enum sml_mpi_way)way);
	say_unused(rank, total);
	if (wanted == NULL || strcasecmp(wanted, "all") != 0)
		return;
	list_reasons(left, sizeof(left));
	/* Without a job, its numbers are all 0. */
	if (jobs > 0)
		snprintf(offloaded, sizeof(offloaded),
			 " (%" PRIu64 " blocking, %" PRIu64 " nonblocking, %.1f MB, %" PRIu64
			 " job%s)",
			 calls[SML_MPI_SWITCH][true], calls[SML_MPI_SWITCH][false],
			 (double)offloaded_bytes / 1e6, jobs, jobs == 1 ? "" : "s");
	if (total == 0)
		fprintf(stderr, "switchml-mpi[rank %d]: no all-reduces%s\n", rank, offloaded);
	else
		fprintf(stderr,
			"switchml-mpi[rank %d]: %" PRIu64 " of %" PRIu64
			" all-reduces through the switch%s%s\n",
			rank, all(SML_MPI_SWITCH), total, offloaded, left);
	say_others(rank);
}
