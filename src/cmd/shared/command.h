/* SPDX-License-Identifier: BSD-3-Clause */
/* The sub-commands of `switchml`, and what all of them do. */
#ifndef SML_CMD_SHARED_COMMAND_H
#define SML_CMD_SHARED_COMMAND_H

#include <argp.h>
#include <stddef.h>

/* Each gets its own name as argv[0] and returns the exit status. */
int sml_command_switch(int argc, char **argv);
int sml_command_bench(int argc, char **argv);
int sml_command_status(int argc, char **argv);
int sml_command_doctor(int argc, char **argv);
int sml_command_trace(int argc, char **argv);
int sml_command_top(int argc, char **argv);

/* ---- typing errors on a command line, or in a file ---- */

#define SML_MEANT_BYTES 96

/*
 * ": did you mean NAME?", the name that comes closest of those that name_of() knows up to the first
 * NULL; "" if none is close.
 */
const char *sml_meant(const char *name, const char *(*name_of)(size_t i),
		      char text[SML_MEANT_BYTES]);

/*
 * argp_parse(), which ends the program at an option that there is not. If one is close to it, this
 * says so.
 */
void sml_options_parse(const struct argp *argp, int argc, char **argv, void *input);

/* ---- standard input, output and error, which may be closed ---- */

/*
 * At the start: no socket may get the numbers of these descriptors, or messages would go to a
 * switch. Those that are closed still fail like closed ones.
 */
void sml_standard_hold(void);

/*
 * Call this at the end of a command that writes a report: if it could not be written, this prints
 * an error. Returns the exit status, which is `status` if all was written.
 */
int sml_standard_finish(const char *command, int status);

#endif
