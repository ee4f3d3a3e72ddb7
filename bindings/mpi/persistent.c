/* SPDX-License-Identifier: BSD-3-Clause */
#include "bindings/mpi/persistent.h"

#include <stdlib.h>

#include "bindings/mpi/start.h"

struct persistent {
	struct sml_mpi_call call; /* its communicator is this request's own */
	struct sml_mpi_operation operation;
	MPI_Request request;
	int tag;
	int error;     /* MPI's code for the job's error, until it has been delivered */
	bool active;   /* the call is under way */
	bool detached; /* freed before the call has ended */
	struct persistent *next, *next_ended;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct persistent *all;		 /* under the lock */
static int n_all, n_active, n_failed;	 /* atomic */
static MPI_Comm mailbox = MPI_COMM_NULL; /* this rank alone; made once */

static int count_of(const int *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static void add(int *counter, int change)
{
	__atomic_add_fetch(counter, change, __ATOMIC_RELAXED);
}

static struct persistent *find_request(MPI_Request request)
{
	for (struct persistent *this = all; this; this = this->next)
		if (this->request == request && !this->detached)
			return this;
	return NULL;
}

/* ---- the beginning and the end ---- */

/* Two requests never share a tag: a message must complete its own request. */
static int free_tag(void)
{
	int tag = 0;

	for (struct persistent *this = all; this;)
		if (this->tag == tag) {
			tag++;
			this = all;
		} else {
			this = this->next;
		}
	return tag;
}

static void dispose(struct persistent *this)
{
	sml_mpi_communicator_release(this->call.communicator);
	free(this);
}

static bool make_request(struct persistent *this)
{
	bool made;

	pthread_mutex_lock(&lock);
	if (mailbox == MPI_COMM_NULL && PMPI_Comm_dup(MPI_COMM_SELF, &mailbox) != MPI_SUCCESS)
		mailbox = MPI_COMM_NULL;
	this->tag = free_tag();
	made = mailbox != MPI_COMM_NULL && PMPI_Recv_init(NULL, 0, MPI_BYTE, 0, this->tag, mailbox,
							  &this->request) == MPI_SUCCESS;
	if (made) {
		this->next = all;
		all = this;
		add(&n_all, 1);
	}
	pthread_mutex_unlock(&lock);
	return made;
}

bool sml_mpi_persistent_init(const struct sml_mpi_call *call, MPI_Request *request)
{
	struct sml_mpi_communicator *own = sml_mpi_open_another(call->communicator);
	struct persistent *this;

	if (own == NULL)
		return false;
	this = calloc(1, sizeof(*this));
	if (this) {
		this->call = *call;
		this->call.communicator = own;
	}
	if (this == NULL || !make_request(this)) {
		/* The other ranks have a request: they learn of it when they start it. */
		sml_abort(own->job, "no memory for the request of an MPI_Allreduce_init");
		sml_mpi_communicator_release(own);
		free(this);
		return false;
	}
	*request = this->request;
	return true;
}

/* The caller holds the lock. */
static void unlist(struct persistent *this)
{
	struct persistent **place = &all;

	while (*place != this)
		place = &(*place)->next;
	*place = this->next;
	add(&n_all, -1);
	if (this->error)
		add(&n_failed, -1);
}

bool sml_mpi_persistent_free(MPI_Request request, int *error)
{
	struct persistent *this;
	bool ended;

	if (count_of(&n_all) == 0)
		return false;
	pthread_mutex_lock(&lock);
	this = find_request(request);
	ended = this && !this->active;
	if (ended)
		unlist(this);
	else if (this)
		this->detached = true;
	pthread_mutex_unlock(&lock);
	if (this == NULL)
		return false;
	*error = MPI_SUCCESS;
	if (ended) {
		*error = PMPI_Request_free(&request);
		dispose(this);
	}
	return true;
}

void sml_mpi_persistent_fini(void)
{
	if (mailbox != MPI_COMM_NULL)
		PMPI_Comm_free(&mailbox);
}

/* ---- one call ---- */

bool sml_mpi_persistent_start(MPI_Request request, int *error)
{
	struct persistent *this;

	if (count_of(&n_all) == 0)
		return false;
	pthread_mutex_lock(&lock);
	this = find_request(request);
	pthread_mutex_unlock(&lock);
	if (this == NULL)
		return false;
	*error = sml_mpi_begin(&this->operation, &this->call);
	if (*error) {
		*error = sml_mpi_raise_job(this->call.communicator, *error);
		return true;
	}
	*error = PMPI_Start(&request);
	sml_mpi_count(SML_MPI_SWITCH, false,
		      this->call.count * sml_type_size(this->call.kind.type));
	pthread_mutex_lock(&lock);
	this->active = true;
	add(&n_active, 1);
	pthread_mutex_unlock(&lock);
	return true;
}

/* The caller holds the lock. */
static struct persistent *take_ended(void)
{
	struct persistent *ended = NULL;
	int error;

	for (struct persistent *this = all; this; this = this->next) {
		if (!this->active || !sml_mpi_look(&this->operation, &error))
			continue;
		this->active = false;
		add(&n_active, -1);
		if (error && !this->detached) {
			this->error = sml_mpi_error_code(this->call.communicator, error);
			add(&n_failed, 1);
		}
		this->next_ended = ended;
		ended = this;
	}
	for (struct persistent *this = ended; this; this = this->next_ended)
		if (this->detached)
			unlist(this);
	return ended;
}

static void complete(struct persistent *this)
{
	/* From then on, the caller that waits for the request owns it, unless nobody does. */
	bool detached = this->detached;

	PMPI_Send(NULL, 0, MPI_BYTE, 0, this->tag, mailbox);
	if (!detached)
		return;
	PMPI_Wait(&this->request, MPI_STATUS_IGNORE);
	PMPI_Request_free(&this->request);
	dispose(this);
}

void sml_mpi_persistent_poll(void)
{
	struct persistent *ended, *next;

	if (count_of(&n_active) == 0)
		return;
	pthread_mutex_lock(&lock);
	ended = take_ended();
	pthread_mutex_unlock(&lock);
	for (; ended; ended = next) {
		next = ended->next_ended;
		complete(ended);
	}
}

/* ---- questions ---- */

bool sml_mpi_persistent_is_active(void)
{
	return count_of(&n_active) > 0;
}

static bool is_any(int n, const MPI_Request *requests, bool only_active)
{
	bool any = false;

	if (requests == NULL || count_of(only_active ? &n_active : &n_all) == 0)
		return false;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < n && !any; i++) {
		const struct persistent *this = find_request(requests[i]);

		any = this && (!only_active || this->active);
	}
	pthread_mutex_unlock(&lock);
	return any;
}

bool sml_mpi_persistent_has(int n, const MPI_Request *requests)
{
	return is_any(n, requests, false);
}

bool sml_mpi_persistent_are_active(int n, const MPI_Request *requests)
{
	return is_any(n, requests, true);
}

void sml_mpi_persistent_deliver(int n, const int *indices, const MPI_Request *requests)
{
	if (requests == NULL || count_of(&n_failed) == 0)
		return;
	for (int i = 0; i < n; i++) {
		int place = indices ? indices[i] : i, error = 0;
		struct persistent *this;

		pthread_mutex_lock(&lock);
		this = find_request(requests[place]);
		if (this && this->error && !this->active) {
			error = this->error;
			this->error = 0;
			add(&n_failed, -1);
		}
		pthread_mutex_unlock(&lock);
		if (error)
			sml_mpi_add_failure(place, error, this->call.communicator);
	}
}
