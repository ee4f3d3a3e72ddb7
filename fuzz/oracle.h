/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a stateful property needs besides what it looks at: time that passes when the
 * property says so, the longest turn of the event loop, and the bytes in use.
 *
 * A turn is what an event loop does between two looks at its sockets. So this stands in
 * front of libc's epoll_wait(), poll() and clock_gettime(). In the thread that called
 * oracle_begin(), and until oracle_end():
 *
 *	the monotonic clock has the time at the beginning, plus the processor time that the
 *	thread has used since, plus what has been passed: a process that is stopped, or a
 *	busy machine, changes nothing, and a replay sees the same times again
 *	a wait does not wait: where nothing is ready, its timeout has passed
 */
#ifndef SML_FUZZ_ORACLE_H
#define SML_FUZZ_ORACLE_H

#include <stddef.h>
#include <stdint.h>

void oracle_begin(void);
void oracle_end(void);

/* So much time passes. */
void oracle_pass(uint64_t ns);

/* The event loop has returned: its last turn is over. */
void oracle_returned(void);

/*
 * Independent of the above: each wait of this thread calls act() first, and then lasts a
 * millisecond at most. act NULL: no more. So one thread can be both ends of a connection.
 */
void oracle_on_wait(void (*act)(void *self), void *self);

/* Since oracle_begin(): processor time of the longest turn, and how many there were. */
uint64_t oracle_longest_turn_ns(void);
uint64_t oracle_turns(void);

/* Bytes that the process has allocated, and not freed. */
size_t oracle_live_bytes(void);

/*
 * What a turn may take here: 10 ms on the machine that this was written on. Three times as
 * long where it is slower or busy; sanitizers and coverage make it ten times as long.
 */
#define ORACLE_TURN_NS	       UINT64_C(10000000)
#define ORACLE_SLOW_MACHINE_BY 3
#define ORACLE_SLOW_BUILD_BY   10
uint64_t oracle_turn_limit_ns(void);

/*
 * Does a turn take too long, and not only because of the machine? run() does the same again,
 * with the same choices, as often as that takes: at most ORACLE_TRIES times. Noise (an
 * interrupt, a page fault, a cold cache) goes away; a defect stays.
 */
#define ORACLE_TRIES 6

#endif
