/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that start others, and add with them: no launcher's variable describes the merged ranks. */
#include "program.h"

static float send_data[LARGE], recv_data[LARGE];

/* The children's environment is the launcher's, without what was set for this program alone. */
static MPI_Comm spawn(char *program, int n)
{
	static const char *const passed[] = {"LD_PRELOAD", "SWITCHML_MPI_THRESHOLD"};
	char setting[2][4096], env[] = "env";
	char *arguments[] = {setting[0], setting[1], program, NULL};
	MPI_Comm children;

	for (int i = 0; i < 2; i++) {
		const char *value = getenv(passed[i]);

		snprintf(setting[i], sizeof(setting[i]), "%s=%s", passed[i], value ? value : "");
	}
	MPI_Comm_spawn(env, arguments, n, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
		       MPI_ERRCODES_IGNORE);
	return children;
}

int main(int argc, char **argv)
{
	MPI_Comm others, merged;
	int rank, n_ranks, all, is_child;

	MPI_Init(&argc, &argv);
	MPI_Comm_get_parent(&others);
	is_child = others != MPI_COMM_NULL;
	if (!is_child)
		others = spawn(argv[0], 2);
	MPI_Intercomm_merge(others, is_child, &merged);
	MPI_Comm_rank(merged, &rank);
	MPI_Comm_size(merged, &n_ranks);
	for (int round = 0; round < 5; round++) {
		fill(send_data, LARGE, rank, round);
		MPI_Allreduce(send_data, recv_data, LARGE, MPI_FLOAT, MPI_SUM, merged);
		check_sum("merged", recv_data, LARGE, n_ranks, round);
	}
	MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, merged);
	if (rank == 0)
		wrong = all;
	MPI_Comm_free(&merged);
	MPI_Comm_disconnect(&others);
	if (!is_child)
		return end();
	MPI_Finalize();
	return wrong > 0;
}
