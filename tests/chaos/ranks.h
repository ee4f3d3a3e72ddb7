/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the process that kills ranks (ranks.c) and the ranks (rank.c) share. Each rank
 * is a process with a number of its own, which is new when it is started again. Its inputs come
 * from that number, so a sum with contributions of others than the members is wrong.
 *
 *	keeper                          rank
 *	ORDER_JOIN      ----------->    joins that membership, and sums
 *	                <-----------    ANSWER_SUMMED: the first sum is correct
 *	                <-----------    ANSWER_STOPPED: all members agree to stop, after the same
 *sum
 *	                <-----------    ANSWER_FAILED: a call has, or joining
 *	ORDER_ABANDON   ----------->    stops joining, because a member has died
 *	ORDER_CLOSE     ----------->    leaves the job
 *	                <-----------    ANSWER_CLOSED
 *
 * With --switch-decides, a rank that has been in a membership asks the switch for the next one
 * without an order, after an error or when processes wait to join, and numbers it together with
 * its members. ANSWER_SUMMED then says who they are.
 */
#ifndef SML_CHAOS_RANKS_H
#define SML_CHAOS_RANKS_H

#include "chaos/chaos.h"

struct chaos_order {
	/* ORDER_ABORT: only the call in progress. */
	enum { ORDER_JOIN, ORDER_ABANDON, ORDER_ABORT, ORDER_CLOSE } verb;
	uint32_t membership; /* its number: names of jobs, and seeds of inputs, come from it */
	int rank, world_size;
	uint32_t members[BENCH_MAX_LOCAL]; /* by rank: the numbers of processes */
	bool waits; /* to be let into this membership or a later one: members[0] is its number */
};

struct chaos_answer {
	enum { ANSWER_SUMMED, ANSWER_STOPPED, ANSWER_FAILED, ANSWER_CLOSED } what;
	/* In which the rank is, or was last. */
	uint32_t membership;
	int rank, world_size;
	uint32_t members[BENCH_MAX_LOCAL];
	bool joining; /* of ANSWER_FAILED: the job had not begun */
	bool goes_on; /* of ANSWER_FAILED: the rank asks the switch, without an order */
	int error;
	uint64_t at_ns; /* sml_now_ns() */
	char text[1000];
};

/* Sums whose results all members compare: two members are never further apart than one call. */
#define CHAOS_SUMS 1024

/* Memory of all processes. A process that is killed leaves it whole: all changes are atomic. */
struct chaos_memory {
	uint32_t stop;	 /* memberships up to this number stop after their next sum */
	uint32_t newest; /* membership that has had a sum, if ranks number them */
	uint64_t sums, wrong;
	uint64_t progress[BENCH_MAX_LOCAL]; /* calls of each place's processes */
	/* Of a sum in place (its number modulo CHAOS_SUMS): which one it is, and its hash. */
	uint64_t results[CHAOS_SUMS];
};

/* In a rank's process: obey orders that come from this socket. Does not return. */
_Noreturn void chaos_rank(const struct chaos_options *options, const struct sml_config *config,
			  struct chaos_memory *memory, unsigned place, int fd);

#endif
