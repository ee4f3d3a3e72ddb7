/* SPDX-License-Identifier: BSD-3-Clause */
#include "bindings/mpi/start.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* ---- where the ranks are ---- */

static bool are_apart(const uint64_t *hosts, int n)
{
	for (int i = 0; i < n; i++)
		for (int j = 0; j < i; j++)
			if (hosts[i] == hosts[j])
				return false;
	return true;
}

static bool is_embedded(void)
{
	struct sml_config config = SML_CONFIG_INIT;
	const char *address;

	/* A wrong setting is reported when the job begins. */
	if (sml_config_init(&config))
		return true;
	address = config.switch_address;
	return address == NULL || *address == '\0' || strcasecmp(address, "embedded") == 0;
}

/* All ranks must call this; rank 0 gets the answer. */
static bool find_site(MPI_Comm comm, int rank, int size, struct sml_mpi_site *site)
{
	uint64_t hosts[SML_MPI_MAX_RANKS] = {0}, host = sml_mpi_host();

	if (PMPI_Gather(&host, 1, MPI_UINT64_T, hosts, 1, MPI_UINT64_T, 0, comm) != MPI_SUCCESS)
		return false;
	if (rank == 0)
		*site = (struct sml_mpi_site){
			.embedded = is_embedded(), .apart = are_apart(hosts, size), .ranks = size};
	return true;
}

/* ---- the threshold ---- */

/* Every communicator gets here, but the message is shown once. */
static void complain(const char *threshold)
{
	static int told; /* atomic */

	if (!__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))
		fprintf(stderr,
			"switchml-mpi: SWITCHML_MPI_THRESHOLD=\"%s\" is not allowed: it must be a "
			"number of bytes, at least 1, for example 65536, 64K or 1M. MPI does all "
			"all-reduces\n",
			threshold);
}

static bool decide(const struct sml_mpi_site *site, struct sml_mpi_bytes *from)
{
	const char *threshold = getenv("SWITCHML_MPI_THRESHOLD");
	uint64_t bytes;

	if (threshold == NULL || *threshold == '\0') {
		sml_mpi_bytes_gaining(from, site);
		return true;
	}
	if (!sml_mpi_parse_bytes(threshold, &bytes)) {
		complain(threshold);
		return false;
	}
	sml_mpi_bytes_fill(from, bytes);
	return true;
}

bool sml_mpi_decide(MPI_Comm comm, int rank, int size, struct sml_mpi_bytes *from)
{
	struct sml_mpi_site site;

	if (!find_site(comm, rank, size, &site))
		return false;
	/* A threshold is never 0. */
	if (rank == 0 && !decide(&site, from))
		sml_mpi_bytes_fill(from, 0);
	return PMPI_Bcast(from, (int)(sizeof(*from) / sizeof(uint64_t)), MPI_UINT64_T, 0, comm) ==
		       MPI_SUCCESS &&
	       from->of[0][0] != 0;
}
