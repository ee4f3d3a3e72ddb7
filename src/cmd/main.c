/* SPDX-License-Identifier: BSD-3-Clause */
/* The program `switchml`: finds the sub-command and hands over to it. */
#include <argp.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cmd/shared/command.h"
#include "control/release.h"
#include "lib/settings/unknown.h"

struct command {
	const char *name;
	const char *purpose;
	int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
	{"switch", "run a switch that adds up the workers' packets", sml_command_switch},
	{"bench", "measure collectives, and check every result", sml_command_bench},
	{"status", "show the jobs and counters of a running switch", sml_command_status},
#ifdef SML_HAVE_TOP
	{"top", "show live what switches, jobs and ranks do", sml_command_top},
#endif
	{"doctor", "look for common problems, and say how to fix them", sml_command_doctor},
	{"trace", "put the traces of all ranks on one clock", sml_command_trace},
};

/* The exit status for an invalid command, option or value. */
#define USAGE 2

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const char *command_name(size_t i)
{
	return i < N_COMMANDS ? commands[i].name : NULL;
}

static void print_help(FILE *out)
{
	fprintf(out, "Usage: switchml COMMAND [OPTION...]\n"
		     "All-reduce, summed in the network.\n\n");
	for (size_t i = 0; i < N_COMMANDS; i++)
		fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].purpose);
	fprintf(out, "\n`switchml COMMAND --help' or `switchml help COMMAND' lists a command's "
		     "options,\n"
		     "and `switchml --version' says which release this is. After an installation,\n"
		     "`man switchml-COMMAND' says more.\n");
}

/* argp answers every command's --version with it, and looks for a global variable of this name. */
static void print_version(FILE *out, struct argp_state *state)
{
	(void)state;
	fprintf(out, "switchml %s\n", sml_release_text());
}

__attribute__((visibility("default"))) void (*argp_program_version_hook)(
	FILE *, struct argp_state *) = print_version;

static void warn(void *self, const char *text)
{
	fprintf(stderr, "%s: warning: %s\n", (const char *)self, text);
}

static bool is_help(const char *word)
{
	return !strcmp(word, "--help") || !strcmp(word, "-h");
}

/* Which command is asked for help: `switchml help bench', `switchml bench -h'; NULL: none. */
static char *helped(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "help"))
		return argv[2];
	for (int i = 2; i < argc; i++)
		if (is_help(argv[i]))
			return argv[1];
	return NULL;
}

int main(int argc, char **argv)
{
	static char name[64], help[] = "--help";
	char meant[SML_MEANT_BYTES];
	char *two[] = {argv[0], helped(argc, argv), help, NULL};
	const char *asked = argc > 1 ? argv[1] : "";
	int status;

	sml_standard_hold();
	/* Columns of texts: cmd/shared/columns.c. */
	setlocale(LC_CTYPE, "");
	argp_err_exit_status = USAGE;
	if (is_help(asked) || (!strcmp(asked, "help") && argc == 2)) {
		print_help(stdout);
		return 0;
	}
	if (two[1] != NULL) {
		asked = two[1];
		argv = two;
		argc = 3;
	}
	if (!strcmp(asked, "--version") || !strcmp(asked, "-V")) {
		print_version(stdout, NULL);
		return 0;
	}
	for (size_t i = 0; i < N_COMMANDS; i++) {
		if (strcmp(asked, commands[i].name) != 0)
			continue;
		/* The program's name in argp's messages. */
		snprintf(name, sizeof(name), "switchml %s", commands[i].name);
		argv[1] = name;
		sml_variables_check(warn, name);
		status = commands[i].run(argc - 1, argv + 1);
		/* A switch serves without its output, too. */
		return commands[i].run == sml_command_switch
			       ? status
			       : sml_standard_finish(commands[i].name, status);
	}
	if (*asked)
		fprintf(stderr, "switchml: there is no command '%s'%s\n", asked,
			sml_meant(asked, command_name, meant));
	print_help(stderr);
	return USAGE;
}
