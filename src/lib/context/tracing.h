/* SPDX-License-Identifier: BSD-3-Clause */
/* A context's trace, if SWITCHML_RECORD asks for one: a file, and events of each thread. */
#ifndef SML_LIB_TRACING_H
#define SML_LIB_TRACING_H

#include "core/wire.h"

struct sml_context;
struct sml_trace;

struct sml_tracing {
	int fd;	    /* of the file; -1 if there is no trace */
	char *path; /* its name, for texts */
	struct sml_trace *traces[SML_MAX_SHARDS];
	unsigned n;
};

void sml_tracing_init(struct sml_tracing *tracing);

/* Creates the file. Returns 0 or a negative error, and sets the error text. */
int sml_tracing_open(struct sml_context *context);

/* Room for another thread's events. Returns 0 or a negative error, and sets the error text. */
int sml_tracing_add_thread(struct sml_context *context);

/* Write the file, and free everything. Call this when no thread runs any more. */
void sml_tracing_fini(struct sml_context *context);

#endif
