/* SPDX-License-Identifier: BSD-3-Clause */
#include "bindings/mpi/carry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bindings/mpi/patience.h"

/* A call of the job, and its buffers. MPI requires no alignment of buffers, but the job does. */
struct carriage {
	struct sml_mpi_communicator *communicator;
	struct sml_request *request;
	void *aligned, *recv; /* aligned: NULL, or the buffer whose content is copied to recv */
	size_t bytes;
};

struct pending {
	struct carriage carriage;
	MPI_Request request;
	bool detached; /* nobody waits for the call */
	int place;     /* position in the array of the call that waits for it */
	int error;     /* MPI's code for the job's error */
	bool noted;    /* it is in some thread's list of failures */
	struct pending *next, *next_ended, *next_failure;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Under the lock: calls under way, and failed calls whose request still exists. */
static struct pending *all, *failed;
static int n_pending, n_failed; /* atomic */
/* Failures of the completing call that this thread executes. */
static _Thread_local struct pending *failures;

/* ---- one call of the job ---- */

/* One rank's mistake, or its lack of memory: the other ranks must not wait for this rank. */
static int give_up(struct sml_mpi_communicator *communicator, int error)
{
	char text[512];

	strncpy(text, sml_error_text(communicator->job), sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	sml_abort(communicator->job, text);
	return error;
}

static bool is_aligned(const void *buffer, enum sml_type type)
{
	return (uintptr_t)buffer % sml_type_size(type) == 0;
}

static int begin(struct carriage *carriage, const struct sml_mpi_call *call)
{
	const void *send = call->send == MPI_IN_PLACE ? call->recv : call->send;
	void *recv = call->recv;
	int error;

	*carriage = (struct carriage){
		.communicator = call->communicator,
		.recv = recv,
		.bytes = call->count * sml_type_size(call->kind.type),
	};
	if (!is_aligned(send, call->kind.type) || !is_aligned(recv, call->kind.type)) {
		carriage->aligned = malloc(carriage->bytes);
		if (carriage->aligned == NULL) {
			sml_abort(call->communicator->job,
				  "an MPI_Allreduce has an unaligned buffer, and there is no "
				  "memory for a copy");
			return -ENOMEM;
		}
		memcpy(carriage->aligned, send, carriage->bytes);
		send = recv = carriage->aligned;
	}
	error = sml_allreduce_async(call->communicator->job, send, recv, call->count,
				    call->kind.type, call->kind.op, NULL, &carriage->request);
	if (error) {
		free(carriage->aligned);
		return give_up(call->communicator, error);
	}
	return 0;
}

/* Returns true when the call has ended, with its result in *error. */
static bool look(struct carriage *carriage, int *error)
{
	int done;

	*error = sml_test(carriage->request, &done);
	if (!done)
		return false;
	if (carriage->aligned && *error == 0)
		memcpy(carriage->recv, carriage->aligned, carriage->bytes);
	free(carriage->aligned);
	return true;
}

static int raise_job(struct sml_mpi_communicator *communicator, int error)
{
	return sml_mpi_raise(communicator, sml_mpi_error_code(communicator, error));
}

int sml_mpi_allreduce(const struct sml_mpi_call *call)
{
	struct sml_mpi_patience patience = {0};
	struct carriage carriage;
	int error = begin(&carriage, call);

	if (error == 0) {
		while (!look(&carriage, &error)) {
			sml_mpi_progress();
			sml_mpi_rest(&patience);
		}
	}
	return error ? raise_job(call->communicator, error) : MPI_SUCCESS;
}

/* ---- as a request of MPI ---- */

/*
 * MPI calls this when it delivers the status. It gets no error, because MPI would report the
 * error to another handler.
 */
static int query(void *state, MPI_Status *status)
{
	struct pending *this = state;

	if (this->error && !this->noted) {
		this->noted = true;
		this->next_failure = failures;
		failures = this;
	}
	status->MPI_SOURCE = MPI_ANY_SOURCE;
	status->MPI_TAG = MPI_ANY_TAG;
	PMPI_Status_set_elements(status, MPI_BYTE, 0);
	PMPI_Status_set_cancelled(status, 0);
	return MPI_SUCCESS;
}

/* The request no longer exists. */
static void unlist(struct pending *this)
{
	if (this->error == 0)
		return;
	pthread_mutex_lock(&lock);
	for (struct pending **place = &failed; *place; place = &(*place)->next) {
		if (*place != this)
			continue;
		*place = this->next;
		__atomic_sub_fetch(&n_failed, 1, __ATOMIC_RELAXED);
		break;
	}
	pthread_mutex_unlock(&lock);
}

static void dispose(struct pending *this)
{
	unlist(this);
	sml_mpi_communicator_release(this->carriage.communicator);
	free(this);
}

static int forget(void *state)
{
	struct pending *this = state;

	if (!this->noted)
		dispose(this);
	return MPI_SUCCESS;
}

/* MPI forbids cancelling collectives. */
static int cancel(void *state, int complete)
{
	(void)state;
	(void)complete;
	return MPI_ERR_REQUEST;
}

static int make_request(struct pending **made, struct sml_mpi_communicator *communicator)
{
	struct pending *this = calloc(1, sizeof(*this));
	int error;

	if (this == NULL)
		return MPI_ERR_NO_MEM;
	sml_mpi_communicator_use(communicator);
	this->carriage.communicator = communicator;
	error = PMPI_Grequest_start(query, forget, cancel, this, &this->request);
	if (error)
		dispose(this);
	else
		*made = this;
	return error;
}

static void complete(struct pending *this)
{
	MPI_Request request = this->request;
	bool detached = this->detached;

	/* From then on, the caller that waits for the request owns it. */
	PMPI_Grequest_complete(request);
	if (detached)
		PMPI_Request_free(&request);
}

int sml_mpi_iallreduce(const struct sml_mpi_call *call, MPI_Request *request)
{
	struct sml_mpi_communicator *communicator = call->communicator;
	struct pending *this = NULL;
	struct carriage carriage;
	int error = make_request(&this, communicator);

	if (error) {
		sml_abort(communicator->job, "no memory for the request of an MPI_Iallreduce");
		return raise_job(communicator, -ENOMEM);
	}
	error = begin(&carriage, call);
	if (error) {
		this->detached = true;
		complete(this);
		return raise_job(communicator, error);
	}
	this->carriage = carriage;
	*request = this->request;
	pthread_mutex_lock(&lock);
	this->next = all;
	all = this;
	__atomic_add_fetch(&n_pending, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&lock);
	return MPI_SUCCESS;
}

/* ---- progress of the calls ---- */

bool sml_mpi_has_pending(void)
{
	return __atomic_load_n(&n_pending, __ATOMIC_RELAXED) > 0;
}

static void fail(struct pending *this, int error)
{
	this->error = sml_mpi_error_code(this->carriage.communicator, error);
	this->next = failed;
	failed = this;
	__atomic_add_fetch(&n_failed, 1, __ATOMIC_RELAXED);
}

/* Removes calls that have ended from the list. */
static struct pending *take_ended(void)
{
	struct pending *ended = NULL, **place = &all;
	int error;

	while (*place) {
		struct pending *this = *place;

		if (!look(&this->carriage, &error)) {
			place = &this->next;
			continue;
		}
		*place = this->next;
		this->next_ended = ended;
		ended = this;
		if (error)
			fail(this, error);
		__atomic_sub_fetch(&n_pending, 1, __ATOMIC_RELAXED);
	}
	return ended;
}

void sml_mpi_poll(void)
{
	struct pending *ended, *next;

	if (!sml_mpi_has_pending())
		return;
	pthread_mutex_lock(&lock);
	ended = take_ended();
	pthread_mutex_unlock(&lock);
	for (; ended; ended = next) {
		next = ended->next_ended;
		complete(ended);
	}
}

/* Is any call of the list among the requests? Each such call remembers its position. */
static bool mark(struct pending *list, int n, const MPI_Request *requests)
{
	bool any = false;

	for (struct pending *this = list; this; this = this->next) {
		for (int i = 0; i < n; i++) {
			if (requests[i] != this->request)
				continue;
			this->place = i;
			any = true;
			break;
		}
	}
	return any;
}

bool sml_mpi_are_pending(int n, const MPI_Request *requests)
{
	bool any;

	if (requests == NULL ||
	    (!sml_mpi_has_pending() && __atomic_load_n(&n_failed, __ATOMIC_RELAXED) == 0))
		return false;
	pthread_mutex_lock(&lock);
	mark(failed, n, requests);
	any = mark(all, n, requests);
	pthread_mutex_unlock(&lock);
	return any;
}

bool sml_mpi_detach(MPI_Request request)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (struct pending *this = all; this; this = this->next) {
		if (this->request != request)
			continue;
		this->detached = true;
		found = true;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

bool sml_mpi_failure(int *place, int *error, struct sml_mpi_communicator **communicator)
{
	struct pending *this = failures;

	if (this == NULL)
		return false;
	failures = this->next_failure;
	*place = this->place;
	*error = this->error;
	*communicator = this->carriage.communicator;
	unlist(this);
	free(this);
	return true;
}

void sml_mpi_forget_failures(void)
{
	for (; failures; failures = failures->next_failure)
		failures->noted = false;
}
