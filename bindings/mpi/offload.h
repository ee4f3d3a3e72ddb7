/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that go through the switch. A blocking call waits here. A nonblocking call is
 * a generalized request, which is MPI's own handle. Every function of MPI accepts it, even
 * in arrays with other requests.
 *
 * The one invariant: only this code completes a generalized request, in a thread that is in
 * an MPI call anyway. So any thread level that the program has requested is enough.
 * Therefore, no call may block in MPI's own wait for such a request: the waiting calls
 * (completion.c) test, and call this code in between.
 */
#ifndef SML_MPI_OFFLOAD_H
#define SML_MPI_OFFLOAD_H

#include "bindings/mpi/communicator.h"

/*
 * ---- what the switch can offload of MPI (offloadable.c) ----
 *
 * The answer depends on type and operation alone. MPI requires that both are the same on all ranks,
 * so the answer is the same, too.
 */

struct sml_mpi_kind {
	enum sml_type type;
	enum sml_op op;
};

/*
 * The type that all elements have of which `type` consists. Byte: they differ, or the job has no
 * such type. MPI lets ranks build the same elements in different ways, so only elements count.
 */
enum sml_type sml_mpi_element_of(MPI_Datatype type);

/* False if MPI handles the call. The answer says nothing about its size or its communicator. */
bool sml_mpi_kind_of(struct sml_mpi_kind *kind, MPI_Datatype type, MPI_Op op);

/* ---- calls (offload.c) ---- */

struct sml_mpi_call {
	enum sml_mpi_collective collective;
	struct sml_mpi_communicator *communicator;
	struct sml_mpi_kind kind;
	const void *send; /* or MPI_IN_PLACE */
	void *recv;
	size_t count; /* as in MPI's call: of a reduce-scatter, of each rank's part */
	int root;
};

/* Wait for a call. Returns what MPI's call must return. */
int sml_mpi_offload(const struct sml_mpi_call *call);

/* The same, of MPI_Bcast(), whose ranks may describe the same elements by different types. */
int sml_mpi_offload_bcast(struct sml_mpi_communicator *communicator, void *buffer, int count,
			  MPI_Datatype type, int root);

/* Returns what MPI_Iallreduce() must return. */
int sml_mpi_iallreduce(const struct sml_mpi_call *call, MPI_Request *request);

/* Complete the requests whose calls have ended. Never waits. */
void sml_mpi_poll(void);

/* Is any call under way? */
bool sml_mpi_has_pending(void);

/*
 * Is any of these requests one of ours that is under way? Each such request remembers its
 * position in the array, for sml_mpi_failure().
 */
bool sml_mpi_are_pending(int n, const MPI_Request *requests);

/*
 * MPI_Request_free() of a request that is under way: forget the request when its call ends. False
 * if it is not such a request.
 */
bool sml_mpi_detach(MPI_Request request);

/*
 * Get the next failed call that this thread has completed: its position in the array that was
 * passed, MPI's error, and its communicator, which the caller must release. False if there is none.
 */
bool sml_mpi_failure(int *position, int *error, struct sml_mpi_communicator **communicator);

/* For requests that were checked but not completed (MPI_Request_get_status()). */
void sml_mpi_forget_failures(void);

#endif
