/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI's initialization and finalization. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static int sessions; /* atomic: how many are open */

/* First finish the calls that no thread waits for; the last one of MPI then closes the jobs. */
static void end(bool last)
{
	struct sml_mpi_backoff backoff = {0};

	while (sml_mpi_has_pending()) {
		sml_mpi_progress();
		sml_mpi_back_off(&backoff);
		sml_mpi_poll();
	}
	if (!last) {
		sml_mpi_progress_fini();
		return;
	}
	if (sml_mpi_is_used())
		sml_mpi_communicators_close();
	sml_mpi_summary();
}

SML_EXPORT int MPI_Finalize(void)
{
	end(__atomic_load_n(&sessions, __ATOMIC_ACQUIRE) == 0);
	return PMPI_Finalize();
}

#if MPI_VERSION >= 4
/* A program of an MPI that has our ABI, and no sessions, does not call them. */
extern __typeof__(PMPI_Session_init) PMPI_Session_init __attribute__((weak));
extern __typeof__(PMPI_Session_finalize) PMPI_Session_finalize __attribute__((weak));

SML_EXPORT int MPI_Session_init(MPI_Info info, MPI_Errhandler errhandler, MPI_Session *session)
{
	int error;

	check_library();
	error = PMPI_Session_init(info, errhandler, session);
	if (error == MPI_SUCCESS)
		__atomic_add_fetch(&sessions, 1, __ATOMIC_ACQ_REL);
	return error;
}

/* What begins after the last one has ended stays with MPI. */
SML_EXPORT int MPI_Session_finalize(MPI_Session *session)
{
	end(__atomic_sub_fetch(&sessions, 1, __ATOMIC_ACQ_REL) == 0 && !sml_mpi_has_world());
	return PMPI_Session_finalize(session);
}
#endif
