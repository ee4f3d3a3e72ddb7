/* SPDX-License-Identifier: BSD-3-Clause */
#include "bindings/mpi/backoff.h"

#include <mpi.h>
#include <sched.h>
#include <time.h>

#define YIELD_NS    100000
#define REST_MAX_NS 500000

/*
 * Nobody sends on this communicator. Probing for a message finds none, but lets MPI make
 * progress.
 */
static MPI_Comm nobody = MPI_COMM_NULL;

void sml_mpi_progress_init(void)
{
	if (PMPI_Comm_dup(MPI_COMM_SELF, &nobody) != MPI_SUCCESS)
		nobody = MPI_COMM_NULL;
}

void sml_mpi_progress_fini(void)
{
	if (nobody != MPI_COMM_NULL)
		PMPI_Comm_free(&nobody);
}

void sml_mpi_progress(void)
{
	int found;

	if (nobody != MPI_COMM_NULL)
		PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, nobody, &found, MPI_STATUS_IGNORE);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* A sixteenth of the time waited so far, so the wait ends at most that much late. */
void sml_mpi_back_off(struct sml_mpi_backoff *backoff)
{
	uint64_t now = now_ns(), waited_ns;
	struct timespec rest = {0};

	if (backoff->begun_ns == 0)
		backoff->begun_ns = now;
	waited_ns = now - backoff->begun_ns;
	if (waited_ns < YIELD_NS) {
		sched_yield();
		return;
	}
	rest.tv_nsec = (long)(waited_ns / 16 < REST_MAX_NS ? waited_ns / 16 : REST_MAX_NS);
	nanosleep(&rest, NULL);
}
