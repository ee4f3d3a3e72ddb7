/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two sessions that overlap, without MPI_Init(): there is no MPI_COMM_WORLD.
 */
#include "program.h"

static float send_data[LARGE], recv_data[LARGE];

static MPI_Comm make_world(MPI_Session session)
{
	MPI_Group group;
	MPI_Comm comm;

	MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
	MPI_Comm_create_from_group(group, "sessions", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
	MPI_Group_free(&group);
	return comm;
}

static int add(MPI_Comm comm, int round)
{
	int rank, n_ranks;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &n_ranks);
	fill(send_data, LARGE, rank, round);
	MPI_Allreduce(send_data, recv_data, LARGE, MPI_FLOAT, MPI_SUM, comm);
	for (int i = 0; i < LARGE; i++)
		wrong += recv_data[i] != (float)sum(n_ranks, i, round);
	return rank;
}

int main(void)
{
	MPI_Session session, other;
	int all = 0, rank;
	MPI_Comm comm;

	MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
	MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &other);
	comm = make_world(other);
	add(comm, 1);
	MPI_Comm_free(&comm);
	comm = make_world(session);
	add(comm, 2);
	MPI_Session_finalize(&other);
	rank = add(comm, 3);
	MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, comm);
	if (rank == 0)
		printf("%d wrong\n", all);
	/* The communicator is left to the end of its session. */
	MPI_Session_finalize(&session);
	return wrong > 0;
}
