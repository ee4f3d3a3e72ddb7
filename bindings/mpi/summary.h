/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts how each call was sent, for SWITCHML_SUMMARY=all. */
#ifndef SML_MPI_SUMMARY_H
#define SML_MPI_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>

enum sml_mpi_way {
	SML_MPI_SWITCH,	   /* through the switch; the rest goes through MPI, because: */
	SML_MPI_SMALL,	   /* below the threshold */
	SML_MPI_UNWORTHY,  /* a switch gains nothing here, whatever the size */
	SML_MPI_KIND,	   /* the switch does not offload this type or operation */
	SML_MPI_GROUP,	   /* an intercommunicator, one rank, or more ranks than a job can have */
	SML_MPI_EARLY,	   /* MPI_Iallreduce before the communicator had a job */
	SML_MPI_NO_SWITCH, /* no switch was available */
	SML_MPI_WAYS
};

enum sml_mpi_collective {
	SML_MPI_ALLREDUCE,
	SML_MPI_REDUCE,
	SML_MPI_REDUCE_SCATTER,
	SML_MPI_BCAST,
	SML_MPI_COLLECTIVES
};

/* An all-reduce. */
void sml_mpi_count(enum sml_mpi_way way, bool blocking, uint64_t bytes);
/* Another call that the switch could offload. */
void sml_mpi_count_other(enum sml_mpi_collective collective, bool offloaded, uint64_t bytes);
void sml_mpi_count_job(void);

/* Calls that MPI got, of those that the switch has, on all communicators. */
uint64_t sml_mpi_count_left(void);

/*
 * Print to standard error where the calls went, if SWITCHML_SUMMARY is all. And rank 0 prints a
 * line if a switch is named and got none of the program's all-reduces.
 */
void sml_mpi_summary(void);

#endif
