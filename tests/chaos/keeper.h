/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keeper of build/tests/chaos --chaos-ranks (ranks.c): its processes, and what its files
 * share. It has one thread, and one of these structures.
 */
#ifndef SML_CHAOS_KEEPER_H
#define SML_CHAOS_KEEPER_H

#include "base/clock.h"
#include "chaos/ranks.h"
#include "sim/gen.h"
#include "support/switch_process.h"

/* Pids of killed processes, for the judge; a pid is used again only after many others. */
#define CHAOS_REMEMBERED 4096

/* Whoever has made no call and given no answer for so long hangs. */
#define CHAOS_HANG_MS 90000

/*
 * A member that has not noticed for so long that its job has ended is told so: its switch may have
 * died before it could, and then the member waits for all others to come to the next one.
 */
#define CHAOS_UNTOLD_MS 1000

enum chaos_state { ABSENT, IDLE, JOINING, RUNNING };

struct chaos_process {
	enum chaos_state state;
	pid_t pid;
	int fd;
	uint32_t number;
	bool member; /* of the last membership, and not killed since */
	bool told;   /* to abandon it */
	bool summed; /* its first sum is there */
	bool closed;
	/* If the switch decides. */
	bool is_candidate;  /* in no membership yet: it asks for one, or soon will */
	bool urged;	    /* to end its call, because the switch may not tell it of a death */
	uint64_t since_ns;  /* its errors follow from what happened since then: the sum before */
	uint64_t summed_ns; /* its last first sum of a membership */
	uint64_t back_ns;   /* ABSENT: when it is started again */
	uint64_t heard_ns,
		progress; /* when it was seen to do something, and its calls until then */
};

struct chaos_results {
	uint64_t changes;	 /* memberships that followed another one, and had a sum */
	uint64_t decisions;	 /* those of them that the switch has decided on */
	uint64_t late;		 /* ranks that asked it too late, and began anew */
	uint64_t kills, returns; /* of ranks */
	uint64_t switch_kills;
	uint64_t sums, wrong;
	uint64_t hangs, false_names;
	uint64_t unexpected;	  /* errors without a cause */
	struct bench_times times; /* from a kill to the next sum on all members */
};

struct chaos_keeper {
	const struct chaos_options *options;
	struct sml_config config;
	struct gen gen;
	struct chaos_memory *memory;
	struct chaos_process processes[BENCH_MAX_LOCAL];
	unsigned n;
	uint32_t n_started, membership;
	uint64_t kill_ns, end_ns;
	/* The last membership. */
	uint64_t ordered_ns, last_sum_ns;
	uint64_t first_ns;  /* what the first one of all took to its first sum; 0 until then */
	uint64_t broken_ns; /* when a member had died, or had an error; 0 if none has */
	bool has_begun, is_over, has_cause;
	uint32_t members[BENCH_MAX_LOCAL]; /* the numbers of its processes, by rank */
	int world_size;
	uint32_t formed;	/* if the switch decides: its number among those that had a sum */
	bool is_ordered;	/* this process has decided, and none has had a sum since */
	bool is_first;		/* the last one is that of this process */
	uint64_t ending_ns;	/* all are to stop since then; 0 if not yet */
	char unexplained[1000]; /* an error that follows from another one, which is to come */
	uint64_t struck_ns; /* the first kill since the last membership that summed; 0 if none */
	pid_t killed[CHAOS_REMEMBERED];
	unsigned n_killed;
	uint64_t killed_ns, started_ns; /* the last one */
	/* The switch, if this process started it. */
	struct switch_process switch_process;
	bool has_switch;
	uint64_t switch_ns;	   /* when it is killed or started */
	uint64_t switch_killed_ns; /* when it was killed last */
	char address[32];
	struct chaos_results results;
};

extern struct chaos_keeper keeper;

static inline uint64_t chaos_after_ms(uint64_t ns, uint64_t ms)
{
	return ns + ms * SML_NS_PER_MS;
}

/* ---- switch.c ---- */

void chaos_start_switch(void);
/* A rank that joins does not wait for a switch that does not listen. */
bool chaos_has_switch(void);
void chaos_kill_switch(void);
/* If it is time, and the first membership has begun: it is killed, or started again. */
void chaos_strike_switch(uint64_t now_ns);

/* ---- process.c ---- */

unsigned chaos_count(enum chaos_state state);
/* Returns NULL if there is no such process any more. */
struct chaos_process *chaos_find(uint32_t number);
void chaos_end_process(struct chaos_process *process);
/* Kill it, and start it again after some time. */
void chaos_strike(struct chaos_process *process, uint64_t now_ns, uint32_t away_ms);
/*
 * The time of a kill, `ms` after ns on a machine of usual speed. On a slower one, it is as much
 * later as the machine is slower: a membership that cannot begin before the next kill does not show
 * how one follows another.
 */
uint64_t chaos_after_life(uint64_t ns, uint32_t ms);
/* If it is time: any of those that are there. At least one stays, and two of three or more. */
void chaos_strike_one(uint64_t now_ns);
int chaos_bring_back(uint64_t now_ns);

/* ---- judge.c: does an error follow from what was killed? ---- */

void chaos_complain(const char *what, const struct chaos_process *process, const char *text);
void chaos_unexpected(const struct chaos_process *process, const char *text);
void chaos_hang(const struct chaos_process *process, const char *text);
void chaos_false_name(const struct chaos_process *process, const char *text);
/* Of an error about a rank that has died: does it name one that was not killed? */
bool chaos_names_falsely(const struct chaos_answer *answer);
void chaos_judge(const struct chaos_process *process, const struct chaos_answer *answer);
/* All members have said how it ended. */
void chaos_judge_membership(void);
void chaos_look_for_hangs(uint64_t now_ns);

/* ---- decided.c: the switch decides ---- */

void chaos_judge_decided(struct chaos_process *process, const struct chaos_answer *answer);
/* The first sum of a membership. False if it is not the last one that is known. */
bool chaos_learn_members(struct chaos_process *process, const struct chaos_answer *answer);
void chaos_follow_decisions(void);
/* While all are to stop. */
void chaos_end_decisions(void);

/* ---- report.c ---- */

/* Print the results. Returns nonzero if anything was wrong. */
int chaos_report(void);

/* ---- members.c ---- */

/* Wait for answers, up to `ms`, and take all that are there. */
void chaos_hear_all(int ms);
void chaos_send_order(struct chaos_process *process, const struct chaos_order *order);
/* A member has died, or has an error. */
bool chaos_is_broken(void);
void chaos_abandon(struct chaos_process *process);
void chaos_begin_membership(void);
/* All stop after their next sum. */
void chaos_stop_sums(void);
/* Until they have: those that cannot are told. */
void chaos_hasten_end(void);
/* Begin the next membership, or end this one, if it is time. */
void chaos_change_members(void);

#endif
