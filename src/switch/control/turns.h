/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which connections are served first, and how much in one turn of the event loop. A turn is what
 * the loop does between two polls of its sockets. Anyone can create work as a stranger, so members
 * of running jobs, and timers, go first:
 *
 *	SML_TURN_CLOCK      the tick, the dataplane's notes, the end
 *	SML_TURN_MEMBERS    connections of jobs that run
 *	SML_TURN_STRANGERS  all others: accepting, handshakes, joining, questions
 *
 * While a class has work, no class below it is served; and a turn serves at most SML_TURN_CALLS
 * connections, or those that fit in SML_TURN_NS. One call processes at most SML_CALL_MESSAGES
 * messages of a connection; the rest waits for its next call. A member that uses more than
 * SML_MEMBER_CPU_NS of the thread between two ticks is served with the strangers until the next
 * tick.
 *
 * The invariant: once a member's bytes have come, at most one stranger's call is served before it.
 */
#ifndef SML_SWITCH_TURNS_H
#define SML_SWITCH_TURNS_H

#include <stdint.h>

#include "base/loop.h"

enum sml_turn_class { SML_TURN_CLOCK, SML_TURN_MEMBERS, SML_TURN_STRANGERS, SML_TURN_CLASSES };

#define SML_TURN_CALLS	  16
#define SML_TURN_NS	  2000000ull
#define SML_CALL_MESSAGES 16
/* Of 100 ms. */
#define SML_MEMBER_CPU_NS 500000ull
/* The connections that one call accepts, and that one tick closes. */
#define SML_CALL_ACCEPTS 8
#define SML_TICK_LOSSES	 64

/* Opens a loop with these budgets. Returns 0 or -errno. */
int sml_turns_loop_open(struct sml_loop **opened);

#endif
