/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of the command line. */
#ifndef SML_DEMO_OPTIONS_H
#define SML_DEMO_OPTIONS_H

#include "switchml.h"

#define DEMO_NAME	 "switchml-demo"
#define DEMO_MAX_WORKERS 64

struct demo_options {
	int workers; /* 0 if not given */
	int steps;
	unsigned drop, duplicate, reorder; /* per million packets */
	int link_mbit;			   /* rate of each worker's link, Mbit/s; 0 if not given */
	enum sml_wire wire;		   /* DEFAULT: not given */
	const char *switch_address;	   /* NULL if it is embedded in rank 0 */
	const char *gloo;		   /* folder of a FileStore; NULL if the switch sums */
	const char *json;		   /* file to write, "-" is stdout; NULL for no file */
};

/* Exits on --help and on mistakes, as argp does. Strings point into argv. */
void demo_options_parse(struct demo_options *options, int argc, char **argv);

#endif
