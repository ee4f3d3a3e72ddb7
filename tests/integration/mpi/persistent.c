/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Persistent all-reduces, started in different orders, with every function that completes
 * requests, in place and not, beside persistent messages; freed early ("freed"), and never.
 */
#include <string.h>

#include "program.h"

#define SIDE   3
#define MANY   (SIDE + 1) /* and a message */
#define SMALL  10
#define ROUNDS 9

static float in[SIDE][LARGE], out[SIDE][LARGE], small[SMALL], sums[SMALL];
static int rank, n_ranks, token, received;

static void fill_round(int round)
{
	for (int i = 0; i < SIDE; i++) {
		memset(out[i], 0xa5, sizeof(out[i]));
		/* The last one is in place. */
		fill(i == SIDE - 1 ? out[i] : in[i], LARGE, rank, round + i);
	}
	fill(small, SMALL, rank, round);
	token = 1000 * round + rank;
}

static void check_round(int round)
{
	static const char *const titles[ROUNDS] = {"Wait",     "Waitall", "Waitany",
						   "Waitsome", "Testall", "Testany",
						   "Testsome", "Test",	  "get_status"};
	int from = (rank + n_ranks - 1) % n_ranks;

	for (int i = 0; i < SIDE; i++)
		check_sum(titles[round], out[i], LARGE, n_ranks, round + i);
	check_sum(titles[round], sums, SMALL, n_ranks, round);
	if (received != 1000 * round + from)
		complain(titles[round], received, 1000 * round + from);
}

/* Rank 0 starts them all at once, and the others one by one, each rank in another order. */
static void start(MPI_Request *requests, int round)
{
	if (rank == 0) {
		MPI_Startall(MANY, requests);
		return;
	}
	for (int i = 0; i < MANY; i++)
		MPI_Start(&requests[(i * (rank % 2 ? 1 : MANY - 1) + round + rank) % MANY]);
}

static void complete(MPI_Request *requests, int round)
{
	MPI_Status statuses[MANY];
	int done = 0, n, index, indices[MANY];

	switch (round) {
	case 0:
		for (int i = 0; i < MANY; i++)
			MPI_Wait(&requests[i], &statuses[0]);
		return;
	case 1:
		MPI_Waitall(MANY, requests, statuses);
		return;
	case 2:
		for (int i = 0; i < MANY; i++)
			MPI_Waitany(MANY, requests, &index, MPI_STATUS_IGNORE);
		MPI_Waitany(MANY, requests, &index, MPI_STATUS_IGNORE);
		if (index != MPI_UNDEFINED)
			complain("Waitany of inactive requests", index, MPI_UNDEFINED);
		return;
	case 3:
		for (int i = 0; i < MANY; i += n)
			MPI_Waitsome(MANY, requests, &n, indices, statuses);
		return;
	case 4:
		while (!done)
			MPI_Testall(MANY, requests, &done, MPI_STATUSES_IGNORE);
		return;
	case 5:
		for (int i = 0; i < MANY; i += done)
			MPI_Testany(MANY, requests, &index, &done, MPI_STATUS_IGNORE);
		return;
	case 6:
		for (int i = 0; i < MANY; i += n)
			MPI_Testsome(MANY, requests, &n, indices, statuses);
		return;
	case 7:
		for (int i = MANY; i-- > 0;)
			for (done = 0; !done;)
				MPI_Test(&requests[i], &done, MPI_STATUS_IGNORE);
		return;
	default:
		for (int i = MANY; i-- > 0;) {
			for (done = 0; !done;)
				MPI_Request_get_status(requests[i], &done, MPI_STATUS_IGNORE);
			MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
		}
	}
}

static void rounds(MPI_Request *requests)
{
	const int right = (rank + 1) % n_ranks, left = (rank + n_ranks - 1) % n_ranks;
	MPI_Request one;

	for (int i = 0; i < SIDE; i++)
		INIT(i == SIDE - 1 ? MPI_IN_PLACE : in[i], out[i], LARGE, MPI_FLOAT, MPI_SUM,
		     MPI_COMM_WORLD, MPI_INFO_NULL, &requests[i]);
	/* Not among the others: MPICH 4.0's MPI_Waitany() finds its own inactive ones, too. */
	INIT(small, sums, SMALL, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &one);
	MPI_Recv_init(&received, 1, MPI_INT, left, 3, MPI_COMM_WORLD, &requests[SIDE]);
	for (int round = 0; round < ROUNDS; round++) {
		fill_round(round);
		start(requests, round);
		MPI_Start(&one);
		MPI_Send(&token, 1, MPI_INT, right, 3, MPI_COMM_WORLD);
		/* Other calls may come between start and end, and on some ranks before the start.
		 */
		MPI_Allreduce(MPI_IN_PLACE, &(float){0}, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		MPI_Wait(&one, MPI_STATUS_IGNORE);
		complete(requests, round);
		check_round(round);
	}
}

int main(int argc, char **argv)
{
	MPI_Request requests[MANY], request;
	MPI_Comm other;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
	rounds(requests);
	/* A request that outlives its communicator; of ten, MPI gets the last ones. */
	MPI_Comm_dup(MPI_COMM_WORLD, &other);
	for (int i = 0; i < 10; i++) {
		INIT(in[0], out[0], LARGE, MPI_FLOAT, MPI_SUM, other, MPI_INFO_NULL, &request);
		fill(in[0], LARGE, rank, 50 + i);
		MPI_Start(&request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		check_sum("ten in a row", out[0], LARGE, n_ranks, 50 + i);
		MPI_Request_free(&request);
		if (request != MPI_REQUEST_NULL)
			complain("the request that Request_free leaves behind", 1, 0);
	}
	MPI_Comm_free(&other);
	/* Freed after it has been started, which Open MPI refuses. The rest is left to the end. */
	if (argc > 1 && strcmp(argv[1], "freed") == 0) {
		MPI_Start(&requests[0]);
		MPI_Request_free(&requests[0]);
		MPI_Barrier(MPI_COMM_WORLD);
	}
	return end();
}
