/* SPDX-License-Identifier: BSD-3-Clause */
#include "bindings/mpi/communicator.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#define YIELD_NS    100000
#define REST_MAX_NS 500000

/*
 * Nobody sends on this communicator. Probing for a message finds none, but lets MPI make
 * progress.
 */
static MPI_Comm nobody = MPI_COMM_NULL; /* under the lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* This rank alone. Not of MPI_COMM_SELF, which programs with sessions need not have. */
static MPI_Comm alone(MPI_Comm comm, int rank)
{
	MPI_Group all = MPI_GROUP_NULL, self = MPI_GROUP_NULL;
	MPI_Comm made = MPI_COMM_NULL;

	if (PMPI_Comm_group(comm, &all) != MPI_SUCCESS)
		return MPI_COMM_NULL;
	if (PMPI_Group_incl(all, 1, &rank, &self) == MPI_SUCCESS) {
		if (PMPI_Comm_create_group(comm, self, 0, &made) != MPI_SUCCESS)
			made = MPI_COMM_NULL;
		PMPI_Group_free(&self);
	}
	PMPI_Group_free(&all);
	return made;
}

void sml_mpi_progress_init(MPI_Comm comm, int rank)
{
	pthread_mutex_lock(&lock);
	if (nobody == MPI_COMM_NULL)
		nobody = alone(comm, rank);
	pthread_mutex_unlock(&lock);
}

void sml_mpi_progress_fini(void)
{
	pthread_mutex_lock(&lock);
	if (nobody != MPI_COMM_NULL)
		PMPI_Comm_free(&nobody);
	nobody = MPI_COMM_NULL;
	pthread_mutex_unlock(&lock);
}

void sml_mpi_progress(void)
{
	int found;

	/* Another thread that has it makes the progress. */
	if (pthread_mutex_trylock(&lock) != 0)
		return;
	if (nobody != MPI_COMM_NULL)
		PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, nobody, &found, MPI_STATUS_IGNORE);
	pthread_mutex_unlock(&lock);
}

/* A sixteenth of the time waited so far, so the wait ends at most that much late. */
void sml_mpi_back_off(struct sml_mpi_backoff *backoff)
{
	struct timespec now, rest = {0};
	uint64_t now_ns, waited_ns;

	clock_gettime(CLOCK_MONOTONIC, &now);
	now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	if (backoff->begun_ns == 0)
		backoff->begun_ns = now_ns;
	waited_ns = now_ns - backoff->begun_ns;
	if (waited_ns < YIELD_NS) {
		sched_yield();
		return;
	}
	rest.tv_nsec = (long)(waited_ns / 16 < REST_MAX_NS ? waited_ns / 16 : REST_MAX_NS);
	nanosleep(&rest, NULL);
}
