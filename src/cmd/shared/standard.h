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
 * Call this at the end of a command that writes a report: if it could not be written, this prints
 * an error. Returns the exit status, which is `status` if all was written.
 */
int sml_standard_finish(const char *command, int status);

#endif
