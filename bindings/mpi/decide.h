/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The decision that rank 0 of a communicator makes for all: the size from which calls use
 * the switch.
 */
#ifndef SML_MPI_DECIDE_H
#define SML_MPI_DECIDE_H

#include <mpi.h>

#include "bindings/mpi/threshold.h"

/*
 * Uses rank 0's SWITCHML_MPI_THRESHOLD, or otherwise where a switch gains. All ranks (at most
 * SML_MPI_MAX_RANKS) must call this. False on every rank: the setting is invalid, and rank 0 has
 * reported it.
 */
bool sml_mpi_decide(MPI_Comm comm, int rank, int size, struct sml_mpi_bytes *from);

#endif
