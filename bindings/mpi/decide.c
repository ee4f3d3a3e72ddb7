/* SPDX-License-Identifier: BSD-3-Clause */
#include "bindings/mpi/decide.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "bindings/mpi/host_port.h"

/* ---- where the ranks are ---- */

static enum sml_mpi_hosts hosts_of(const uint64_t *hosts, int n)
{
	bool one = true, each = true;

	for (int i = 0; i < n; i++) {
		one &= hosts[i] == hosts[0];
		for (int j = 0; j < i; j++)
			each &= hosts[i] != hosts[j];
	}
	return one ? SML_MPI_ONE : each ? SML_MPI_EACH : SML_MPI_SOME;
}

static bool is_embedded(void)
{
	struct sml_config config;
	const char *address;

	/* A wrong setting is reported when the job begins. */
	if (sml_config_init(&config))
		return true;
	address = config.switch_address;
	return address == NULL || *address == '\0' || strcasecmp(address, "embedded") == 0;
}

bool sml_mpi_site_of(MPI_Comm comm, int rank, int size, struct sml_mpi_site *site)
{
	uint64_t hosts[SML_MPI_MAX_RANKS] = {0}, host = sml_mpi_host();

	if (PMPI_Gather(&host, 1, MPI_UINT64_T, hosts, 1, MPI_UINT64_T, 0, comm) != MPI_SUCCESS)
		return false;
	if (rank == 0)
		*site = (struct sml_mpi_site){
			.embedded = is_embedded(), .hosts = hosts_of(hosts, size), .ranks = size};
	return true;
}

/* ---- settings ---- */

/* Always false. Every communicator gets here, but the message is shown once. */
static bool complain(const char *name, const char *value, const char *why)
{
	static int told; /* atomic */

	if (!__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))
		fprintf(stderr,
			"switchml-mpi: %s=\"%s\" is not allowed: %s. MPI does all all-reduces\n",
			name, value, why);
	return false;
}

/* NULL, or why the file has no text of at most SML_MPI_TABLE_BYTES. */
static const char *read_text(FILE *file, char *text)
{
	size_t n = fread(text, 1, SML_MPI_TABLE_BYTES + 1, file);

	if (ferror(file))
		return strerror(errno);
	if (n > SML_MPI_TABLE_BYTES)
		return "the file has more than 256 KiB";
	text[n] = '\0';
	return strlen(text) == n ? NULL : "the file is not text";
}

/* Read the whole file. Returns a text that the caller frees, or NULL with the reason. */
static char *read_file(const char *path, const char **why)
{
	FILE *file = fopen(path, "re");
	char *text;

	if (file == NULL) {
		*why = strerror(errno);
		return NULL;
	}
	text = malloc(SML_MPI_TABLE_BYTES + 1);
	*why = text ? read_text(file, text) : "no memory";
	fclose(file);
	if (*why) {
		free(text);
		return NULL;
	}
	return text;
}

static bool read_table(const char *path, const struct sml_mpi_site *site,
		       struct sml_mpi_bytes *from)
{
	char wrong[128];
	const char *why;
	char *text = read_file(path, &why);
	bool good;

	if (text == NULL)
		return complain("SWITCHML_MPI_TABLE", path, why);
	good = sml_mpi_table_read(text, site, from, wrong, sizeof(wrong));
	free(text);
	return good || complain("SWITCHML_MPI_TABLE", path, wrong);
}

static bool decide(const struct sml_mpi_site *site, struct sml_mpi_bytes *from)
{
	const char *threshold = getenv("SWITCHML_MPI_THRESHOLD");
	const char *path = getenv("SWITCHML_MPI_TABLE");
	char wrong[128];
	uint64_t bytes;

	if (threshold && *threshold) {
		if (!sml_mpi_parse_bytes(threshold, &bytes))
			return complain("SWITCHML_MPI_THRESHOLD", threshold,
					"it must be a number of bytes, at least 1, for example "
					"65536, 64K or 1M");
		sml_mpi_bytes_fill(from, bytes);
		return true;
	}
	sml_mpi_bytes_fill(from, SML_MPI_NEVER);
	if (!sml_mpi_table_read(sml_mpi_table_default(), site, from, wrong, sizeof(wrong)))
		return complain("the default table", "", wrong); /* a test parses this line, too */
	return path == NULL || *path == '\0' || read_table(path, site, from);
}

bool sml_mpi_decide(MPI_Comm comm, int rank, int size, struct sml_mpi_bytes *from)
{
	struct sml_mpi_site site;

	if (!sml_mpi_site_of(comm, rank, size, &site))
		return false;
	/* A threshold is never 0. */
	if (rank == 0 && !decide(&site, from))
		sml_mpi_bytes_fill(from, 0);
	return PMPI_Bcast(from, (int)(sizeof(*from) / sizeof(uint64_t)), MPI_UINT64_T, 0, comm) ==
		       MPI_SUCCESS &&
	       from->of[0][0] != 0;
}
