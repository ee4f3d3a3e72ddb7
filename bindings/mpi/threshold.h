/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The size from which a call goes through the switch. This code does not use MPI.
 *
 * A program's user names one size for all calls. Otherwise it is SML_MPI_THRESHOLD, for the calls
 * that a dedicated switch speeds up.
 */
#ifndef SML_MPI_THRESHOLD_H
#define SML_MPI_THRESHOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "switchml.h"

/* Of a communicator. Larger ones would need a tree of switches, and are left to MPI. */
#define SML_MPI_MAX_RANKS 64

#define SML_MPI_THRESHOLD ((uint64_t)256 << 10)
#define SML_MPI_NEVER	  UINT64_MAX

/* Where the ranks of a communicator and their switch are. */
struct sml_mpi_site {
	bool embedded; /* the ranks have the switch */
	bool apart;    /* each rank has a host to itself */
	int ranks;
};

/* What a size holds for: all-reduces that sum, all of MAX and MIN, and other calls that sum. */
enum sml_mpi_sizes { SML_MPI_SUM, SML_MPI_MAX, SML_MPI_SUM_IN_PARTS, SML_MPI_SIZES };

/* Bytes. */
struct sml_mpi_bytes {
	uint64_t of[SML_TYPES][SML_MPI_SIZES];
};

/* in_parts: of MPI_Reduce and MPI_Reduce_scatter_block. */
static inline uint64_t *sml_mpi_bytes_of(struct sml_mpi_bytes *bytes, enum sml_type type,
					 enum sml_op op, bool in_parts)
{
	enum sml_mpi_sizes size = op == SML_MAX || op == SML_MIN ? SML_MPI_MAX
				  : in_parts			 ? SML_MPI_SUM_IN_PARTS
								 : SML_MPI_SUM;

	return &bytes->of[type][size];
}

/* Use the same value for every type and operation. */
void sml_mpi_bytes_fill(struct sml_mpi_bytes *bytes, uint64_t value);

/* SML_MPI_THRESHOLD for what a switch speeds up at this site, and SML_MPI_NEVER for the rest. */
void sml_mpi_bytes_gaining(struct sml_mpi_bytes *bytes, const struct sml_mpi_site *site);

/* "65536" or "64K": at least 1, and less than 2^62. */
bool sml_mpi_parse_bytes(const char *text, uint64_t *bytes);

#endif
