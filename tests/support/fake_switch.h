/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What listens where a rank looks for its switch, but is none: a test decides what it answers, to
 * one connection. Any failure in here fails the test.
 */
#ifndef SML_TESTS_FAKE_SWITCH_H
#define SML_TESTS_FAKE_SWITCH_H

#include <pthread.h>
#include <stdint.h>

#include "control/stream.h"

struct fake_switch {
	/* Serves the connection, which is closed when it returns. Called in a thread. */
	void (*serve)(struct fake_switch *fake, int fd);
	/* Gets what comes over the connection, if serve is fake_switch_read(). */
	void (*hear)(void *self, int fd, const SmlControl__Envelope *message);
	void *self;	  /* the test's own */
	char address[32]; /* as in SWITCHML_SWITCH */
	int listen_fd;
	pthread_t thread;
};

/* Set serve and what it needs before. */
void fake_switch_open(struct fake_switch *fake);
/* Waits until the connection has been served. */
void fake_switch_close(struct fake_switch *fake);

/* A way to serve: pass each message to hear(), until the peer has closed the connection. */
void fake_switch_read(struct fake_switch *fake, int fd);

/* Returns a socket that listens on the loopback interface, and its port. */
int listen_on_loopback(uint16_t *port);

#endif
