/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank's counters in a file for Prometheus' node exporter (SWITCHML_RECORD). A thread
 * writes it, so a disk that hangs delays nothing but sml_close().
 */
#ifndef SML_LIB_METRICS_FILE_H
#define SML_LIB_METRICS_FILE_H

#include <pthread.h>
#include <stdbool.h>

struct sml_context;

struct sml_metrics_file {
	char *path; /* NULL if there is none */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool runs, stops; /* stops: under the lock */
	/* Of the context, among those of the process that have a file; 0 if it has none. */
	unsigned number;
};

void sml_metrics_file_init(struct sml_metrics_file *file);

/*
 * The context runs: write the file from now on, if one is set. Returns 0 or a negative error, and
 * sets the error text.
 */
int sml_metrics_file_start(struct sml_context *context);

/* Remove the file. Before the job's shards are freed. Does nothing if it was not started. */
void sml_metrics_file_stop(struct sml_metrics_file *file);

/* Once it has been stopped. */
void sml_metrics_file_fini(struct sml_metrics_file *file);

#endif
