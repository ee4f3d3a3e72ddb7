/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lets the n-th allocation, system call, or descriptor of this process fail. A program that
 * links this code uses its malloc(), socket() and so on instead of libc's. So do all shared
 * libraries, including libevent and protobuf-c.
 *
 * Only the armed kind of call is counted, over all threads.
 */
#ifndef SML_TESTS_FAIL_NTH_H
#define SML_TESTS_FAIL_NTH_H

#include <stdbool.h>

/* FAIL_DESCRIPTORS: the system calls that make descriptors. */
enum fail_what { FAIL_ALLOCATIONS, FAIL_SYSTEM_CALLS, FAIL_DESCRIPTORS };

/* Let the n-th call from now on fail, counted from 1. onwards: all later calls fail, too. */
void fail_arm(enum fail_what what, unsigned n, bool onwards);

/* No call fails any more. Returns the number of calls counted since fail_arm(). */
unsigned fail_disarm(void);

/*
 * The first call that failed, and its caller: "epoll_ctl() called by event_add". "" if none
 * failed.
 */
const char *fail_culprit(void);

/* This thread's calls belong to the test: they do not count and do not fail. */
void fail_exempt(bool exempt);

#endif
