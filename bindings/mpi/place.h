/* SPDX-License-Identifier: BSD-3-Clause */
/* The host of a rank, and the place where the rank could run its job's switch. */
#ifndef SML_MPI_PLACE_H
#define SML_MPI_PLACE_H

#include <stddef.h>
#include <stdint.h>

/* Equal for processes that reach each other by 127.0.0.1, and different for all others. */
uint64_t sml_mpi_host(void);

/* The name of this host for other hosts. */
void sml_mpi_host_name(char *name, size_t bytes);

/*
 * A port without a listener for TCP and UDP: the first one from `first` on, or any port if
 * `first` is 0. Returns 0 if there is none.
 */
int sml_mpi_free_port(int first);

#endif
