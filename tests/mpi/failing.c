/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces until one fails. This communicator's error handler must get the error, and no
 * other may: MPI_COMM_WORLD keeps the handler that ends the program.
 *
 *	failing blocking|reduce|waitall|fatal|ways|types DIRECTORY
 *
 * "fatal" is blocking, with MPI's own error handler. In DIRECTORY, each rank writes its process
 * to a file after its first call has succeeded. The program ends without an error after the round
 * in which rank 0 finds a file "enough" there. Rank 0's all-reduce tells the others.
 *
 * "ways" makes one call for each way to complete a request, and every call must fail: rank 0 begins
 *its own when there is a file "dead". "types" broadcasts as many bytes of another type.
 */
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "program.h"

#define MOST 100000
#define SIDE 5 /* requests at once, and ways to complete them */

static float in[SIDE][LARGE], out[SIDE][LARGE];
static int rank;

static void say_that_it_runs(const char *directory)
{
	char name[1024];
	FILE *file;

	snprintf(name, sizeof(name), "%s/running.%d", directory, rank);
	file = fopen(name, "w");
	if (file == NULL)
		return;
	fprintf(file, "%d\n", (int)getpid());
	fclose(file);
}

static bool exists(const char *directory, const char *file)
{
	char name[1024];

	snprintf(name, sizeof(name), "%s/%s", directory, file);
	return access(name, F_OK) == 0;
}

/* The ways to complete requests. Each returns the first error of a request. */

static int test_some(MPI_Request *requests)
{
	MPI_Status statuses[SIDE];
	int indices[SIDE], n_done = 0, error = MPI_SUCCESS;

	while (n_done != MPI_UNDEFINED) {
		int this = MPI_Testsome(SIDE, requests, &n_done, indices, statuses);

		for (int i = 0; this == MPI_ERR_IN_STATUS && i < n_done && error == MPI_SUCCESS;
		     i++)
			error = statuses[i].MPI_ERROR;
	}
	return error;
}

static int wait_any(MPI_Request *requests)
{
	int index = 0, error = MPI_SUCCESS;

	while (index != MPI_UNDEFINED) {
		int this = MPI_Waitany(SIDE, requests, &index, MPI_STATUS_IGNORE);

		error = error ? error : this;
	}
	return error;
}

static int wait_all(MPI_Request *requests)
{
	MPI_Status statuses[SIDE];
	int error = MPI_SUCCESS;

	if (MPI_Waitall(SIDE, requests, statuses) != MPI_ERR_IN_STATUS)
		return MPI_SUCCESS;
	for (int i = 0; i < SIDE && error == MPI_SUCCESS; i++)
		error = statuses[i].MPI_ERROR;
	return error;
}

static int wait_some(MPI_Request *requests)
{
	MPI_Status statuses[SIDE];
	int indices[SIDE], n_done, error = MPI_SUCCESS;

	if (MPI_Waitsome(SIDE, requests, &n_done, indices, statuses) == MPI_ERR_IN_STATUS)
		for (int i = 0; i < n_done && error == MPI_SUCCESS; i++)
			error = statuses[i].MPI_ERROR;
	MPI_Waitall(SIDE, requests, statuses);
	return error;
}

static int wait_each(MPI_Request *requests)
{
	int error = MPI_SUCCESS;

	for (int i = 0; i < SIDE; i++) {
		int this = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);

		error = error ? error : this;
	}
	return error;
}

static const struct {
	const char *name;
	int (*complete)(MPI_Request *requests);
} ways[] = {{"wait", wait_each},
	    {"waitall", wait_all},
	    {"waitsome", wait_some},
	    {"waitany", wait_any},
	    {"testsome", test_some}};

#define WAYS (sizeof(ways) / sizeof(ways[0]))
_Static_assert(WAYS <= SIDE, "each way has a buffer");

static void await_death(const char *directory)
{
	for (int i = 0; rank == 0 && i < 6000 && !exists(directory, "dead"); i++)
		usleep(10000);
}

