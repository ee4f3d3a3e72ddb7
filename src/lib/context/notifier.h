/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An eventfd for programs with their own event loop: it becomes readable when calls have ended. It
 * is not a count of calls.
 *
 * The invariant: the notifier is made and notified only under the context's lock. So a program that
 * opens it and then tests its requests misses no call that ends: a thread that found no notifier
 * had released the lock before that, and its tensor was already done.
 */
#ifndef SML_LIB_NOTIFIER_H
#define SML_LIB_NOTIFIER_H

struct sml_notifier {
	int fd; /* -1 if nobody has asked for it */
};

void sml_notifier_init(struct sml_notifier *notifier);

/* Returns the notifier's descriptor, which is readable at first, or -errno. */
int sml_notifier_open(struct sml_notifier *notifier);

/* Does nothing if it was never opened. Never waits. */
void sml_notifier_notify(const struct sml_notifier *notifier);

void sml_notifier_fini(struct sml_notifier *notifier);

#endif
