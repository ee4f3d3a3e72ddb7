/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Iallreduce() with every function that completes requests, and with requests of other
 * kinds.
 */
#include <string.h>

#include "program.h"

#define MANY	 8
#define BIG_SEND (1 << 20)

static float in[MANY][LARGE], out[MANY][LARGE], message[BIG_SEND], received[BIG_SEND];
static int rank, n_ranks;

static void start(int which, MPI_Comm comm, MPI_Request *request)
{
	memset(out[which], 0xa5, sizeof(out[which]));
	fill(in[which], LARGE, rank, which);
	MPI_Iallreduce(in[which], out[which], LARGE, MPI_FLOAT, MPI_SUM, comm, request);
}

static void check(const char *what, int which)
{
	check_sum(what, out[which], LARGE, n_ranks, which);
}

static void start_all(MPI_Request *requests)
{
	for (int i = 0; i < MANY; i++)
		start(i, MPI_COMM_WORLD, &requests[i]);
}

static void check_all(const char *what)
{
	for (int i = 0; i < MANY; i++)
		check(what, i);
}

static void waits_and_tests(void)
{
	MPI_Request requests[MANY];
	int done;

	start_all(requests);
	/* In a different order than they were started. */
	for (int i = MANY; i-- > 0;) {
		MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
		if (requests[i] != MPI_REQUEST_NULL)
			complain("the request that Wait leaves behind", 1, 0);
		check("Wait", i);
	}
	start(0, MPI_COMM_WORLD, &requests[0]);
	do
		MPI_Test(&requests[0], &done, MPI_STATUS_IGNORE);
	while (!done);
	check("Test", 0);
	start(1, MPI_COMM_WORLD, &requests[1]);
	do
		MPI_Request_get_status(requests[1], &done, MPI_STATUS_IGNORE);
	while (!done);
	check("Request_get_status", 1);
	MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
}

static void of_arrays(void)
{
	MPI_Request requests[MANY];
	MPI_Status statuses[MANY];
	int n_done, done, index, indices[MANY];

	start_all(requests);
	MPI_Waitall(MANY, requests, statuses);
	check_all("Waitall");
	start_all(requests);
	do
		MPI_Testall(MANY, requests, &done, MPI_STATUSES_IGNORE);
	while (!done);
	check_all("Testall");
	start_all(requests);
	for (int i = 0; i < MANY; i++) {
		MPI_Waitany(MANY, requests, &index, MPI_STATUS_IGNORE);
		check("Waitany", index);
	}
	MPI_Waitany(MANY, requests, &index, MPI_STATUS_IGNORE);
	if (index != MPI_UNDEFINED)
		complain("Waitany of none", index, MPI_UNDEFINED);
	start_all(requests);
	for (int i = 0; i < MANY;) {
		MPI_Testany(MANY, requests, &index, &done, MPI_STATUS_IGNORE);
		if (!done)
			continue;
		check("Testany", index);
		i++;
	}
	start_all(requests);
	for (int i = 0; i < MANY; i += n_done) {
		MPI_Waitsome(MANY, requests, &n_done, indices, statuses);
		for (int j = 0; j < n_done; j++)
			check("Waitsome", indices[j]);
	}
	start_all(requests);
	for (int i = 0; i < MANY; i += n_done) {
		MPI_Testsome(MANY, requests, &n_done, indices, statuses);
		for (int j = 0; j < n_done; j++)
			check("Testsome", indices[j]);
	}
}

