/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs for tests: the ranks are threads of this process, each with a context of
 * its own. They note what went wrong; the test looks when all have ended.
 */
#ifndef SML_TESTS_RANKS_H
#define SML_TESTS_RANKS_H

#include <stdbool.h>
#include <stdint.h>

#include "switchml.h"

struct rank;

struct job {
	int n_ranks;
	const char *name;	    /* NULL: "test" */
	const char *switch_address; /* NULL: embedded */
	const char *master_address; /* NULL: the default */
	const char *faults;
	const char *flight_recorder;
	int threads;	  /* 0: 1 */
	int timeout_ms;	  /* 0: 60 s, which no stall of a busy machine reaches */
	int heartbeat_ms; /* 0: 20 s, likewise */
	int port;	  /* 0: a free one is found */
	int elsewhere;	  /* bit r: rank r is another process's */
	void (*body)(struct rank *rank);
	void *argument;
	uint32_t *hash; /* NULL, or gets that of all ranks' results */
};

struct rank {
	const struct job *job;
	struct sml_context *context;
	int rank, n;
	int closed;	     /* what sml_close() returned */
	uint32_t hash;	     /* of all results: must be the same on all ranks */
	char complaint[512]; /* the first check that failed; "" if none did */
};

/* Run a job whose ranks all open a context, run the body and close; assert that none complains. */
void run_job(const struct job *job);

/* Several at once. */
void run_jobs(struct job *jobs, unsigned n);

/* One rank of a job in this thread, for children. 0 if it has no complaint. */
int run_rank(const struct job *job, int rank);

/*
 * A port that nobody listens at, and that nobody but those who ask for it by number gets:
 * it is held until many more have been asked for.
 */
int free_port(void);

/* A configuration of the job's. */
void configure(struct sml_config *config, const struct job *job, int rank);

__attribute__((format(printf, 2, 3))) void complain(struct rank *rank, const char *format, ...);

uint64_t now_ms(void);

/* Until the rank's context has failed, for whatever reason. */
void wait_until_told(struct rank *rank);

#define CHECK(rank, condition)                                                                     \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			complain(rank, "%s:%d: %s: %s", __FILE__, __LINE__, #condition,            \
				 sml_error_text((rank)->context));                                 \
			return;                                                                    \
		}                                                                                  \
	} while (0)

#endif
