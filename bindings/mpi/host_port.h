/* SPDX-License-Identifier: BSD-3-Clause */
/* The host of a rank, and the place where the rank could run its job's switch. */
#ifndef SML_MPI_HOST_PORT_H
#define SML_MPI_HOST_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
