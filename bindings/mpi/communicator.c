/* SPDX-License-Identifier: BSD-3-Clause */
#include "bindings/mpi/communicator.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sml_mpi_communicator
	*all; /* under the lock, because attributes are also deleted under it */
static int keyval = MPI_KEYVAL_INVALID;
static bool used, finished; /* atomic */
static uint64_t frees;	    /* atomic: communicators with data that have been freed */

bool sml_mpi_has_world(void)
{
	int initialized = 0, finalized = 0;

	return PMPI_Initialized(&initialized) == MPI_SUCCESS && initialized &&
	       PMPI_Finalized(&finalized) == MPI_SUCCESS && !finalized;
}

int sml_mpi_world_rank(void)
{
	struct sml_config config = SML_CONFIG_INIT;
	int rank = -1;

	if (sml_mpi_has_world())
		PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	else if (sml_config_init(&config) == 0)
		rank = config.rank;
	return rank;
}

bool sml_mpi_is_used(void)
{
	return __atomic_load_n(&used, __ATOMIC_ACQUIRE) &&
	       !__atomic_load_n(&finished, __ATOMIC_ACQUIRE);
}

/* ---- the end of a communicator ---- */

/* Leaving a job waits for the other ranks, so it must not block this rank's MPI calls. */
static void *closer(void *argument)
{
	struct sml_mpi_communicator *communicator = argument;

	sml_close(communicator->job);
	__atomic_store_n(&communicator->closed, true, __ATOMIC_RELEASE);
	return NULL;
}

static void start_closer(struct sml_mpi_communicator *communicator)
{
	sigset_t every, before;

	communicator->closing = true;
	sigfillset(&every);
	pthread_sigmask(SIG_SETMASK, &every, &before);
	if (communicator->job == NULL ||
	    pthread_create(&communicator->closer, NULL, closer, communicator)) {
		/* Without a thread, the job ends when the process ends. */
		communicator->closed = true;
		communicator->job = NULL;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Removes communicators whose jobs have been closed from the list. The caller holds the lock. */
static void bury(void)
{
	struct sml_mpi_communicator **link = &all;

	while (*link) {
		struct sml_mpi_communicator *communicator = *link;

		if (!__atomic_load_n(&communicator->closed, __ATOMIC_ACQUIRE) ||
		    __atomic_load_n(&communicator->references, __ATOMIC_ACQUIRE) > 0) {
			link = &communicator->next;
			continue;
		}
		*link = communicator->next;
		if (communicator->job)
			pthread_join(communicator->closer, NULL);
		free(communicator);
	}
}

void sml_mpi_communicator_use(struct sml_mpi_communicator *communicator)
{
	__atomic_add_fetch(&communicator->references, 1, __ATOMIC_RELAXED);
}

void sml_mpi_communicator_release(struct sml_mpi_communicator *communicator)
{
	pthread_mutex_lock(&lock);
	if (__atomic_sub_fetch(&communicator->references, 1, __ATOMIC_ACQ_REL) == 0 &&
	    !communicator->closing)
		start_closer(communicator);
	bury();
	pthread_mutex_unlock(&lock);
}

/* For MPI_Comm_free() and MPI_Finalize(). */
static int forget(MPI_Comm comm, int key, void *attribute, void *extra)
{
	struct sml_mpi_communicator *communicator = attribute;

	(void)key;
	(void)extra;
	__atomic_add_fetch(&frees, 1, __ATOMIC_RELEASE);
	pthread_mutex_lock(&lock);
	for (struct sml_mpi_communicator *this = all; this; this = this->next)
		if (this->comm == comm)
			this->comm = MPI_COMM_NULL;
	pthread_mutex_unlock(&lock);
	sml_mpi_communicator_release(communicator);
	return MPI_SUCCESS;
}

static bool has_open(void)
{
	bool open = false;

	pthread_mutex_lock(&lock);
	for (struct sml_mpi_communicator *this = all; this; this = this->next)
		open |= !__atomic_load_n(&this->closed, __ATOMIC_ACQUIRE);
	pthread_mutex_unlock(&lock);
	return open;
}

/* The job's last line has them. One of the jobs is enough; the list is locked. */
static void log_left(void)
{
	struct sml_mpi_communicator *this = all;

	while (this && (this->closing || !this->job || this->rank != 0))
		this = this->next;
	if (this)
		sml_count_elsewhere(this->job, "MPI", sml_mpi_count_left());
}

void sml_mpi_communicators_close(void)
{
	struct sml_mpi_backoff backoff = {0};

	pthread_mutex_lock(&lock);
	log_left();
	for (struct sml_mpi_communicator *this = all; this; this = this->next)
		if (!this->closing)
			start_closer(this);
	pthread_mutex_unlock(&lock);
	while (has_open()) {
		sml_mpi_progress();
		sml_mpi_back_off(&backoff);
	}
	__atomic_store_n(&finished, true, __ATOMIC_RELEASE);
	sml_mpi_progress_fini();
}

/* ---- and its beginning ---- */

static void set_up(void)
{
	if (PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &keyval, NULL) != MPI_SUCCESS)
		keyval = MPI_KEYVAL_INVALID;
	__atomic_store_n(&used, true, __ATOMIC_RELEASE);
}

static struct sml_mpi_communicator *allocate(void)
{
	struct sml_mpi_communicator *made = calloc(1, sizeof(*made));

	/* If only this rank failed here, its answers would differ from those of the others. */
	if (made == NULL) {
		fprintf(stderr,
			"switchml-mpi: no memory for a new communicator: the program ends, because "
			"this rank would otherwise decide differently from the other ranks\n");
		abort();
	}
	made->references = 1;
	made->why = SML_MPI_GROUP;
	return made;
}

static void list(struct sml_mpi_communicator *made)
{
	pthread_mutex_lock(&lock);
	made->next = all;
	all = made;
	pthread_mutex_unlock(&lock);
}

static struct sml_mpi_communicator *make_one(MPI_Comm comm)
{
	struct sml_mpi_communicator *made = allocate();
	int inter = 0;

	made->comm = comm;
	PMPI_Comm_test_inter(comm, &inter);
	PMPI_Comm_rank(comm, &made->rank);
	PMPI_Comm_size(comm, &made->size);
	if (inter || made->size < 2 || made->size > SML_MPI_MAX_RANKS)
		made->state = SML_MPI_LEFT;
	if (!inter)
		sml_mpi_progress_init(comm, made->rank);
	list(made);
	PMPI_Comm_set_attr(comm, keyval, made);
	return made;
}

static struct sml_mpi_communicator *find_communicator(MPI_Comm comm, bool make)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct sml_mpi_communicator *found = NULL;
	int has = 0;

	pthread_once(&once, set_up);
	if (keyval == MPI_KEYVAL_INVALID ||
	    PMPI_Comm_get_attr(comm, keyval, (void *)&found, &has) != MPI_SUCCESS)
		return NULL;
	if (has)
		return found;
	return make ? make_one(comm) : NULL;
}

