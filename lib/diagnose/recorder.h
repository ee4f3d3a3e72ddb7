/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The flight recorder: when a job fails, what every slot was waiting for goes
 * to the log in a few lines, and whole into a file if one was asked for
 * (SWITCHML_FLIGHT_RECORDER). docs/errors.md shows one.
 *
 * The file is written by a thread of its own: a disk that hangs delays nobody
 * for longer than SML_RECORD_NS, only sml_close().
 */
#ifndef SML_LIB_RECORDER_H
#define SML_LIB_RECORDER_H

#include <pthread.h>

#include "base/clock.h"
#include "lib/diagnose/stall.h"

/* How long a failure waits for the switch to say what it knows, */
#define SML_ASK_NS (200 * SML_NS_PER_MS)
/* and for the file to be written. */
#define SML_RECORD_NS (100 * SML_NS_PER_MS)

/* A context's. Written by whoever fails it, once. */
struct sml_recorder {
	pthread_t thread;
	bool started, done; /* under the context's lock */
	int error;
	const char *text;
	struct sml_stall_reports reports;
};

/*
 * The path with this rank in the place of %r, and % for %%. To be freed; NULL:
 * no memory, or (*wrong is set) something else follows a %.
 */
char *sml_recorder_path(const char *pattern, int rank, bool *wrong);

/*
 * The job has failed, every shard has stopped, and text says why: log, and
 * record. Waits for the file, up to SML_RECORD_NS. text must live as long as the
 * context.
 */
void sml_recorder_record(struct sml_context *context, int error, const char *text,
			 const struct sml_stall_reports *reports);

/* Waits for the file. */
void sml_recorder_fini(struct sml_context *context);

#endif
