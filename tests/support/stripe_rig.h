/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One stripe of a context, with its progress threads, but without a switch or a network. The
 * transports carry nothing and count who uses them. For tests of what a failover does to a
 * stripe.
 */
#ifndef SML_TESTS_STRIPE_RIG_H
#define SML_TESTS_STRIPE_RIG_H

#include <semaphore.h>

#include "lib/context/context.h"

struct stripe_rig {
	struct sml_context context;
	struct sml_stripe stripe;
	bool foreign;	   /* atomic: the failover owns the workers */
	unsigned n_abuses; /* atomic: rounds in which a thread used a worker that it did not own */
	bool holds;	   /* atomic: a thread that is about to park or unpark waits for `go` */
	sem_t held, go;
};

/* The threads exist and have not started. */
void stripe_rig_open(struct stripe_rig *rig, unsigned n_shards);
void stripe_rig_close(struct stripe_rig *rig);

struct sml_transport *stripe_rig_transport(struct stripe_rig *rig);

#endif
