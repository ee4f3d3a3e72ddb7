/* SPDX-License-Identifier: BSD-3-Clause */
#include "bindings/mpi/offload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A call of the job, and its buffers. MPI requires no alignment of buffers, but the job does. */
struct sml_mpi_operation {
	struct sml_mpi_communicator *communicator;
	struct sml_request *request;
	void *copy; /* NULL, or a copy of send, for the call; `bytes` of `result` go to recv */
	const void *result;
	void *recv;
	size_t bytes;
};

/* What the job is told. */
struct load {
	const void *send;
	void *recv;
	size_t send_bytes, recv_bytes;
	size_t own; /* where this rank's result is in the whole vector, in bytes */
};

struct pending {
	struct sml_mpi_operation operation;
	MPI_Request request;
	bool detached; /* nobody waits for the call */
	int position;  /* position in the array of the call that waits for it */
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

static struct load load_of(const struct sml_mpi_call *call)
{
	const struct sml_mpi_communicator *communicator = call->communicator;
	size_t bytes = call->count * sml_type_size(call->kind.type);
	bool is_root = call->root == communicator->rank, in_place = call->send == MPI_IN_PLACE;
	struct load load = {.send = in_place ? call->recv : call->send,
			    .recv = call->recv,
			    .send_bytes = bytes,
			    .recv_bytes = bytes};

	if (call->collective == SML_MPI_REDUCE && !is_root) {
		/* MPI allows MPI_IN_PLACE at root only: the job refuses NULL. */
		if (in_place)
			load.send = NULL;
		load.recv = NULL;
		load.recv_bytes = 0;
	} else if (call->collective == SML_MPI_REDUCE_SCATTER) {
		load.send_bytes *= (size_t)communicator->size;
		load.own = bytes * (size_t)communicator->rank;
	}
	return load;
}

/*
 * The job needs aligned buffers, but for broadcasts. Of a reduce-scatter in place, MPI's result is
 * at the beginning of the vector, and the job's is at this rank's part.
 */
static bool needs_copy(const struct sml_mpi_call *call, const struct load *load)
{
	if (call->collective == SML_MPI_BCAST)
		return false;
	return !is_aligned(load->send, call->kind.type) ||
	       !is_aligned(load->recv, call->kind.type) ||
	       (call->collective == SML_MPI_REDUCE_SCATTER && call->send == MPI_IN_PLACE);
}

static int submit(const struct sml_mpi_call *call, const struct load *load,
		  struct sml_request **request)
{
	struct sml_context *job = call->communicator->job;
	enum sml_type type = call->kind.type;

	switch (call->collective) {
	case SML_MPI_REDUCE:
		return sml_reduce(job, load->send, load->recv, call->count, type, call->kind.op,
				  call->root, NULL, request);
	case SML_MPI_REDUCE_SCATTER:
		return sml_reduce_scatter(job, load->send, load->recv, call->count, type,
					  call->kind.op, NULL, request);
	case SML_MPI_BCAST:
		return sml_broadcast(job, load->recv, call->count, type, call->root, NULL, request);
	default:
		return sml_allreduce(job, load->send, load->recv, call->count, type, call->kind.op,
				     NULL, request);
	}
}

/* Returns 0, or the library's error: then the job has failed. */
static int begin(struct sml_mpi_operation *operation, const struct sml_mpi_call *call)
{
	struct load load = load_of(call);
	int error;

	*operation = (struct sml_mpi_operation){.communicator = call->communicator};
	if (load.send && needs_copy(call, &load)) {
		char *copy = malloc(load.send_bytes);

		if (copy == NULL) {
			sml_abort(call->communicator->job,
				  "a call of MPI has a buffer that must be copied, and there is no "
				  "memory for the copy");
			return -ENOMEM;
		}
		memcpy(copy, load.send, load.send_bytes);
		operation->copy = copy;
		operation->result = copy + load.own;
		operation->recv = load.recv;
		operation->bytes = load.recv_bytes;
		load.send = copy;
		load.recv = copy + load.own;
	}
	error = submit(call, &load, &operation->request);
	if (error) {
		free(operation->copy);
		return give_up(call->communicator, error);
	}
	return 0;
}

/* Returns true when the call has ended, with its result in *error. */
static bool look(struct sml_mpi_operation *operation, int *error)
{
	*error = sml_wait(&operation->request, 1, 0, NULL);
	if (operation->request && *error == -EAGAIN)
		return false;
	if (operation->bytes && *error == 0)
		memcpy(operation->recv, operation->result, operation->bytes);
	free(operation->copy);
	return true;
}

/* Report the library's error to the communicator's handler. Returns MPI's code. */
static int raise_job(struct sml_mpi_communicator *communicator, int error)
{
	return sml_mpi_raise(communicator, sml_mpi_error_code(communicator, error));
}

int sml_mpi_offload(const struct sml_mpi_call *call)
{
	struct sml_mpi_backoff backoff = {0};
	struct sml_mpi_operation operation;
	int error = begin(&operation, call);

	if (error == 0) {
		while (!look(&operation, &error)) {
			sml_mpi_progress();
			sml_mpi_back_off(&backoff);
		}
	}
	return error ? raise_job(call->communicator, error) : MPI_SUCCESS;
}

/* ---- broadcasts ---- */

/* In memory as in a packet? Other types are packed, which the other ranks need not know. */
static bool is_plain(MPI_Datatype type)
{
	int integers, addresses, types, combiner = MPI_COMBINER_DUP, size = 0;
	MPI_Aint lower = 0, extent = 0;

	return PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner) ==
		       MPI_SUCCESS &&
	       combiner == MPI_COMBINER_NAMED && PMPI_Type_size(type, &size) == MPI_SUCCESS &&
	       PMPI_Type_get_extent(type, &lower, &extent) == MPI_SUCCESS && lower == 0 &&
	       extent == size;
}

