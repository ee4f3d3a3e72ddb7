/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that stay out of the application's way, and conditions on our clock. */
#ifndef SML_BASE_THREAD_H
#define SML_BASE_THREAD_H

#include <pthread.h>

/* A thread with all signals blocked: they are the application's. 0 or -errno. */
int sml_thread_start(pthread_t *thread, const char *name, void *(*body)(void *), void *argument);

/* Its timed waits take sml_now_ns()'s time. */
void sml_cond_init(pthread_cond_t *condition);

#endif
