/* SPDX-License-Identifier: BSD-3-Clause */
/* Counting which way each all-reduce went, for SWITCHML_MPI_SUMMARY. */
#ifndef SML_MPI_SUMMARY_H
#define SML_MPI_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>

enum sml_mpi_way {
	SML_MPI_SWITCH,	   /* through the switch; all else through MPI, because: */
	SML_MPI_SMALL,	   /* below the threshold */
	SML_MPI_KIND,	   /* this type or operation isn't carried */
	SML_MPI_GROUP,	   /* an intercommunicator, one rank, or more than a job can have */
	SML_MPI_EARLY,	   /* MPI_Iallreduce before the communicator has a job */
	SML_MPI_NO_SWITCH, /* the switch could not be had */
	SML_MPI_WAYS
};

void sml_mpi_count(enum sml_mpi_way way, bool blocking, uint64_t bytes);
void sml_mpi_count_job(void);

/* One line to standard error, if SWITCHML_MPI_SUMMARY is 1. */
void sml_mpi_summary(void);

#endif
