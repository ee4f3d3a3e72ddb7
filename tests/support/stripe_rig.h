/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One stripe of a context, with its progress threads, and neither a switch nor a network: the
 * transports carry nothing, and count who uses them. For tests of what a failover does to it.
 */
#ifndef SML_TESTS_STRIPE_RIG_H
#define SML_TESTS_STRIPE_RIG_H

#include <semaphore.h>

#include "lib/context/context.h"

struct stripe_rig {
	struct sml_context context;
	struct sml_stripe stripe;
	bool foreign;	   /* atomic: the workers are the failover's */
	unsigned n_abuses; /* atomic: rounds of a thread with one that was not its own */
	bool holds;	   /* atomic: a thread that is about to park or unpark waits for `go` */
	sem_t held, go;
};

/* Threads are there, and not started. */
void stripe_rig_open(struct stripe_rig *rig, unsigned n_shards);
void stripe_rig_close(struct stripe_rig *rig);

struct sml_transport *stripe_rig_transport(struct stripe_rig *rig);

#endif
