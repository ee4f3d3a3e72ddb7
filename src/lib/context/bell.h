/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An eventfd for programs with their own event loop: it becomes readable when calls have ended. It
 * is not a count of calls.
 *
 * The invariant: the bell is made and rung only under the context's lock. So a program that opens
 * it and then tests its requests misses no call that ends: a thread that found no bell had released
 * the lock before that, and its tensor was already done.
 */
#ifndef SML_LIB_BELL_H
#define SML_LIB_BELL_H

struct sml_bell {
	int fd; /* -1 if nobody has asked for it */
};

void sml_bell_init(struct sml_bell *bell);

/* Returns the bell's descriptor, which is readable at first, or -errno. */
int sml_bell_open(struct sml_bell *bell);

/* Does nothing if it was never opened. Never waits. */
void sml_bell_ring(const struct sml_bell *bell);

void sml_bell_fini(struct sml_bell *bell);

#endif
