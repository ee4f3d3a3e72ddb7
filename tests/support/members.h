/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that are ranks, so that they can be killed or frozen. The test gives each of them one
 * membership after the other over a socket, as a launcher would, and reads what each has summed.
 *
 * A process contributes a bit of its own, so a sum of int32 names those whose contributions it has.
 * A set of processes is an int, too: bit i is process i.
 */
#ifndef SML_TESTS_MEMBERS_H
#define SML_TESTS_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "support/switch_process.h"

#define MAX_PROCESSES 10
/* Whatever is slow here is a hang. */
#define SOON_MS 60000
/* Of the rank that freezes. It may stall this long before it is meant to. */
#define FROZEN_HEARTBEAT_MS 4000

/* From the parent to a process: what to do next. */
struct order {
	enum { JOIN, AWAIT_JOINERS, SUM, SUM_UNTIL_IT_FAILS, CLOSE } verb;
	char job[96];
	int rank, world_size, port, timeout_ms;
	/* The switch decides on all of this but the first job. */
	bool asks;
	int members, was; /* of the next job and of the last one; was 0: not said */
	int joiners;	  /* that the process awaits */
	int min_ranks, max_ranks, wait_ms;
};

/* And its answer. */
struct answer {
	int result;
	int32_t sum; /* of the last complete call: the members, as bits */
	int calls;   /* that were complete before the one that failed */
	int rank, world_size;
	int previous[MAX_PROCESSES]; /* of each rank, as the switch says */
	char text[400];
};

struct process {
	pid_t pid;
	int fd; /* to it */
};

/* How the job runs; the same for all processes that start after it was set. */
struct form {
	const char *switch_address, *other_address; /* of processes with even and odd numbers */
	bool shares;
	int alone; /* bit i: process i does not share memory */
};

extern struct form form;
extern int heartbeat_ms;   /* 0: 20 s */
extern const char *faults; /* as in SWITCHML_FAULTS; NULL if there are none */
extern struct process processes[MAX_PROCESSES];

/* What a process does until the socket is closed: member.c. */
_Noreturn void be_process(int self, int fd);

/* Before this process has threads. */
void start_process(int i);
void start_all(int n);

/* SIGKILL; nothing if it has not started. */
void end_process(int i);
void end_all(void);

void send_order(int i, const struct order *order);

/* Fails the test if there is none soon. */
struct answer read_answer(int i);

/* To each of the members. They become ranks in this order. */
void send_orders(int members, struct order order);

/* The rank that a process had, if these had ranks; -1: none. */
int previous_rank(int was, int i);

/* What else has been answered: the first error may only follow from another one. */
void print_answers(void);

/*
 * All answer with this result, and with this sum if it is 0. However a job ends, its ranks differ
 * by one call at most: one that has completed a call had the contributions of all.
 */
void expect(int members, int result, int32_t total);

/* All do it, and it works. */
void let(int members, struct order order);

struct order to_job(const char *name, int port);

extern const struct order make_sum, sum_on, leave;
/* The switch is to decide who goes on. */
extern const struct order ask;

/* The old ones that are left, in their old order, then the new ones, are the next membership. */
void expect_decision(int old, int left, int joined);

/* Switches that each form of the test may use. */
extern struct switch_process root, second, leaf;
extern char root_address[32], both_addresses[64], leaf_address[32];

/* All three; the leaf has reached its root. */
void start_switches(void);

/* And four processes, which know the second switch as a standby of the first. */
void start_with_standby(bool shares);
void end_switches(void);

#endif