/* Messages in a ring, a small and a large all-reduce, and a double one, all in one array. */
static void among_others(void)
{
	const int right = (rank + 1) % n_ranks, left = (rank + n_ranks - 1) % n_ranks;
	MPI_Request requests[6] = {MPI_REQUEST_NULL};
	double mine = rank, all = -1;
	int one = 1, n = 0;

	fill(message, BIG_SEND, rank, 9);
	MPI_Irecv(received, BIG_SEND, MPI_FLOAT, left, 3, MPI_COMM_WORLD, &requests[1]);
	start(0, MPI_COMM_WORLD, &requests[2]);
	MPI_Isend(message, BIG_SEND, MPI_FLOAT, right, 3, MPI_COMM_WORLD, &requests[3]);
	MPI_Iallreduce(&one, &n, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[4]);
	MPI_Iallreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &requests[5]);
	MPI_Waitall(6, requests, MPI_STATUSES_IGNORE);
	check("among others", 0);
	if (n != n_ranks || all != n_ranks - 1 || received[5] != (float)value(left, 5, 9))
		complain("the others", n, n_ranks);
}

/*
 * Rank 0's message is on its way while rank 0 is in an all-reduce. The others enter the
 * all-reduce only after they have received it, so MPI must make progress inside the call.
 */
static void with_a_message_under_way(void)
{
	MPI_Request request = MPI_REQUEST_NULL, reduction;

	for (int blocking = 0; blocking < 2; blocking++) {
		fill(message, BIG_SEND, 0, 4);
		if (rank == 0 && n_ranks > 1)
			MPI_Isend(message, BIG_SEND, MPI_FLOAT, 1, 5, MPI_COMM_WORLD, &request);
		if (rank == 1)
			MPI_Recv(received, BIG_SEND, MPI_FLOAT, 0, 5, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
		fill(in[0], LARGE, rank, 0);
		if (blocking)
			MPI_Allreduce(in[0], out[0], LARGE, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		else
			start(0, MPI_COMM_WORLD, &reduction);
		if (!blocking)
			MPI_Wait(&reduction, MPI_STATUS_IGNORE);
		check("with a message under way", 0);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
}

/* Nonblocking calls of two communicators may come in any order. */
static void crosswise(void)
{
	MPI_Comm other;
	MPI_Request requests[2];

	MPI_Comm_dup(MPI_COMM_WORLD, &other);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 2; i++) {
			int which = (rank + i) % 2;

			start(which, which ? other : MPI_COMM_WORLD, &requests[which]);
		}
		MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
		check("crosswise", 0);
		check("crosswise", 1);
		MPI_Barrier(other);
	}
	MPI_Comm_free(&other);
}

/*
 * Requests that outlive their communicator, and requests that nobody waits for. This needs
 * the argument "freed": Open MPI 4.1's own MPI_Iallreduce() crashes after MPI_Comm_free(),
 * which is allowed. MPI_Request_free() is not for collectives, but Open MPI accepts it.
 */
static void freed(void)
{
	MPI_Comm other;
	MPI_Request request;

	MPI_Comm_dup(MPI_COMM_WORLD, &other);
	start(0, other, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	MPI_Barrier(other);
	start(1, other, &request);
	MPI_Comm_free(&other);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	check("the communicator is gone", 1);
	start(2, MPI_COMM_WORLD, &request);
	MPI_Request_free(&request);
	start(3, MPI_COMM_WORLD, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	check("after a request that is gone", 3);
	/* One request is still under way when the program ends. */
	start(4, MPI_COMM_WORLD, &request);
	MPI_Request_free(&request);
}

int main(int argc, char **argv)
{
	MPI_Request request;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);

	/* The first call, and a message that rank 0 sends before it waits. */
	start(0, MPI_COMM_WORLD, &request);
	if (rank == 0)
		for (int i = 1; i < n_ranks; i++)
			MPI_Send(&i, 1, MPI_INT, i, 1, MPI_COMM_WORLD);
	else
		MPI_Recv(&(int){0}, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	check("the first", 0);
	MPI_Barrier(MPI_COMM_WORLD);

	waits_and_tests();
	of_arrays();
	among_others();
	with_a_message_under_way();
	crosswise();
	if (argc > 1 && strcmp(argv[1], "freed") == 0)
		freed();
	return end();
}
