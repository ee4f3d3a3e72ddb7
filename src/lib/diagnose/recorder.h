/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The flight recorder: when a job fails, it logs in a few lines what the slots
 * were waiting for, and writes everything to a file if one is set
 * (SWITCHML_RECORD). docs/errors.md shows one.
 *
 * A separate thread writes the file: a disk that hangs delays a call by at most
 * SML_RECORD_NS, and sml_close() until it is written.
 */
#ifndef SML_LIB_RECORDER_H
#define SML_LIB_RECORDER_H

#include <pthread.h>

#include "base/clock.h"
#include "lib/diagnose/stall.h"

/* How long a failure waits for the switch's report, */
#define SML_ASK_NS (200 * SML_NS_PER_MS)
/* and for the file to be written. */
#define SML_RECORD_NS (100 * SML_NS_PER_MS)

/* A context's recorder. The thread that fails the context writes it, once. */
struct sml_recorder {
	struct sml_snapshot snapshot;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool started, done; /* under the lock */
	int error;
	const char *text;
};

/*
 * The job has failed, every shard has stopped, and text says why: log and
 * record that. Waits for the file, up to SML_RECORD_NS. text must live as long
 * as the context. Closes the snapshot's reports at the end.
 */
void sml_recorder_record(struct sml_recorder *recorder, const struct sml_snapshot *snapshot,
			 int error, const char *text);

void sml_recorder_init(struct sml_recorder *recorder);

/* Waits for the file. */
void sml_recorder_fini(struct sml_recorder *recorder);

#endif
