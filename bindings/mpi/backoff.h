/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting inside an MPI call for something that is not MPI's. MPI must make progress in the
 * meantime: another rank may need this rank's part of a message before that rank reaches the
 * awaited call. So no code here blocks. It checks, lets MPI make progress, and rests a
 * little, with growing pauses.
 */
#ifndef SML_MPI_BACKOFF_H
#define SML_MPI_BACKOFF_H

#include <mpi.h>
#include <stdint.h>

struct sml_mpi_backoff {
	uint64_t begun_ns; /* 0 before the first rest */
};

/* Let MPI make progress. */
void sml_mpi_progress(void);

/* Yield the core: the switch's threads may have no core to themselves. */
void sml_mpi_back_off(struct sml_mpi_backoff *backoff);

/*
 * The communicator that sml_mpi_progress() probes: made from the first one in use, of which this is
 * `rank`, and freed before MPI, or a part of it, ends.
 */
void sml_mpi_progress_init(MPI_Comm comm, int rank);
void sml_mpi_progress_fini(void);

#endif
