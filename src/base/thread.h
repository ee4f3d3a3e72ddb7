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

/*
 * Call this from time to time in a thread of sml_thread_start(). If all other threads of the
 * application have ended, the main one with pthread_exit(), no thread would receive the
 * application's signals, not even SIGTERM. Then this thread receives them from now on, with the
 * signal mask of the thread that started it.
 */
void sml_thread_take_signals(void);

/*
 * In a public function that may wait: until it returns, pthread_cancel() does not end its thread,
 * which may hold locks. A cancellation takes effect after the call.
 */
#define SML_NO_CANCELLATION                                                                        \
	int cancel_state __attribute__((cleanup(sml_thread_end_call), unused)) =                   \
		sml_thread_begin_call()

int sml_thread_begin_call(void);
void sml_thread_end_call(const int *state);

/* Its timed waits use the clock of sml_now_ns(). */
void sml_cond_init(pthread_cond_t *condition);

#endif
