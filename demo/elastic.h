/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `switchml-demo --elastic`: a worker is killed while all train, the others go on with the next
 * step, and the worker comes back. This process starts the workers, and says who the members of
 * the job are, as a launcher would (docs/elastic.md). With --switch-decides, it only says when to
 *go on: the members ask the switch, and a new worker waits there.
 *
 *	launcher                         worker
 *	                 <-----------    READY
 *	an order         ----------->    joins this membership, and shares the model
 *	                 <-----------    JOINED: from which step all go on
 *	                 <-----------    STEPPED: the first step of this membership is done
 *	                 <-----------    FAILED, or STOPPED after the order's last step or a wish
 */
#ifndef SML_DEMO_ELASTIC_H
#define SML_DEMO_ELASTIC_H

#include <stdint.h>

#include "demo/options.h"

struct demo_order {
	int membership, rank, world;
	int last; /* stop after this step; 0 to close the job, and end */
};

struct demo_answer {
	enum demo_event {
		DEMO_READY,
		DEMO_JOINED,
		DEMO_STEPPED,
		DEMO_FAILED_CALL,
		DEMO_STOPPED
	} what;
	int membership;
	int step; /* that many are done */
	double at, loss, accuracy;
	uint64_t hash; /* of the parameters */
	char text[600];
};

/* Returns the exit status: DEMO_GOOD if all went on, and all have the same bits. */
int demo_elastic(const struct demo_options *options, const struct sml_config *config);

/*
 * A worker's process: obeys orders from this socket until it has ended, and returns the exit
 * status. SIGUSR1 to rank 0 makes all members stop after the same step. *step: how many are done,
 * for others to see.
 */
int demo_elastic_worker(const struct demo_options *options, const struct sml_config *config, int fd,
			int *step);

#endif
