/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The n-th allocation, or the n-th system call, of this process fails. A program
 * that links this has its own malloc() and socket() and so on in front of libc's,
 * for itself and for every shared library, libevent's and protobuf-c's calls included.
 *
 * Only what is armed is counted, over all threads.
 */
#ifndef SML_TESTS_FAIL_NTH_H
#define SML_TESTS_FAIL_NTH_H

#include <stdbool.h>

enum fail_what { FAIL_ALLOCATIONS, FAIL_SYSTEM_CALLS };

/* The n-th from now on fails, n from 1; onwards: and all after it. */
void fail_arm(enum fail_what what, unsigned n, bool onwards);

/* Nothing fails any more. Returns how many calls were counted since fail_arm(). */
unsigned fail_disarm(void);

/* Which call failed first, and who made it: "epoll_ctl() called by event_add". "" if none did. */
const char *fail_culprit(void);

/* This thread's calls are the test's own: they neither count nor fail. */
void fail_exempt(bool exempt);

#endif
