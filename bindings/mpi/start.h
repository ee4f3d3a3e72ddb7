/* SPDX-License-Identifier: BSD-3-Clause */
/* How the ranks of a communicator come to have a job, or agree to do without. */
#ifndef SML_MPI_START_H
#define SML_MPI_START_H

#include "bindings/mpi/communicator.h"

/*
 * Called first in blocking collectives of the communicator that cannot end
 * before all ranks have begun them: so waiting for all is nothing new, and every
 * rank comes here in the same call. `bytes` are those of an all-reduce that the
 * switch can carry, or 0. Opens the job if that or an earlier one is large enough.
 */
void sml_mpi_meet(struct sml_mpi_communicator *communicator, uint64_t bytes);

#endif
