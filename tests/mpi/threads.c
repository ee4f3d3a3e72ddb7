/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_THREAD_MULTIPLE: several threads, each with its own communicator. */
#include <pthread.h>

#include "program.h"

#define THREADS 3
#define ROUNDS	20

struct part {
	pthread_t thread;
	MPI_Comm comm;
	int seed;
	float in[2][LARGE], out[2][LARGE];
};

static struct part parts[THREADS];

static void *run(void *argument)
{
	struct part *this = argument;
	MPI_Request requests[2];
	int rank, n_ranks;

	MPI_Comm_rank(this->comm, &rank);
	MPI_Comm_size(this->comm, &n_ranks);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < 2; i++)
			fill(this->in[i], LARGE, rank, this->seed + round + i);
		MPI_Allreduce(this->in[0], this->out[0], LARGE, MPI_FLOAT, MPI_SUM, this->comm);
		check_sum("blocking", this->out[0], LARGE, n_ranks, this->seed + round);
		for (int i = 0; i < 2; i++)
			MPI_Iallreduce(this->in[i], this->out[i], LARGE, MPI_FLOAT, MPI_SUM,
				       this->comm, &requests[i]);
		if (round % 2)
			MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
		for (int i = 0; i < 2; i++) {
			MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
			check_sum("nonblocking", this->out[i], LARGE, n_ranks,
				  this->seed + round + i);
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int provided;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	if (provided < MPI_THREAD_MULTIPLE) {
		printf("no threads in this MPI\n");
		MPI_Finalize();
		return 77;
	}
	for (int i = 0; i < THREADS; i++) {
		parts[i].seed = 100 * i;
		MPI_Comm_dup(MPI_COMM_WORLD, &parts[i].comm);
		pthread_create(&parts[i].thread, NULL, run, &parts[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(parts[i].thread, NULL);
		MPI_Comm_free(&parts[i].comm);
	}
	return end();
}
