/* SPDX-License-Identifier: BSD-3-Clause */
/* How the ranks of a communicator get a job, or agree to work without one. */
#ifndef SML_MPI_START_H
#define SML_MPI_START_H

#include "bindings/mpi/communicator.h"

/*
 * Called first in each blocking collective that cannot end before all ranks of the
 * communicator have begun it. So waiting for all ranks changes nothing, and every rank gets
 * here in the same call. Opens the job if the communicator has had an all-reduce that is
 * large enough.
 */
void sml_mpi_meet(struct sml_mpi_communicator *communicator);

#endif
