/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives of MPI that this library intercepts, through MPI's profiling interface: a
 * program that calls MPI_Allreduce() gets this function, and PMPI_Allreduce() is MPI's own.
 *
 * Whether a call goes through the switch depends only on what is the same on all ranks of its
 * communicator: its type, operation and count, and what the ranks have agreed on.
 */
#include <limits.h>

#include "bindings/mpi/offload.h"

#define SML_EXPORT __attribute__((visibility("default")))

/* A call that may need a job. */
static void note(const struct sml_mpi_call *call, uint64_t bytes)
{
	struct sml_mpi_communicator *communicator = call->communicator;
	uint64_t *largest = sml_mpi_bytes_of(&communicator->largest, call->kind.type, call->kind.op,
					     call->collective != SML_MPI_ALLREDUCE);

	if (*largest < bytes) {
		*largest = bytes;
		communicator->has_news = true;
	}
}

static enum sml_mpi_way way_of(const struct sml_mpi_call *call, uint64_t bytes)
{
	struct sml_mpi_communicator *communicator = call->communicator;
	uint64_t from;

	if (communicator == NULL)
		return SML_MPI_GROUP;
	if (communicator->state == SML_MPI_LEFT)
		return communicator->why;
	if (communicator->state != SML_MPI_UNTRIED) {
		from = *sml_mpi_bytes_of(&communicator->from, call->kind.type, call->kind.op,
					 call->collective != SML_MPI_ALLREDUCE);
		if (bytes < from)
			return from == SML_MPI_NEVER ? SML_MPI_UNWORTHY : SML_MPI_SMALL;
	}
	/* Opening waits for all ranks, which a nonblocking call must not do. */
	return communicator->state == SML_MPI_OPEN ? SML_MPI_SWITCH : SML_MPI_EARLY;
}

/* True if the call goes through the switch. Then its communicator and its kind are set. */
static bool offloads(struct sml_mpi_call *call, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
		     bool blocking)
{
	bool fits = sml_mpi_kind_of(&call->kind, type, op);
	/* Of a reduce-scatter, a rank's part: the switch sends the whole vector to all ranks. */
	uint64_t bytes = fits ? call->count * sml_type_size(call->kind.type) : 0;
	enum sml_mpi_way way;

	call->communicator = sml_mpi_communicator_of(comm, fits);
	if (call->communicator && fits)
		note(call, bytes);
	if (call->communicator && blocking)
		sml_mpi_meet(call->communicator);
	way = fits ? way_of(call, bytes) : SML_MPI_KIND;
	if (call->collective == SML_MPI_ALLREDUCE)
		sml_mpi_count(way, blocking, bytes);
	else
		sml_mpi_count_other(call->collective, way == SML_MPI_SWITCH, bytes);
	return way == SML_MPI_SWITCH;
}

SML_EXPORT int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
			     MPI_Comm comm)
{
	struct sml_mpi_call call = {.send = send, .recv = recv, .count = (size_t)count};

	if (count >= 0 && offloads(&call, type, op, comm, true))
		return sml_mpi_offload(&call);
	return PMPI_Allreduce(send, recv, count, type, op, comm);
}

SML_EXPORT int MPI_Iallreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
			      MPI_Comm comm, MPI_Request *request)
{
	struct sml_mpi_call call = {.send = send, .recv = recv, .count = (size_t)count};

	sml_mpi_poll();
	if (count >= 0 && offloads(&call, type, op, comm, false))
		return sml_mpi_iallreduce(&call, request);
	return PMPI_Iallreduce(send, recv, count, type, op, comm, request);
}

/*
 * MPI may let ranks leave these calls before others have entered them, but no program may
 * rely on that. So they may wait for all ranks, as an all-reduce does.
 */
