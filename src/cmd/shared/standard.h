/* SPDX-License-Identifier: BSD-3-Clause */
/* Standard input, output and error, which may be closed. */
#ifndef SML_CMD_SHARED_STANDARD_H
#define SML_CMD_SHARED_STANDARD_H

/*
 * At the start: no socket may get the numbers of these descriptors, or messages would go to a
 * switch. Those that are closed still fail like closed ones.
 */
void sml_standard_hold(void);

/*
 * At the end of a command that writes a report: one that nobody can read is a failure, and told.
 * Returns the exit status, of which `status` is the rest.
 */
int sml_standard_finish(const char *command, int status);

#endif