static int offload_packed(struct sml_mpi_call *call, void *buffer, int count, MPI_Datatype type)
{
	struct sml_mpi_communicator *communicator = call->communicator;
	int position = 0, error = MPI_SUCCESS;
	int bytes = (int)(call->count * sml_type_size(call->kind.type));

	call->recv = malloc((size_t)bytes);
	if (call->recv == NULL) {
		sml_abort(communicator->job, "no memory to pack the data of an MPI_Bcast");
		return raise_job(communicator, -ENOMEM);
	}
	if (communicator->rank == call->root)
		error = PMPI_Pack(buffer, count, type, call->recv, bytes, &position,
				  communicator->comm);
	if (error == MPI_SUCCESS)
		error = sml_mpi_offload(call);
	else
		sml_abort(communicator->job, "MPI_Pack failed for the data of an MPI_Bcast");
	if (error == MPI_SUCCESS && communicator->rank != call->root)
		error = PMPI_Unpack(call->recv, bytes, &position, buffer, count, type,
				    communicator->comm);
	free(call->recv);
	return error;
}

int sml_mpi_offload_bcast(struct sml_mpi_communicator *communicator, void *buffer, int count,
			  MPI_Datatype type, int root)
{
	int size = 0;
	enum sml_type element = sml_mpi_element_of(type);
	struct sml_mpi_call call = {.collective = SML_MPI_BCAST,
				    .communicator = communicator,
				    .kind = {.type = element},
				    .send = buffer,
				    .recv = buffer,
				    .root = root};

	PMPI_Type_size(type, &size);
	call.count = (size_t)count * (size_t)size / sml_type_size(element);
	return is_plain(type) ? sml_mpi_offload(&call) : offload_packed(&call, buffer, count, type);
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
	for (struct pending **link = &failed; *link; link = &(*link)->next) {
		if (*link != this)
			continue;
		*link = this->next;
		__atomic_sub_fetch(&n_failed, 1, __ATOMIC_RELAXED);
		break;
	}
	pthread_mutex_unlock(&lock);
}

static void dispose(struct pending *this)
{
	unlist(this);
	sml_mpi_communicator_release(this->operation.communicator);
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
	this->operation.communicator = communicator;
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
	struct sml_mpi_operation operation;
	int error = make_request(&this, communicator);

	if (error) {
		sml_abort(communicator->job, "no memory for the request of an MPI_Iallreduce");
		return raise_job(communicator, -ENOMEM);
	}
	error = begin(&operation, call);
	if (error) {
		this->detached = true;
		complete(this);
		return raise_job(communicator, error);
	}
	this->operation = operation;
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
	this->error = sml_mpi_error_code(this->operation.communicator, error);
	this->next = failed;
	failed = this;
	__atomic_add_fetch(&n_failed, 1, __ATOMIC_RELAXED);
}

/* Removes calls that have ended from the list. */
static struct pending *take_ended(void)
{
	struct pending *ended = NULL, **link = &all;
	int error;

	while (*link) {
		struct pending *this = *link;

		if (!look(&this->operation, &error)) {
			link = &this->next;
			continue;
		}
		*link = this->next;
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
			this->position = i;
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

bool sml_mpi_failure(int *position, int *error, struct sml_mpi_communicator **communicator)
{
	struct pending *this = failures;

	if (this == NULL)
		return false;
	failures = this->next_failure;
	*position = this->position;
	*error = this->error;
	*communicator = this->operation.communicator;
	unlist(this);
	free(this);
	return true;
}

void sml_mpi_forget_failures(void)
{
	for (; failures; failures = failures->next_failure)
		failures->noted = false;
}
