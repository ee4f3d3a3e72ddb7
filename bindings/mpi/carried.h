/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the switch can carry of MPI, by type and operation alone: MPI demands
 * that they are the same on all ranks, so the answer is.
 */
#ifndef SML_MPI_CARRIED_H
#define SML_MPI_CARRIED_H

#include <mpi.h>
#include <stdbool.h>

#include "switchml.h"

struct sml_mpi_kind {
	enum sml_type type;
	enum sml_op op;
};

/* False: the call is MPI's. Nothing is said about its size or its communicator. */
bool sml_mpi_kind_of(struct sml_mpi_kind *kind, MPI_Datatype type, MPI_Op op);

#endif
