/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank of test_exhaustion.c: what it does, and what came of it. */
#ifndef SML_TESTS_EXHAUSTION_RANK_H
#define SML_TESTS_EXHAUSTION_RANK_H

#include <pthread.h>
#include <stdbool.h>

#include "support/ranks.h"

#define TIMEOUT_MS 400

struct body {
	struct job job;
	int rank;
	bool calls;	     /* false: it opens, waits a little and closes */
	bool calls_all;	     /* every function of the interface */
	void (*loses)(void); /* NULL; or between the calls, rank 0 lets the switch die */
	char complaint[384]; /* a wrong report; "" is good */
	int opened, reduced, closed;
};

extern char last_errors[2][160]; /* the last error text of each rank */
extern pthread_barrier_t begin;	 /* of two ranks */

void run_body(struct body *body);

/* A wrong report, unless there was one before. */
void lie(struct body *body, const char *what, int result, const char *text);

#endif
