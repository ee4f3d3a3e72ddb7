/* SPDX-License-Identifier: BSD-3-Clause */
/* Typing errors on a command line, or in a file. */
#ifndef SML_CMD_SHARED_MEANT_H
#define SML_CMD_SHARED_MEANT_H

#include <argp.h>
#include <stddef.h>

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

#endif
