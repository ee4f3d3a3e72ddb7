/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a rank is, and where it could have its job's switch. */
#ifndef SML_MPI_PLACE_H
#define SML_MPI_PLACE_H

#include <stddef.h>
#include <stdint.h>

/* The same for processes that reach each other by 127.0.0.1, and for no others. */
uint64_t sml_mpi_host(void);

/* What other hosts call this one. */
void sml_mpi_host_name(char *name, size_t bytes);

/*
 * A port, TCP and UDP, that nobody listens on: the first from `first` on, or
 * any if that is 0. Returns 0 if there is none.
 */
int sml_mpi_free_port(int first);

#endif