struct sml_mpi_communicator *sml_mpi_communicator_of(MPI_Comm comm, bool make)
{
	/* Looking up an attribute takes longer than all else that a small call does here. */
	static _Thread_local struct {
		MPI_Comm comm;
		struct sml_mpi_communicator *found;
		uint64_t frees;
	} last;
	uint64_t now = __atomic_load_n(&frees, __ATOMIC_ACQUIRE);
	struct sml_mpi_communicator *found;

	if (comm == MPI_COMM_NULL || __atomic_load_n(&finished, __ATOMIC_ACQUIRE) ||
	    (!make && !__atomic_load_n(&used, __ATOMIC_ACQUIRE)))
		return NULL;
	/* A freed communicator's handle may be another's now. */
	if (last.found && last.comm == comm && last.frees == now)
		return last.found;
	found = find_communicator(comm, make);
	last.comm = comm;
	last.found = found;
	last.frees = now;
	return found;
}

/* ---- failures ---- */

/* Convert the library's error text to an MPI error. */
static int make_error_code(struct sml_mpi_communicator *communicator, int error)
{
	const char *said = sml_error_text(communicator->job);
	char text[MPI_MAX_ERROR_STRING];
	int class, code;

	/* This needs a new error class: codes of MPICH's own classes cannot have a text. */
	if (PMPI_Add_error_class(&class) != MPI_SUCCESS ||
	    PMPI_Add_error_code(class, &code) != MPI_SUCCESS)
		return MPI_ERR_OTHER;
	snprintf(text, sizeof(text), "switchml: %s", *said ? said : sml_strerror(error));
	PMPI_Add_error_string(class, text);
	PMPI_Add_error_string(code, text);
	return code;
}

int sml_mpi_error_code(struct sml_mpi_communicator *communicator, int error)
{
	int code = __atomic_load_n(&communicator->error_code, __ATOMIC_ACQUIRE);

	if (code == 0) {
		code = make_error_code(communicator, error);
		__atomic_store_n(&communicator->error_code, code, __ATOMIC_RELEASE);
	}
	return code;
}

int sml_mpi_raise(struct sml_mpi_communicator *communicator, int error_code)
{
	if (communicator->comm != MPI_COMM_NULL)
		PMPI_Comm_call_errhandler(communicator->comm, error_code);
	else if (sml_mpi_has_world())
		PMPI_Comm_call_errhandler(MPI_COMM_WORLD, error_code);
	return error_code;
}