SML_EXPORT int MPI_Reduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
			  int root, MPI_Comm comm)
{
	struct sml_mpi_call call = {.collective = SML_MPI_REDUCE,
				    .send = send,
				    .recv = recv,
				    .count = (size_t)count,
				    .root = root};

	if (count >= 0 && root >= 0 && offloads(&call, type, op, comm, true) &&
	    root < call.communicator->size)
		return sml_mpi_offload(&call);
	return PMPI_Reduce(send, recv, count, type, op, root, comm);
}

SML_EXPORT int MPI_Reduce_scatter_block(const void *send, void *recv, int count, MPI_Datatype type,
					MPI_Op op, MPI_Comm comm)
{
	struct sml_mpi_call call = {.collective = SML_MPI_REDUCE_SCATTER,
				    .send = send,
				    .recv = recv,
				    .count = (size_t)count};

	if (count >= 0 && offloads(&call, type, op, comm, true))
		return sml_mpi_offload(&call);
	return PMPI_Reduce_scatter_block(send, recv, count, type, op, comm);
}

/*
 * A broadcast alone does not open a job: most programs make few large ones. Ranks may
 * describe the elements differently, so only the number of bytes decides.
 */
static bool offloads_bcast(struct sml_mpi_communicator *communicator, int count, MPI_Datatype type,
			   int root)
{
	int size = 0;
	bool offloaded;
	uint64_t bytes;

	if (communicator == NULL || count < 0 || root < 0 || root >= communicator->size ||
	    PMPI_Type_size(type, &size) != MPI_SUCCESS || size <= 0)
		return false;
	bytes = (uint64_t)count * (uint64_t)size;
	offloaded = communicator->state == SML_MPI_OPEN && bytes <= INT_MAX &&
		    bytes >= *sml_mpi_bytes_of(&communicator->from, SML_INT32, SML_SUM, false);
	sml_mpi_count_other(SML_MPI_BCAST, offloaded, bytes);
	return offloaded;
}

SML_EXPORT int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
	struct sml_mpi_communicator *communicator = sml_mpi_communicator_of(comm, false);

	if (offloads_bcast(communicator, count, type, root))
		return sml_mpi_offload_bcast(communicator, buffer, count, type, root);
	return PMPI_Bcast(buffer, count, type, root, comm);
}

#if MPI_VERSION >= 4
SML_EXPORT int MPI_Allreduce_c(const void *send, void *recv, MPI_Count count, MPI_Datatype type,
			       MPI_Op op, MPI_Comm comm)
{
	struct sml_mpi_call call = {.send = send, .recv = recv, .count = (size_t)count};

	if (count >= 0 && offloads(&call, type, op, comm, true))
		return sml_mpi_offload(&call);
	return PMPI_Allreduce_c(send, recv, count, type, op, comm);
}

SML_EXPORT int MPI_Iallreduce_c(const void *send, void *recv, MPI_Count count, MPI_Datatype type,
				MPI_Op op, MPI_Comm comm, MPI_Request *request)
{
	struct sml_mpi_call call = {.send = send, .recv = recv, .count = (size_t)count};

	sml_mpi_poll();
	if (count >= 0 && offloads(&call, type, op, comm, false))
		return sml_mpi_iallreduce(&call, request);
	return PMPI_Iallreduce_c(send, recv, count, type, op, comm, request);
}
#endif

/* ---- calls in which all ranks of a communicator meet anyway ---- */

static void meet(MPI_Comm comm)
{
	struct sml_mpi_communicator *communicator = sml_mpi_communicator_of(comm, false);

	if (communicator)
		sml_mpi_meet(communicator);
}

SML_EXPORT int MPI_Barrier(MPI_Comm comm)
{
	meet(comm);
	return PMPI_Barrier(comm);
}

SML_EXPORT int MPI_Allgather(const void *send, int send_count, MPI_Datatype send_type, void *recv,
			     int recv_count, MPI_Datatype recv_type, MPI_Comm comm)
{
	meet(comm);
	return PMPI_Allgather(send, send_count, send_type, recv, recv_count, recv_type, comm);
}
