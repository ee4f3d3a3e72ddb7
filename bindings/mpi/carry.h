/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces on their way through the switch. A blocking one waits here. A
 * nonblocking one is a generalized request: MPI's own handle, which every
 * function of MPI understands, in arrays with others, too.
 *
 * The one invariant: a generalized request is completed only here, by a thread
 * that is in a call of MPI anyway. So whatever thread level the program has asked
 * for is enough. Hence nobody may block in MPI's own wait for such a request:
 * those calls (completion.c) test, and look here in between.
 */
#ifndef SML_MPI_CARRY_H
#define SML_MPI_CARRY_H

#include "bindings/mpi/carried.h"
#include "bindings/mpi/communicator.h"

struct sml_mpi_call {
	struct sml_mpi_communicator *communicator;
	struct sml_mpi_kind kind;
	const void *send; /* or MPI_IN_PLACE */
	void *recv;
	size_t count;
};

/* What MPI_Allreduce() must return. */
int sml_mpi_allreduce(const struct sml_mpi_call *call);

/* What MPI_Iallreduce() must return. */
int sml_mpi_iallreduce(const struct sml_mpi_call *call, MPI_Request *request);

/* Complete the requests whose calls have ended. Never waits. */
void sml_mpi_poll(void);

/* Whether any call is under way. */
bool sml_mpi_has_pending(void);

/*
 * Whether any of these is under way. Each such remembers its place in the array,
 * for sml_mpi_failure().
 */
bool sml_mpi_are_pending(int n, const MPI_Request *requests);

/*
 * MPI_Request_free() of one that is under way: it is forgotten when its call ends.
 * False: it isn't one.
 */
bool sml_mpi_detach(MPI_Request request);

/*
 * The next call that this thread has completed and that has failed: its place
 * in the array that was asked about, MPI's error, and its communicator, to be
 * released. False: there is none.
 */
bool sml_mpi_failure(int *place, int *error, struct sml_mpi_communicator **communicator);

/* Those that were looked at and not completed (MPI_Request_get_status()). */
void sml_mpi_forget_failures(void);

#endif
