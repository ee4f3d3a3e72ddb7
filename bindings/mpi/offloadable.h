/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the switch can offload of MPI. The answer depends on type and operation alone. MPI
 * requires that both are the same on all ranks, so the answer is the same, too.
 */
#ifndef SML_MPI_OFFLOADED_H
#define SML_MPI_OFFLOADED_H

#include <mpi.h>
#include <stdbool.h>

#include "switchml.h"

struct sml_mpi_kind {
	enum sml_type type;
	enum sml_op op;
};

/*
 * The type that all elements have of which `type` consists. Byte: they differ, or the job has no
 * such type. MPI lets ranks build the same elements in different ways, so only elements count.
 */
enum sml_type sml_mpi_element_of(MPI_Datatype type);

/* False if MPI handles the call. The answer says nothing about its size or its communicator. */
bool sml_mpi_kind_of(struct sml_mpi_kind *kind, MPI_Datatype type, MPI_Op op);

#endif
