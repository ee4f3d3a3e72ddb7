/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fortran programs under Open MPI, whose Fortran calls do not go through its C calls.
 * (MPICH's do.) Each call here has the names that Fortran compilers use, and the names that
 * the module mpi_f08 calls or has. It makes the C call of this library.
 *
 * The one invariant: the calls here are those of collectives.c and completion.c, all of them.
 * A rank in Fortran and a rank in C therefore send the same call the same way.
 */
#include <mpi.h>

#ifdef OPEN_MPI

#include <stdbool.h>
#include <stdlib.h>

#define SML_EXPORT __attribute__((visibility("default")))

/* The types of mpi_f08 have the layout of mpif.h's integers, so its procedures are aliases, too. */
#define PROCEDURE(lower, UPPER, arguments)                                                         \
	SML_EXPORT void ompi_##lower##_f arguments;                                                \
	SML_EXPORT void mpi_##lower arguments __attribute__((alias("ompi_" #lower "_f")));         \
	SML_EXPORT void mpi_##lower##_ arguments __attribute__((alias("ompi_" #lower "_f")));      \
	SML_EXPORT void mpi_##lower##__ arguments __attribute__((alias("ompi_" #lower "_f")));     \
	SML_EXPORT void mpi_##lower##_f08_ arguments __attribute__((alias("ompi_" #lower "_f")));  \
	SML_EXPORT void MPI_##UPPER arguments __attribute__((alias("ompi_" #lower "_f")));         \
	void ompi_##lower##_f arguments

/* Fortran's constants are addresses. A C program has none of them. */
extern int mpi_fortran_in_place_ __attribute__((weak));
extern int mpi_fortran_bottom_ __attribute__((weak));
extern int mpi_fortran_status_ignore_ __attribute__((weak));
extern int mpi_fortran_statuses_ignore_ __attribute__((weak));

static void *buffer_of(void *buffer)
{
	if (buffer != NULL && buffer == (void *)&mpi_fortran_in_place_)
		return MPI_IN_PLACE;
	if (buffer != NULL && buffer == (void *)&mpi_fortran_bottom_)
		return MPI_BOTTOM;
	return buffer;
}

static bool is_ignored(const MPI_Fint *status)
{
	return status == NULL || status == &mpi_fortran_status_ignore_ ||
	       status == &mpi_fortran_statuses_ignore_;
}

static void set_error(MPI_Fint *error, int value)
{
	if (error)
		*error = value;
}

/* ---- collectives ---- */

PROCEDURE(allreduce, ALLREDUCE,
	  (void *send, void *recv, const MPI_Fint *count, const MPI_Fint *type, const MPI_Fint *op,
	   const MPI_Fint *comm, MPI_Fint *error))
{
	set_error(error,
		  MPI_Allreduce(buffer_of(send), buffer_of(recv), *count, PMPI_Type_f2c(*type),
				PMPI_Op_f2c(*op), PMPI_Comm_f2c(*comm)));
}

PROCEDURE(iallreduce, IALLREDUCE,
	  (void *send, void *recv, const MPI_Fint *count, const MPI_Fint *type, const MPI_Fint *op,
	   const MPI_Fint *comm, MPI_Fint *request, MPI_Fint *error))
{
	MPI_Request made;
	int result = MPI_Iallreduce(buffer_of(send), buffer_of(recv), *count, PMPI_Type_f2c(*type),
				    PMPI_Op_f2c(*op), PMPI_Comm_f2c(*comm), &made);

	/* NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker): Fortran code waits for the request. */
	if (result == MPI_SUCCESS)
		*request = PMPI_Request_c2f(made);
	set_error(error, result);
	/* NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker) */
}

PROCEDURE(reduce, REDUCE,
	  (void *send, void *recv, const MPI_Fint *count, const MPI_Fint *type, const MPI_Fint *op,
	   const MPI_Fint *root, const MPI_Fint *comm, MPI_Fint *error))
{
	set_error(error, MPI_Reduce(buffer_of(send), buffer_of(recv), *count, PMPI_Type_f2c(*type),
				    PMPI_Op_f2c(*op), *root, PMPI_Comm_f2c(*comm)));
}

PROCEDURE(reduce_scatter_block, REDUCE_SCATTER_BLOCK,
	  (void *send, void *recv, const MPI_Fint *count, const MPI_Fint *type, const MPI_Fint *op,
	   const MPI_Fint *comm, MPI_Fint *error))
{
	set_error(error, MPI_Reduce_scatter_block(buffer_of(send), buffer_of(recv), *count,
						  PMPI_Type_f2c(*type), PMPI_Op_f2c(*op),
						  PMPI_Comm_f2c(*comm)));
}

PROCEDURE(bcast, BCAST,
	  (void *buffer, const MPI_Fint *count, const MPI_Fint *type, const MPI_Fint *root,
	   const MPI_Fint *comm, MPI_Fint *error))
{
	set_error(error, MPI_Bcast(buffer_of(buffer), *count, PMPI_Type_f2c(*type), *root,
				   PMPI_Comm_f2c(*comm)));
}

PROCEDURE(barrier, BARRIER, (const MPI_Fint *comm, MPI_Fint *error))
{
	set_error(error, MPI_Barrier(PMPI_Comm_f2c(*comm)));
}

PROCEDURE(allgather, ALLGATHER,
	  (void *send, const MPI_Fint *send_count, const MPI_Fint *send_type, void *recv,
	   const MPI_Fint *recv_count, const MPI_Fint *recv_type, const MPI_Fint *comm,
	   MPI_Fint *error))
{
	set_error(error, MPI_Allgather(buffer_of(send), *send_count, PMPI_Type_f2c(*send_type),
				       buffer_of(recv), *recv_count, PMPI_Type_f2c(*recv_type),
				       PMPI_Comm_f2c(*comm)));
}

/* ---- calls that complete one request, or look at it ---- */

static void put_status(MPI_Fint *to, const MPI_Status *status, int result)
{
	if (result == MPI_SUCCESS && !is_ignored(to))
		PMPI_Status_c2f(status, to);
}

PROCEDURE(wait, WAIT, (MPI_Fint * request, MPI_Fint *status, MPI_Fint *error))
{
	MPI_Request c_request = PMPI_Request_f2c(*request);
	MPI_Status c_status;
	/* NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker): Fortran code began the call. */
	int result = MPI_Wait(&c_request, &c_status);

	if (result == MPI_SUCCESS)
		*request = PMPI_Request_c2f(c_request);
	put_status(status, &c_status, result);
	set_error(error, result);
}

PROCEDURE(test, TEST, (MPI_Fint * request, MPI_Fint *done, MPI_Fint *status, MPI_Fint *error))
{
	MPI_Request c_request = PMPI_Request_f2c(*request);
	MPI_Status c_status;
	int is_done = 0, result = MPI_Test(&c_request, &is_done, &c_status);

	*done = is_done;
	if (is_done) {
		if (result == MPI_SUCCESS)
			*request = PMPI_Request_c2f(c_request);
		put_status(status, &c_status, result);
	}
	set_error(error, result);
}

PROCEDURE(request_free, REQUEST_FREE, (MPI_Fint * request, MPI_Fint *error))
{
	MPI_Request c_request = PMPI_Request_f2c(*request);
	int result = MPI_Request_free(&c_request);

	if (result == MPI_SUCCESS)
		*request = PMPI_Request_c2f(MPI_REQUEST_NULL);
	set_error(error, result);
}

PROCEDURE(request_get_status, REQUEST_GET_STATUS,
	  (const MPI_Fint *request, MPI_Fint *done, MPI_Fint *status, MPI_Fint *error))
{
	MPI_Status c_status;
	int is_done = 0,
	    result = MPI_Request_get_status(PMPI_Request_f2c(*request), &is_done, &c_status);

	*done = is_done;
	if (is_done)
		put_status(status, &c_status, result);
	set_error(error, result);
}

/* ---- calls that complete several ---- */

/* An array of requests in C, and of what is known of those that are done. */
struct array {
	int n;
	MPI_Request *requests;
	MPI_Status *statuses;
};

static bool make_array(struct array *array, const MPI_Fint *n, const MPI_Fint *requests,
		       MPI_Fint *error)
{
	size_t room = *n > 0 ? (size_t)*n : 1;

	array->n = *n;
	array->requests = malloc(room * sizeof(MPI_Request));
	array->statuses = malloc(room * sizeof(*array->statuses));
	if (array->requests == NULL || array->statuses == NULL) {
		free(array->requests);
		free(array->statuses);
		set_error(error, MPI_ERR_NO_MEM);
		return false;
	}
	for (int i = 0; i < *n; i++)
		array->requests[i] = PMPI_Request_f2c(requests[i]);
	return true;
}

/* Copy what has changed back: n_done statuses, or one. */
static void give_back(struct array *array, MPI_Fint *requests, MPI_Fint *statuses, int n_done)
{
	/* A status has as many integers in Fortran as one in C has bytes / 4. */
	const size_t length = sizeof(MPI_Status) / sizeof(MPI_Fint);

	for (int i = 0; i < array->n; i++)
		if (array->requests[i] == MPI_REQUEST_NULL)
			requests[i] = PMPI_Request_c2f(MPI_REQUEST_NULL);
	if (!is_ignored(statuses))
		for (int i = 0; i < n_done; i++)
			PMPI_Status_c2f(&array->statuses[i], statuses + (size_t)i * length);
	free(array->requests);
	free(array->statuses);
}

static bool has_statuses(int result)
{
	return result == MPI_SUCCESS || result == MPI_ERR_IN_STATUS;
}

/* Fortran counts from 1. */
static MPI_Fint index_of(int index)
{
	return index == MPI_UNDEFINED ? index : index + 1;
}

PROCEDURE(waitany, WAITANY,
	  (const MPI_Fint *n, MPI_Fint *requests, MPI_Fint *index, MPI_Fint *status,
	   MPI_Fint *error))
{
	struct array array;
	int at = MPI_UNDEFINED, result;

	if (!make_array(&array, n, requests, error))
		return;
	result = MPI_Waitany(array.n, array.requests, &at, array.statuses);
	*index = index_of(at);
	give_back(&array, requests, status, result == MPI_SUCCESS);
	set_error(error, result);
}

PROCEDURE(testany, TESTANY,
	  (const MPI_Fint *n, MPI_Fint *requests, MPI_Fint *index, MPI_Fint *done, MPI_Fint *status,
	   MPI_Fint *error))
{
	struct array array;
	int at = MPI_UNDEFINED, is_done = 0, result;

	if (!make_array(&array, n, requests, error))
		return;
	result = MPI_Testany(array.n, array.requests, &at, &is_done, array.statuses);
	*index = index_of(at);
	*done = is_done;
	give_back(&array, requests, status, result == MPI_SUCCESS && is_done);
	set_error(error, result);
}

PROCEDURE(waitall, WAITALL,
	  (const MPI_Fint *n, MPI_Fint *requests, MPI_Fint *statuses, MPI_Fint *error))
{
	struct array array;
	int result;

	if (!make_array(&array, n, requests, error))
		return;
	result = MPI_Waitall(array.n, array.requests, array.statuses);
	give_back(&array, requests, statuses, has_statuses(result) ? array.n : 0);
	set_error(error, result);
}

PROCEDURE(testall, TESTALL,
	  (const MPI_Fint *n, MPI_Fint *requests, MPI_Fint *done, MPI_Fint *statuses,
	   MPI_Fint *error))
{
	struct array array;
	int is_done = 0, result;

	if (!make_array(&array, n, requests, error))
		return;
	result = MPI_Testall(array.n, array.requests, &is_done, array.statuses);
	*done = is_done;
	give_back(&array, requests, statuses, has_statuses(result) && is_done ? array.n : 0);
	set_error(error, result);
}

typedef int some_call(int n, MPI_Request *requests, int *n_done, int *indices,
		      MPI_Status *statuses);

static void some(some_call *call, const MPI_Fint *n, MPI_Fint *requests, MPI_Fint *n_done,
		 MPI_Fint *indices, MPI_Fint *statuses, MPI_Fint *error)
{
	struct array array;
	int found = 0, result;

	if (!make_array(&array, n, requests, error))
		return;
	result = call(array.n, array.requests, &found, indices, array.statuses);
	*n_done = found;
	if (found == MPI_UNDEFINED || !has_statuses(result))
		found = 0;
	for (int i = 0; i < found; i++)
		indices[i] = index_of(indices[i]);
	give_back(&array, requests, statuses, found);
	set_error(error, result);
}

PROCEDURE(waitsome, WAITSOME,
	  (const MPI_Fint *n, MPI_Fint *requests, MPI_Fint *n_done, MPI_Fint *indices,
	   MPI_Fint *statuses, MPI_Fint *error))
{
	some(MPI_Waitsome, n, requests, n_done, indices, statuses, error);
}

PROCEDURE(testsome, TESTSOME,
	  (const MPI_Fint *n, MPI_Fint *requests, MPI_Fint *n_done, MPI_Fint *indices,
	   MPI_Fint *statuses, MPI_Fint *error))
{
	some(MPI_Testsome, n, requests, n_done, indices, statuses, error);
}

PROCEDURE(finalize, FINALIZE, (MPI_Fint * error))
{
	set_error(error, MPI_Finalize());
}
#endif
