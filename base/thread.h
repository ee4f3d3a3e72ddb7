/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that do not receive the application's signals, and condition
 * variables on our clock.
 */
#ifndef SML_BASE_THREAD_H
#define SML_BASE_THREAD_H

#include <pthread.h>

/*
 * Start a thread with all signals blocked, because they belong to the
 * application. Returns 0 or -errno.
 */
int sml_thread_start(pthread_t *thread, const char *name, void *(*body)(void *), void *argument);

/* Its timed waits use the clock of sml_now_ns(). */
void sml_cond_init(pthread_cond_t *condition);

#endif
