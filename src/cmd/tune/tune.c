/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `switchml tune`: run switchml-mpi-tune on every rank, through MPI's launcher. This program itself
 * does not use MPI.
 */
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/commands.h"

#define MEASURES "switchml-mpi-tune"
/* What this command adds to the launcher's words, at most. */
#define OWN_WORDS 16

struct options {
	const char *words[OWN_WORDS]; /* for the program that measures */
	int n;
	char **launcher;
	int n_launcher;
};

static const struct argp_option option_list[] = {
	{"output", 'o', "FILE", 0,
	 "write the table to this file on rank 0's host (standard output)", 0},
	{"append", 'a', 0, 0, "append to the file", 0},
	{"minbytes", 'b', "BYTES", 0, "smallest size (1K), a multiple of 8", 0},
	{"maxbytes", 'e', "BYTES", 0, "largest size (4M); each size is 4 times the previous one",
	 0},
	{"seconds", 's', "SECONDS", 0, "time for each size (0.5)", 0},
	{"type", 't', "TYPE", 0, "measure this type only: float32, float64, int32, ...", 0},
	{0},
};

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	static const char *const flags[] = {
		['o'] = "-o", ['a'] = "-a", ['b'] = "-b", ['e'] = "-e", ['s'] = "-s", ['t'] = "-t"};
	struct options *options = state->input;

	switch (key) {
	case 'o':
	case 'b':
	case 'e':
	case 's':
	case 't':
	case 'a':
		if (options->n + 2 > OWN_WORDS)
			argp_error(state, "there are too many options; see --help");
		options->words[options->n++] = flags[key];
		if (argument)
			options->words[options->n++] = argument;
		return 0;
	case ARGP_KEY_ARGS:
		options->launcher = state->argv + state->next;
		options->n_launcher = state->argc - state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state,
			   "name the launcher after the options, for example: -- mpirun -n 8 "
			   "--hostfile FILE");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Beside this program, as installed, or where a build has it. */
static bool find_program(char *path, size_t bytes)
{
	static const char *const places[] = {"", "bindings/mpi/"};
	char own[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);

	if (length <= 0)
		return false;
	own[length] = '\0';
	*(strrchr(own, '/') + 1) = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (snprintf(path, bytes, "%s%s" MEASURES, own, places[i]) < (int)bytes &&
		    access(path, X_OK) == 0)
			return true;
	}
	return false;
}

int sml_command_tune(int argc, char **argv)
{
	static const struct argp argp = {
		option_list,
		parse_option,
		"-- LAUNCHER [ITS OPTION...]",
		"Find the size from which an MPI program's all-reduces are no slower through the "
		"switch, and write the table that SWITCHML_MPI_TABLE names.\v"
		"Example: switchml tune -o table -- mpirun -n 8 --hostfile hosts -x "
		"SWITCHML_SWITCH=box\n\n"
		"It measures with the first 2, 4, 8, … ranks, and with all of them. "
		"The program " MEASURES " must have the same path on all hosts.",
		NULL,
		NULL,
		NULL};
	struct options options = {0};
	char path[PATH_MAX];
	const char **words;
	int n = 0;

	if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &options))
		return 2;
	if (!find_program(path, sizeof(path))) {
		fprintf(stderr,
			"switchml tune: " MEASURES " is not in the directory of this program. "
			"Install an MPI and build again (docs/mpi.md)\n");
		return 1;
	}
	words = calloc((size_t)options.n_launcher + OWN_WORDS + 2, sizeof(*words));
	if (words == NULL) {
		fprintf(stderr, "switchml tune: no memory\n");
		return 1;
	}
	for (int i = 0; i < options.n_launcher; i++)
		words[n++] = options.launcher[i];
	words[n++] = path;
	for (int i = 0; i < options.n; i++)
		words[n++] = options.words[i];
	execvp(words[0], (char *const *)words);
	fprintf(stderr, "switchml tune: cannot run the launcher %s: %s\n", words[0],
		strerror(errno));
	free(words);
	return 1;
}
