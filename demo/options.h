/* SPDX-License-Identifier: BSD-3-Clause */
/* What the command line asked for. */
#ifndef SML_DEMO_OPTIONS_H
#define SML_DEMO_OPTIONS_H

#include "switchml.h"

#define DEMO_NAME "switchml-demo"

struct demo_options {
	int workers; /* 0: not said */
	int steps;
	unsigned drop, duplicate, reorder; /* packets of a million */
	int link_mbit;			   /* rate of each worker's link, Mbit/s; 0: not said */
	enum sml_wire wire;		   /* DEFAULT: not said */
	const char *switch_address;	   /* NULL: embedded in rank 0 */
	const char *json;		   /* file to write, "-" is stdout; NULL: none */
};

/* Exits, as argp does, on --help and on mistakes. Strings point into argv. */
void demo_options_parse(struct demo_options *options, int argc, char **argv);

#endif
