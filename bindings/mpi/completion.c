/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI's calls that complete requests. If none of our requests is among them, they call MPI
 * directly. Otherwise, a wait becomes a loop that tests: only this library completes its
 * requests, so MPI's own wait would never end.
 */
#include "bindings/mpi/offload.h"

#define SML_EXPORT __attribute__((visibility("default")))

/* Make progress with our requests before the caller checks again. */
static void between(struct sml_mpi_backoff *backoff)
{
	sml_mpi_back_off(backoff);
	sml_mpi_poll();
}

/* The result of a call that completes at most one request. */
static int one(int error)
{
	struct sml_mpi_communicator *communicator;
	int position, code;

	while (sml_mpi_failure(&position, &code, &communicator)) {
		error = sml_mpi_raise(communicator, code);
		sml_mpi_communicator_release(communicator);
	}
	return error;
}

/* The result of a call that completes several: n statuses, of the requests at these indices. */
static int several(int error, int n, const int *indices, MPI_Status *statuses)
{
	struct sml_mpi_communicator *communicator;
	int position, code, j;

	while (sml_mpi_failure(&position, &code, &communicator)) {
		if (statuses != MPI_STATUSES_IGNORE) {
			for (j = 0; j < n && error == MPI_SUCCESS; j++)
				statuses[j].MPI_ERROR = MPI_SUCCESS;
			for (j = 0; j < n && (indices ? indices[j] : j) != position; j++)
				;
			if (j < n)
				statuses[j].MPI_ERROR = code;
		}
		sml_mpi_raise(communicator, code);
		sml_mpi_communicator_release(communicator);
		error = MPI_ERR_IN_STATUS;
	}
	return error;
}

/* ---- one ---- */

SML_EXPORT int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
	struct sml_mpi_backoff backoff = {0};
	int done = 0, error;

	if (!sml_mpi_are_pending(1, request))
		return one(PMPI_Wait(request, status));
	sml_mpi_poll();
	while ((error = PMPI_Test(request, &done, status)) == MPI_SUCCESS && !done)
		between(&backoff);
	return one(error);
}

SML_EXPORT int MPI_Test(MPI_Request *request, int *done, MPI_Status *status)
{
	int error;

	sml_mpi_poll();
	error = PMPI_Test(request, done, status);
	return one(error);
}

SML_EXPORT int MPI_Waitany(int n, MPI_Request requests[], int *index, MPI_Status *status)
{
	struct sml_mpi_backoff backoff = {0};
	int done = 0, error;

	if (!sml_mpi_are_pending(n, requests)) {
		error = PMPI_Waitany(n, requests, index, status);
		return one(error);
	}
	sml_mpi_poll();
	while ((error = PMPI_Testany(n, requests, index, &done, status)) == MPI_SUCCESS && !done)
		between(&backoff);
	return one(error);
}

SML_EXPORT int MPI_Testany(int n, MPI_Request requests[], int *index, int *done, MPI_Status *status)
{
	int error;

	sml_mpi_poll();
	error = PMPI_Testany(n, requests, index, done, status);
	return one(error);
}

SML_EXPORT int MPI_Request_get_status(MPI_Request request, int *done, MPI_Status *status)
{
	int error;

	sml_mpi_poll();
	error = PMPI_Request_get_status(request, done, status);
	sml_mpi_forget_failures();
	return error;
}

SML_EXPORT int MPI_Request_free(MPI_Request *request)
{
	if (request == NULL || !sml_mpi_has_pending() || !sml_mpi_detach(*request))
		return PMPI_Request_free(request);
	*request = MPI_REQUEST_NULL;
	return MPI_SUCCESS;
}

/* ---- several ---- */

SML_EXPORT int MPI_Waitall(int n, MPI_Request requests[], MPI_Status statuses[])
{
	struct sml_mpi_backoff backoff = {0};
	int done = 0, error;

	if (!sml_mpi_are_pending(n, requests))
		return several(PMPI_Waitall(n, requests, statuses), n, NULL, statuses);
	sml_mpi_poll();
	while ((error = PMPI_Testall(n, requests, &done, statuses)) == MPI_SUCCESS && !done)
		between(&backoff);
	return several(error, n, NULL, statuses);
}

SML_EXPORT int MPI_Testall(int n, MPI_Request requests[], int *done, MPI_Status statuses[])
{
	int error;

	sml_mpi_are_pending(n, requests);
	sml_mpi_poll();
	error = PMPI_Testall(n, requests, done, statuses);
	return several(error, *done ? n : 0, NULL, statuses);
}

SML_EXPORT int MPI_Waitsome(int n, MPI_Request requests[], int *n_done, int indices[],
			    MPI_Status statuses[])
{
	struct sml_mpi_backoff backoff = {0};
	int error;

	if (!sml_mpi_are_pending(n, requests)) {
		error = PMPI_Waitsome(n, requests, n_done, indices, statuses);
		return several(error, *n_done == MPI_UNDEFINED ? 0 : *n_done, indices, statuses);
	}
	sml_mpi_poll();
	while ((error = PMPI_Testsome(n, requests, n_done, indices, statuses)) == MPI_SUCCESS &&
	       *n_done == 0)
		between(&backoff);
	return several(error, *n_done == MPI_UNDEFINED ? 0 : *n_done, indices, statuses);
}

SML_EXPORT int MPI_Testsome(int n, MPI_Request requests[], int *n_done, int indices[],
			    MPI_Status statuses[])
{
	int error;

	sml_mpi_are_pending(n, requests);
	sml_mpi_poll();
	error = PMPI_Testsome(n, requests, n_done, indices, statuses);
	return several(error, *n_done == MPI_UNDEFINED ? 0 : *n_done, indices, statuses);
}
