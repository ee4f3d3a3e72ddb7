/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces until one fails. This communicator's error handler must get the error, and no
 * other may: MPI_COMM_WORLD keeps the handler that ends the program.
 *
 *	failing blocking|reduce|persistent|wait|waitall|waitsome|fatal DIRECTORY
 *
 * "fatal" is blocking, with MPI's own error handler. In DIRECTORY, each rank creates a file
 * after its first call has succeeded. The program ends without an error after the round in
 * which rank 0 finds a file "enough" there. Rank 0's all-reduce tells the others.
 */
#include <string.h>
#include <unistd.h>

#include "program.h"

#define MOST 100000
#define SIDE 4

static float in[SIDE][LARGE], out[SIDE][LARGE];
static int rank;

static void say_that_it_runs(const char *directory)
{
	char name[1024];
	FILE *file;

	snprintf(name, sizeof(name), "%s/running.%d", directory, rank);
	file = fopen(name, "w");
	if (file)
		fclose(file);
}

static float is_enough(const char *directory)
{
	char name[1024];

	snprintf(name, sizeof(name), "%s/enough", directory);
	return rank == 0 && access(name, F_OK) == 0;
}

#if MPI_VERSION >= 4
#define INIT MPI_Allreduce_init
#else
extern int MPIX_Allreduce_init(const void *send, void *recv, int count, MPI_Datatype type,
			       MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request *request);
#define INIT MPIX_Allreduce_init
#endif

/* Of every second call, the error is that of MPI_Waitall(). */
static int persistent(MPI_Comm comm)
{
	static MPI_Request requests[SIDE];
	static int calls;
	MPI_Status statuses[SIDE];
	int error = MPI_SUCCESS, done = 0;

	if (calls++ == 0)
		for (int i = 0; i < SIDE; i++)
			INIT(in[i], out[i], LARGE, MPI_FLOAT, MPI_SUM, comm, MPI_INFO_NULL,
			     &requests[i]);
	error = MPI_Startall(SIDE, requests);
	if (error == MPI_SUCCESS && calls % 2 == 0) {
		if (MPI_Waitall(SIDE, requests, statuses) == MPI_ERR_IN_STATUS)
			done = SIDE;
		for (int i = 0; i < done && error == MPI_SUCCESS; i++)
			error = statuses[i].MPI_ERROR;
		return error;
	}
	for (int i = 0; i < SIDE && error == MPI_SUCCESS; i++)
		error = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
	return error;
}

/* The first error of a call, or of its requests. */
static int call(const char *how, MPI_Comm comm)
{
	MPI_Request requests[SIDE];
	MPI_Status statuses[SIDE];
	int indices[SIDE], n_done, error = MPI_SUCCESS;

	if (strcmp(how, "blocking") == 0 || strcmp(how, "fatal") == 0)
		return MPI_Allreduce(in[0], out[0], LARGE, MPI_FLOAT, MPI_SUM, comm);
	if (strcmp(how, "persistent") == 0)
		return persistent(comm);
	if (strcmp(how, "reduce") == 0) {
		error = MPI_Reduce(in[0], out[0], LARGE, MPI_FLOAT, MPI_SUM, 0, comm);
		if (error == MPI_SUCCESS)
			error = MPI_Bcast(out[0], LARGE, MPI_FLOAT, 0, comm);
		return error;
	}
	for (int i = 0; i < SIDE; i++) {
		requests[i] = MPI_REQUEST_NULL;
		if (error == MPI_SUCCESS)
			error = MPI_Iallreduce(in[i], out[i], LARGE, MPI_FLOAT, MPI_SUM, comm,
					       &requests[i]);
	}
	if (strcmp(how, "wait") == 0) {
		for (int i = 0; i < SIDE; i++) {
			int this = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);

			error = error ? error : this;
		}
		return error;
	}
	if (strcmp(how, "waitall") == 0)
		n_done = MPI_Waitall(SIDE, requests, statuses) == MPI_ERR_IN_STATUS ? SIDE : 0;
	else if (MPI_Waitsome(SIDE, requests, &n_done, indices, statuses) != MPI_ERR_IN_STATUS)
		n_done = 0;
	for (int i = 0; i < n_done && error == MPI_SUCCESS; i++)
		error = statuses[i].MPI_ERROR;
	if (strcmp(how, "waitsome") == 0)
		MPI_Waitall(SIDE, requests, statuses);
	return error;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "blocking";
	char text[MPI_MAX_ERROR_STRING] = "";
	const char *directory = argc > 2 ? argv[2] : ".";
	int error = MPI_SUCCESS, class, length;
	MPI_Comm comm;

	MPI_Init(&argc, &argv);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_rank(comm, &rank);
	if (strcmp(how, "fatal") != 0)
		MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	MPI_Allreduce(in[0], out[0], LARGE, MPI_FLOAT, MPI_SUM, comm);
	say_that_it_runs(directory);
	for (int i = 0; i < MOST && error == MPI_SUCCESS && out[0][0] == 0; i++) {
		in[0][0] = is_enough(directory);
		error = call(how, comm);
	}
	if (error) {
		MPI_Error_string(error, text, &length);
		MPI_Error_class(error, &class);
		printf("rank %d: class %s: %s\n", rank,
		       class > MPI_ERR_LASTCODE ? "new" : "of MPI's", text);
	} else {
		printf("rank %d: no error\n", rank);
	}
	/* Other communicators are unchanged. */
	MPI_Allreduce(in[0], out[0], 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Comm_free(&comm);
	MPI_Finalize();
	return 0;
}
