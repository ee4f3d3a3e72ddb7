/* SPDX-License-Identifier: BSD-3-Clause */
/* How the ranks of a communicator get a job, or agree to work without one. */
#ifndef SML_MPI_START_H
#define SML_MPI_START_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bindings/mpi/communicator.h"
#include "bindings/mpi/threshold.h"

/*
 * Called first in each blocking collective that cannot end before all ranks of the
 * communicator have begun it. So waiting for all ranks changes nothing, and every rank gets
 * here in the same call. Opens the job if the communicator has had an all-reduce that is
 * large enough.
 */
void sml_mpi_meet(struct sml_mpi_communicator *communicator);

/* ---- rank 0 decides for all from which size calls use the switch (decide.c) ---- */

/*
 * Uses rank 0's SWITCHML_MPI_THRESHOLD, or otherwise where a switch gains. All ranks (at most
 * SML_MPI_MAX_RANKS) must call this. False on every rank: the setting is invalid, and rank 0 has
 * reported it.
 */
bool sml_mpi_decide(MPI_Comm comm, int rank, int size, struct sml_mpi_bytes *from);

/* ---- the host of a rank, and where the rank could run its job's switch (host_port.c) ---- */

/* Equal for processes that reach each other by 127.0.0.1, and different for all others. */
uint64_t sml_mpi_host(void);

/* The name of this host for other hosts. */
void sml_mpi_host_name(char *name, size_t bytes);

/* The ports to search, first to last. */
struct sml_mpi_ports {
	int first, last;
	bool random; /* begin anywhere, so that jobs that begin at once find different ports */
};

/* A TCP port without a listener. 0 if there is none. */
int sml_mpi_free_port(const struct sml_mpi_ports *ports);

#endif
