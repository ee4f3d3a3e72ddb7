/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sub-commands of `switchml`. Each gets its own name as argv[0] and returns
 * the exit status.
 */
#ifndef SML_CMD_COMMANDS_H
#define SML_CMD_COMMANDS_H

int sml_command_switch(int argc, char **argv);
int sml_command_bench(int argc, char **argv);
int sml_command_status(int argc, char **argv);
int sml_command_doctor(int argc, char **argv);
int sml_command_trace(int argc, char **argv);
int sml_command_top(int argc, char **argv);

#endif
