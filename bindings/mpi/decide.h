/* SPDX-License-Identifier: BSD-3-Clause */
/* What a communicator's rank 0 decides for all: from how many bytes on calls use the switch. */
#ifndef SML_MPI_DECIDE_H
#define SML_MPI_DECIDE_H

#include <mpi.h>

#include "bindings/mpi/table.h"

/*
 * SWITCHML_MPI_THRESHOLD, or else SWITCHML_MPI_TABLE over the default table, of rank 0.
 * Every rank calls it, of at most SML_MAX_WORLD_SIZE. False on every rank: what was set
 * makes no sense, and rank 0 has said so.
 */
bool sml_mpi_decide(MPI_Comm comm, int rank, int size, struct sml_mpi_bytes *from);

/* Where the ranks are. Every rank calls it, and rank 0 gets the answer. */
bool sml_mpi_site_of(MPI_Comm comm, int rank, int size, struct sml_mpi_site *site);

#endif
