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
#include "lib/diagnose/scene.h"
#include "lib/diagnose/stall.h"

/* How long a failure waits for the switch to say what it knows, */
#define SML_ASK_NS (200 * SML_NS_PER_MS)
/* and for the file to be written. */
#define SML_RECORD_NS (100 * SML_NS_PER_MS)

/* A context's. Written by whoever fails it, once. */
struct sml_recorder {
	struct sml_scene scene;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool started, done; /* under the lock */
	int error;
	const char *text;
	struct sml_stall_reports reports;
};

/*
 * The job has failed, every shard has stopped, and text says why: log, and
 * record. Waits for the file, up to SML_RECORD_NS. text must live as long as the
 * context.
 */
void sml_recorder_record(struct sml_recorder *recorder, const struct sml_scene *scene, int error,
			 const char *text, const struct sml_stall_reports *reports);

void sml_recorder_init(struct sml_recorder *recorder);

/* Waits for the file. */
void sml_recorder_fini(struct sml_recorder *recorder);

#endif
