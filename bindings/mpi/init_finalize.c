/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI's initialization and finalization. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bindings/mpi/backoff.h"
#include "bindings/mpi/offload.h"

#define SML_EXPORT __attribute__((visibility("default")))

#ifdef OPEN_MPI
#define BUILT_FOR "Open MPI"
#else
#define BUILT_FOR "MPICH"
#endif

/*
 * How the libraries that have this ABI call themselves. Those of the MPICH ABI initiative have the
 * same handles, constants and structs since MPICH 3.1 (mpich.org/abi).
 */
static bool has_our_abi(const char *version)
{
	static const char *const names[] = {BUILT_FOR,
#ifndef OPEN_MPI
					    "Intel(R) MPI Library", "MVAPICH", "CRAY MPICH"
#endif
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(version, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

/* Handles of one MPI are invalid in one with another ABI, so refuse to run. */
static void check_library(void)
{
	char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
	int length;

	PMPI_Get_library_version(version, &length);
	if (has_our_abi(version))
		return;
	version[strcspn(version, "\n,")] = '\0';
	fprintf(stderr,
		"switchml-mpi: this libswitchml-mpi.so was built for " BUILT_FOR
		", but the program uses \"%s\": preload the library that was built for that MPI "
		"(docs/mpi.md)\n",
		version);
	exit(1);
}

SML_EXPORT int MPI_Init(int *argc, char ***argv)
{
	check_library();
	return PMPI_Init(argc, argv);
}

SML_EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	check_library();
	return PMPI_Init_thread(argc, argv, required, provided);
}

/* First finish the calls that no thread waits for, then close the jobs. */
SML_EXPORT int MPI_Finalize(void)
{
	struct sml_mpi_backoff backoff = {0};

	while (sml_mpi_has_pending()) {
		sml_mpi_progress();
		sml_mpi_back_off(&backoff);
		sml_mpi_poll();
	}
	if (sml_mpi_is_used())
		sml_mpi_communicators_close();
	sml_mpi_summary();
	return PMPI_Finalize();
}
