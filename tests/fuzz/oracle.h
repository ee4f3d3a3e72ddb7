/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a stateful property needs: time that passes when the property says so, the longest
 * turn of the event loop, and the number of bytes in use.
 *
 * A turn is what an event loop does between two checks of its sockets. To measure turns,
 * this file replaces libc's epoll_wait(), poll() and clock_gettime(). In the thread that
 * called oracle_begin(), and until oracle_end():
 *
 *	the monotonic clock is the time at the beginning, plus the processor time that the
 *	thread has used since, plus the time passed by oracle_pass(): a stopped process or a
 *	busy machine changes nothing, and a replay sees the same times again
 *	a wait returns at once: if nothing is ready, its timeout has passed
 */
#ifndef SML_FUZZ_ORACLE_H
#define SML_FUZZ_ORACLE_H

#include <stddef.h>
#include <stdint.h>

void oracle_begin(void);
void oracle_end(void);

/* Let this much time pass. */
void oracle_pass(uint64_t ns);

/* The event loop has returned, so its last turn is over. */
void oracle_returned(void);

/*
 * Independent of the above: each wait of this thread calls act() first, and then lasts at
 * most one millisecond. act NULL: stop this. So one thread can be both ends of a connection.
 */
void oracle_on_wait(void (*act)(void *self), void *self);

/* Since oracle_begin(): processor time of the longest turn, and the number of turns. */
uint64_t oracle_longest_turn_ns(void);
uint64_t oracle_turns(void);

/* Bytes that the process has allocated and not freed. */
size_t oracle_live_bytes(void);

/*
 * The longest time for a turn: 10 ms on the developer's machine. A slower or busy machine
 * gets three times as much. Builds with sanitizers or coverage get ten times as much.
 */
#define ORACLE_TURN_NS	       UINT64_C(10000000)
#define ORACLE_SLOW_MACHINE_BY 3
#define ORACLE_SLOW_BUILD_BY   10
uint64_t oracle_turn_limit_ns(void);

/* What a run found: what is wrong (NULL: nothing), and its longest turn. */
struct oracle_verdict {
	const char *wrong;
	uint64_t longest_turn_ns;
};

/*
 * What is wrong with a run, NULL: nothing. If a turn took longer than the limit, the same choices
 * are made again, at most ORACLE_TRIES times: noise (an interrupt, a page fault, a cold cache) goes
 * away, but a defect stays.
 */
#define ORACLE_TRIES 6
struct gen;
const char *oracle_run(struct gen *gen, struct oracle_verdict (*run)(struct gen *gen));

#endif