static void tell(const char *what, int error)
{
	char text[MPI_MAX_ERROR_STRING] = "no error";
	int class = 0, length;

	if (error) {
		MPI_Error_string(error, text, &length);
		MPI_Error_class(error, &class);
		printf("rank %d: %sclass %s: %s\n", rank, what,
		       class > MPI_ERR_LASTCODE ? "new" : "of MPI's", text);
	} else {
		printf("rank %d: %sno error\n", rank, what);
	}
}

/* Each way has requests of its own, and the first of its array is none. */
static void fail_in_all_ways(const char *directory, MPI_Comm comm)
{
	MPI_Request requests[WAYS][SIDE];
	int error = MPI_SUCCESS;
	char what[32];

	for (size_t way = 0; way < WAYS; way++)
		for (int i = 0; i < SIDE; i++)
			requests[way][i] = MPI_REQUEST_NULL;
	say_that_it_runs(directory);
	await_death(directory);
	for (size_t way = 0; way < WAYS && error == MPI_SUCCESS; way++)
		error = MPI_Iallreduce(in[0], out[way], LARGE, MPI_FLOAT, MPI_SUM, comm,
				       &requests[way][1]);
	if (error)
		tell("start: ", error);
	for (size_t way = 0; way < WAYS && error == MPI_SUCCESS; way++) {
		snprintf(what, sizeof(what), "%s: ", ways[way].name);
		tell(what, ways[way].complete(requests[way]));
	}
	for (size_t way = 0; way < WAYS; way++)
		if (requests[way][1] != MPI_REQUEST_NULL)
			MPI_Request_free(&requests[way][1]);
}

/* The first error of a call, or of its requests. */
static int call(const char *how, MPI_Comm comm)
{
	MPI_Request requests[SIDE];
	int error = MPI_SUCCESS;

	if (strcmp(how, "blocking") == 0 || strcmp(how, "fatal") == 0)
		return MPI_Allreduce(in[0], out[0], LARGE, MPI_FLOAT, MPI_SUM, comm);
	if (strcmp(how, "reduce") == 0) {
		error = MPI_Reduce(in[0], out[0], LARGE, MPI_FLOAT, MPI_SUM, 0, comm);
		if (error == MPI_SUCCESS)
			error = MPI_Bcast(out[0], LARGE, MPI_FLOAT, 0, comm);
		return error;
	}
	if (strcmp(how, "types") == 0)
		return rank == 0 ? MPI_Bcast(out[0], LARGE, MPI_FLOAT, 0, comm)
				 : MPI_Bcast(out[0], LARGE / 2, MPI_DOUBLE, 0, comm);
	for (int i = 0; i < SIDE; i++) {
		requests[i] = MPI_REQUEST_NULL;
		if (error == MPI_SUCCESS)
			error = MPI_Iallreduce(in[i], out[i], LARGE, MPI_FLOAT, MPI_SUM, comm,
					       &requests[i]);
	}
	return error ? error : wait_all(requests);
}

/* Call until a call fails, or it is enough. */
static int fail_once(const char *how, const char *directory, MPI_Comm comm)
{
	int error = MPI_SUCCESS;

	say_that_it_runs(directory);
	for (int i = 0; i < MOST && error == MPI_SUCCESS && out[0][0] == 0; i++) {
		in[0][0] = rank == 0 && exists(directory, "enough");
		error = call(how, comm);
	}
	return error;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "blocking";
	const char *directory = argc > 2 ? argv[2] : ".";
	MPI_Comm comm;

	MPI_Init(&argc, &argv);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_rank(comm, &rank);
	if (strcmp(how, "fatal") != 0)
		MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	MPI_Allreduce(in[0], out[0], LARGE, MPI_FLOAT, MPI_SUM, comm);
	if (strcmp(how, "ways") == 0)
		fail_in_all_ways(directory, comm);
	else
		tell("", fail_once(how, directory, comm));
	/* Other communicators are unchanged. */
	MPI_Allreduce(in[0], out[0], 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Comm_free(&comm);
	MPI_Finalize();
	return 0;
}
