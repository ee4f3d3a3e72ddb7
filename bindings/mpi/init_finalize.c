/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI's initialization and finalization. */
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

/* Handles of one MPI are invalid in another one, so refuse to run. */
static void check_library(void)
{
	char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
	int length;

	PMPI_Get_library_version(version, &length);
	if (strncmp(version, BUILT_FOR, strlen(BUILT_FOR)) == 0)
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
