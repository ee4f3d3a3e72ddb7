/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Persistent all-reduces: MPI_Allreduce_init() of MPI 4, MPIX_Allreduce_init() of Open MPI 4.
 *
 *	init ---> inactive ---MPI_Start---> active ---the call ends, and a wait delivers it---+
 *	             ^                                                                        |
 *	             +------------------------------------------------------------------------+
 *
 * The program's handle is a persistent receive of MPI's own, from this rank to itself. It
 * starts with the call, and the message is sent when the call has ended. So all calls that
 * complete requests treat it as MPI requires.
 *
 * Ranks may start their requests in different orders, but a job needs one order of calls.
 * So every persistent request has its own job.
 */
#ifndef SML_MPI_PERSISTENT_H
#define SML_MPI_PERSISTENT_H

#include "bindings/mpi/offload.h"

/* Of each communicator, the first requests are offloaded: each costs threads, and slots. */
#define SML_MPI_PERSISTENT_MAX 8

/*
 * Make a request for the call; all ranks must do this. False if the call has no job, or this rank
 * has no memory, and then MPI's own request must be made. *error is MPI's.
 */
bool sml_mpi_persistent_init(const struct sml_mpi_call *call, MPI_Request *request);

/*
 * MPI_Start() and MPI_Request_free(), with their result in *error. False if it is not our request.
 */
bool sml_mpi_persistent_start(MPI_Request request, int *error);
bool sml_mpi_persistent_free(MPI_Request request, int *error);

/* Is any of these requests ours? */
bool sml_mpi_persistent_has(int n, const MPI_Request *requests);

/* As sml_mpi_poll(), sml_mpi_has_pending() and sml_mpi_are_pending(). */
void sml_mpi_persistent_poll(void);
bool sml_mpi_persistent_is_active(void);
bool sml_mpi_persistent_are_active(int n, const MPI_Request *requests);

/*
 * MPI has delivered these n requests: those at these indices of an array, or, with NULL, the
 * first ones. Passes the errors of ours on (sml_mpi_failure()).
 */
void sml_mpi_persistent_deliver(int n, const int *indices, const MPI_Request *requests);

/* Before MPI ends. */
void sml_mpi_persistent_fini(void);

#endif
