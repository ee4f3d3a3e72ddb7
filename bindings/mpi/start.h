/* SPDX-License-Identifier: BSD-3-Clause */
/* How the ranks of a communicator come to have a job, or agree to do without. */
#ifndef SML_MPI_START_H
#define SML_MPI_START_H

#include "bindings/mpi/communicator.h"

/*
 * Called first in blocking collectives of the communicator that cannot end
 * before all ranks have begun them: so waiting for all is nothing new, and every
 * rank comes here in the same call. Opens the job if the communicator has had an
 * all-reduce that is large enough.
 */
void sml_mpi_meet(struct sml_mpi_communicator *communicator);

#endif
