/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting inside an MPI call for something that is not MPI's. MPI must go on
 * meanwhile: another rank may need this one's part of a message to get as far
 * as the call that is waited for. So nobody here ever blocks: one looks, lets
 * MPI move, and rests a little, longer the longer it takes.
 */
#ifndef SML_MPI_PATIENCE_H
#define SML_MPI_PATIENCE_H

#include <stdint.h>

struct sml_mpi_patience {
	uint64_t begun_ns; /* 0: at the first rest */
};

/* Let MPI move what it can move. */
void sml_mpi_progress(void);

/* Leave the core to others: the switch's threads may have none of their own. */
void sml_mpi_rest(struct sml_mpi_patience *patience);

/* The communicator that sml_mpi_progress() looks at: made at first use, freed before MPI ends. */
void sml_mpi_progress_init(void);
void sml_mpi_progress_fini(void);

#endif
