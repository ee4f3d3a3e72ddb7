/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The switch decides who the members of a job's next membership are, for spin
 * (src/job/join/applicants.c, src/job/join/decide.c, src/job/rank/admission.c). Processes lose their
 * job, ask a switch, and are members of the next one, or are refused. It checks exhaustively that
 *
 *   - when a membership has started, no earlier one computes, at any switch;
 *   - every rank that asks gets an answer;
 *   - if no switch has died, and enough members of the last membership that has started live, some
 *     membership runs in the end; unless all members of one that never ran have died, or ranks that
 *     were told that they are too few do not ask again.
 *
 * A rank that is frozen is one that takes its next step late. The switch gives it up meanwhile, and
 * when it goes on, it asks with what it knew. A rank asks again before the switch notices that its
 * first connection has ended. A switch forgets everything when it dies, and ranks that have begun a
 * membership, or were ready for it, can go on with it at any switch where all of its members meet.
 *
 * -DP=processes -DFIRST=those in the first membership, as bits -DS=switches -DM=memberships
 * -DMIN=min_ranks; and how often: -DD=deaths -DSD=deaths of switches -DG=a rank that lives is given
 * up -DT=a rank asks twice -DL=the deadline comes before a rank that will ask -DV=a rank asks
 * without an error. Each of these removes one rule, and then the model must fail:
 *
 *	ASK_LATE   ranks may ask when the next membership has been decided on
 *	ANY_PART   a switch decides for some ranks of a job that it has not run
 *	REOPEN     another membership may follow when the last one has run
 *	NO_DUE     the switch waits for ranks that never ask
 *	KEEP_UNTOLD a member that was not told so is too late when it asks again
 */
#ifndef P
#define P 3
#endif
#ifndef FIRST
#define FIRST 7
#endif
#ifndef S
#define S 1
#endif
#ifndef M
#define M 3
#endif
#ifndef MIN
#define MIN 1
#endif
#ifndef D
#define D 1
#endif
#ifndef SD
#define SD 0
#endif
#ifndef G
#define G 0
#endif
#ifndef T
#define T 0
#endif
#ifndef L
#define L 0
#endif
#ifndef V
#define V 0
#endif

#define HAS(bits, p) (((bits) & (1 << (p))) != 0)
#define JOB(s, m)    ((s) * (M + 1) + (m))
#define NONE	     255

/* A process. */
#define IDLE	 0 /* it has lost its job, and asks */
#define NEW	 1 /* it has none, and asks */
#define ASKS	 2
#define ADMITTED 3 /* and ready */
#define RUNS	 4
#define SEEKS	 5 /* it has lost its switch, and goes on with its membership elsewhere */
#define FEW	 6
#define PROGRAM	 7 /* it was told that the program must decide */
#define DEAD	 8

/* A job at a switch. */
#define UNKNOWN	 0
#define PROBES	 1
#define RUNNING	 2
#define NEVER_RAN 3 /* it has ended here */
#define HAS_RUN	 4

byte members[M + 1], after[M + 1], decided = 1, last = 1;
byte deaths, switch_deaths, given_up, twice, early, changes;

byte state[P], at[P];           /* the switch that it is connected to, from 1 on */
byte admitted[P], ran[P];

byte job[S * (M + 1)];
bool resumed[S * (M + 1)], over[S * (M + 1)]; /* over: the next one has been decided on */
bool has_successors[S * (M + 1)];
byte successors[S * (M + 1)], gone[S * (M + 1)], ready[S * (M + 1)], met[S * (M + 1)];
byte asks[S * P];               /* the membership by which it asks; 0: it is new; NONE */

hidden byte q, k, place, group, joiners, n;
hidden byte complete, due;

#define IS_JUDGED(s, m) (job[JOB(s, m)] == NEVER_RAN || job[JOB(s, m)] == HAS_RUN)

/* ---- a job ends at a switch ---- */

inline note_successors(s, m) {
	successors[JOB(s, m)] = (has_successors[JOB(s, m)] -> successors[JOB(s, m)] & group : group);
	has_successors[JOB(s, m)] = true
}

inline reopen(s, m) {
	if
	:: after[m] != 0 && IS_JUDGED(s, after[m]) ->
		over[JOB(s, after[m])] = false;
		group = members[m] & members[after[m]];
		note_successors(s, after[m]);
		group = 0
	:: else
	fi
}

inline end_job(s, m, lost) {
	if
	:: job[JOB(s, m)] == RUNNING ->
		job[JOB(s, m)] = HAS_RUN;
		gone[JOB(s, m)] = lost;
#ifdef REOPEN
		over[JOB(s, after[m])] = false;
#endif
		ready[JOB(s, m)] = 0
	:: job[JOB(s, m)] == PROBES && resumed[JOB(s, m)] ->
		job[JOB(s, m)] = UNKNOWN; ready[JOB(s, m)] = 0; resumed[JOB(s, m)] = false
	:: job[JOB(s, m)] == PROBES && !resumed[JOB(s, m)] ->
		job[JOB(s, m)] = NEVER_RAN; ready[JOB(s, m)] = 0; reopen(s, m)
	:: else
	fi;
	met[JOB(s, m)] = 0
}

/* The switch notices that a connection has ended, or that it is silent. */
inline notice(s, p) {
	if
	:: asks[(s) * P + (p)] != NONE ->
		k = asks[(s) * P + (p)];
		if
		:: k != 0 && IS_JUDGED(s, k) -> gone[JOB(s, k)] = gone[JOB(s, k)] | (1 << (p))
		:: else
		fi;
		asks[(s) * P + (p)] = NONE
	:: else
	fi;
	for (n : 1 .. M) {
		if
		:: HAS(members[n], p) && (job[JOB(s, n)] == PROBES || job[JOB(s, n)] == RUNNING) ->
			end_job(s, n, (1 << (p)))
		:: else
		fi;
		met[JOB(s, n)] = met[JOB(s, n)] & (255 - (1 << (p)))
	}
	k = 0; n = 0
}

/* What the switch keeps of a process that is not connected to it. */
#define IN_JOB(s, p, m) (HAS(members[m], p) && (job[JOB(s, m)] == PROBES || job[JOB(s, m)] == RUNNING))
#if M == 2
#define IN_ANY(s, p) (IN_JOB(s, p, 1) || IN_JOB(s, p, 2))
#elif M == 3
#define IN_ANY(s, p) (IN_JOB(s, p, 1) || IN_JOB(s, p, 2) || IN_JOB(s, p, 3))
#else
#define IN_ANY(s, p) (IN_JOB(s, p, 1) || IN_JOB(s, p, 2) || IN_JOB(s, p, 3) || IN_JOB(s, p, 4))
#endif
#define IS_STALE(s, p) \
	((asks[(s) * P + (p)] != NONE || IN_ANY(s, p)) && (at[p] != (s) + 1 || state[p] == DEAD))
#define IS_KNOWN(s, p) (at[p] == (s) + 1 && (asks[(s) * P + (p)] != NONE || IN_ANY(s, p)))

/* ---- a process asks ---- */

/* One place of the Ask. Sets `place` if that one counts. */
inline look_at_place(s, m) {
	end_job(s, m, 0);
	if
	:: job[JOB(s, m)] != NEVER_RAN -> place = m
	:: else
	fi
}

/* It was not told that it is a member of the next membership, which has not run without it. */
inline end_undelivered(s, m, p) {
#ifndef KEEP_UNTOLD
	for (n : 1 .. M) {
		if
		:: m != 0 && after[n] == m && HAS(members[n], p) && job[JOB(s, n)] == PROBES ->
			end_job(s, n, 0)
		:: else
		fi
	}
	n = 0
#else
	skip
#endif
}

inline forget(p) {
	admitted[p] = 0; ran[p] = 0; state[p] = NEW; at[p] = 0
}

inline ask(s, p) {
	place = 0;
	if
	:: admitted[p] != 0 -> look_at_place(s, admitted[p])
	:: else
	fi;
	if
	:: place == 0 && ran[p] != 0 && ran[p] != admitted[p] -> look_at_place(s, ran[p])
	:: else
	fi;
	end_undelivered(s, place, p);
	if
#ifndef ASK_LATE
	:: place != 0 && over[JOB(s, place)] -> forget(p)
#endif
	:: place != 0 && job[JOB(s, place)] == UNKNOWN && place != ran[p] ->
		state[p] = PROGRAM; at[p] = 0
	:: else -> state[p] = ASKS; at[p] = (s) + 1; asks[(s) * P + (p)] = place
	fi;
	place = 0
}

/* ---- the switch decides ---- */

inline dismiss(s, m, becomes) {
	for (q : 0 .. P - 1) {
		if
		:: asks[(s) * P + q] == m && at[q] == (s) + 1 && state[q] == ASKS ->
			state[q] = becomes; at[q] = 0
		:: else
		fi;
		asks[(s) * P + q] = (asks[(s) * P + q] == m -> NONE : asks[(s) * P + q])
	}
	q = 0
}

inline form(s, m) {
	decided++;
	assert(decided <= M);
	members[decided] = group | joiners;
	after[decided] = m;
	job[JOB(s, decided)] = PROBES;
	over[JOB(s, m)] = IS_JUDGED(s, m);
	for (q : 0 .. P - 1) {
		asks[(s) * P + q] = (HAS(members[decided], q) -> NONE : asks[(s) * P + q])
	}
	q = 0
}

inline look_at_group(s, m) {
	group = 0; joiners = 0; n = 0;
	due = true;
	for (q : 0 .. P - 1) {
		if
		:: asks[(s) * P + q] == m -> group = group | (1 << q); n++
		:: asks[(s) * P + q] == 0 -> joiners = joiners | (1 << q); n++
		:: else -> due = due && (!HAS(members[m], q) || state[q] == DEAD || state[q] == NEW ||
					 state[q] == FEW || state[q] == PROGRAM ||
					 (admitted[q] != m && ran[q] != m))
		fi
	}
	q = 0;
	complete = (group | (IS_JUDGED(s, m) -> gone[JOB(s, m)] : 0)) == members[m]
}

inline decide(s, m) {
	look_at_group(s, m);
	if
	:: !complete && !due -> early++
	:: else
	fi;
	if
#ifndef ANY_PART
	:: !IS_JUDGED(s, m) && !complete -> dismiss(s, m, PROGRAM)
#endif
	:: IS_JUDGED(s, m) && has_successors[JOB(s, m)] && (successors[JOB(s, m)] & group) == 0 ->
		dismiss(s, m, NEW);
		for (q : 0 .. P - 1) {
			if
			:: state[q] == NEW -> admitted[q] = 0; ran[q] = 0
			:: else
			fi
		}
		q = 0
	:: else ->
		if
		:: n < MIN && due -> dismiss(s, m, FEW)
		:: n < MIN && !due -> dismiss(s, m, IDLE)
		:: else -> form(s, m)
		fi
	fi;
	group = 0; joiners = 0; n = 0; complete = false; due = false
}

/* A rank that will not ask by this membership, or not here. */
#define IS_ELSEWHERE(s, m, p) \
	(state[p] == DEAD || state[p] == NEW || state[p] == FEW || state[p] == PROGRAM || \
	 (state[p] == ASKS && at[p] != (s) + 1) || (admitted[p] != m && ran[p] != m))
#define HAS_ASKED(s, m, p) \
	(asks[(s) * P + (p)] == m || !HAS(members[m], p) || (IS_JUDGED(s, m) && HAS(gone[JOB(s, m)], p)))
#ifdef NO_DUE
#define IS_DUE(s, m, p) HAS_ASKED(s, m, p)
#else
#define IS_DUE(s, m, p) (HAS_ASKED(s, m, p) || IS_ELSEWHERE(s, m, p))
#endif
#if P == 2
#define ALL_DUE(s, m) (IS_DUE(s, m, 0) && IS_DUE(s, m, 1))
#define ASKED(s, m) (asks[(s) * P] == m || asks[(s) * P + 1] == m)
#else
#define ALL_DUE(s, m) (IS_DUE(s, m, 0) && IS_DUE(s, m, 1) && IS_DUE(s, m, 2))
#define ASKED(s, m) (asks[(s) * P] == m || asks[(s) * P + 1] == m || asks[(s) * P + 2] == m)
#endif

/* ---- the world ---- */

/* All members are here: none that computes may be older than the last that has started. */
inline check() {
	for (n : 1 .. decided) {
		for (k : 0 .. S - 1) {
			complete = job[JOB(k, n)] == RUNNING;
			for (q : 0 .. P - 1) {
				complete = complete && (!HAS(members[n], q) ||
					(state[q] == RUNS && admitted[q] == n && at[q] == k + 1))
			}
			q = 0;
			assert(!complete || n == last)
		}
		k = 0
	}
	n = 0; complete = false
}

inline switch_dies(s) {
	switch_deaths++;
	for (n : 1 .. M) {
		job[JOB(s, n)] = UNKNOWN; resumed[JOB(s, n)] = false; over[JOB(s, n)] = false;
		has_successors[JOB(s, n)] = false; successors[JOB(s, n)] = 0; gone[JOB(s, n)] = 0;
		ready[JOB(s, n)] = 0; met[JOB(s, n)] = 0
	}
	n = 0;
	for (q : 0 .. P - 1) {
		asks[(s) * P + q] = NONE;
		if
		:: at[q] == (s) + 1 ->
			at[q] = 0;
			state[q] = ((state[q] == ASKS) -> IDLE :
				    ((state[q] == ADMITTED || state[q] == RUNS) -> SEEKS : state[q]))
		:: else
		fi
	}
	q = 0
}

#define ADMITS(s, p, m) \
	:: atomic { state[p] == ASKS && at[p] == (s) + 1 && asks[(s) * P + (p)] == NONE && \
		    job[JOB(s, m)] == PROBES && HAS(members[m], p) && admitted[p] < m -> \
		ran[p] = (admitted[p] == after[m] -> admitted[p] : ran[p]); \
		admitted[p] = m; state[p] = ADMITTED; ready[JOB(s, m)] = ready[JOB(s, m)] | (1 << (p)) }

/* It waits here to go on, and will be ready. Who has left since it came will not. */
#define IS_HERE(s, m, p) \
	(!HAS(members[m], p) || (HAS(met[JOB(s, m)], p) && state[p] == ADMITTED && \
				 at[p] == (s) + 1 && admitted[p] == m))
#if P == 2
#define ARE_HERE(s, m) (IS_HERE(s, m, 0) && IS_HERE(s, m, 1))
#else
#define ARE_HERE(s, m) (IS_HERE(s, m, 0) && IS_HERE(s, m, 1) && IS_HERE(s, m, 2))
#endif

/* A process and a switch. It seeks where it was never told that the job has failed. */
#define MEET(s, p) \
	:: atomic { (state[p] == IDLE || state[p] == NEW) && asks[(s) * P + (p)] == NONE && \
		    !(state[p] == NEW && IN_ANY(s, p)) -> ask(s, p) } \
	:: atomic { state[p] == IDLE && asks[(s) * P + (p)] != NONE -> \
		asks[(s) * P + (p)] = NONE; ask(s, p) } \
	:: atomic { state[p] == ASKS && at[p] == (s) + 1 && asks[(s) * P + (p)] == NONE && \
		    !IN_ANY(s, p) -> state[p] = IDLE; at[p] = 0 } \
	:: atomic { (state[p] == ADMITTED || state[p] == RUNS) && at[p] == (s) + 1 && \
		    job[JOB(s, admitted[p])] != PROBES && job[JOB(s, admitted[p])] != RUNNING -> \
		state[p] = IDLE; at[p] = 0 } \
	:: atomic { state[p] == ADMITTED && at[p] == (s) + 1 && job[JOB(s, admitted[p])] == RUNNING -> \
		state[p] = RUNS; ran[p] = admitted[p]; check() } \
	:: atomic { IS_STALE(s, p) -> notice(s, p) } \
	:: atomic { IS_KNOWN(s, p) && state[p] != DEAD && given_up < G -> given_up++; notice(s, p) } \
	:: atomic { state[p] == SEEKS && job[JOB(s, admitted[p])] == UNKNOWN -> \
		met[JOB(s, admitted[p])] = met[JOB(s, admitted[p])] | (1 << (p)); \
		state[p] = ADMITTED; at[p] = (s) + 1; \
		if \
		:: ARE_HERE(s, admitted[p]) -> \
			job[JOB(s, admitted[p])] = PROBES; resumed[JOB(s, admitted[p])] = true; \
			ready[JOB(s, admitted[p])] = members[admitted[p]] \
		:: else \
		fi }

#define PROCESS(p) \
	:: atomic { state[p] < FEW && deaths < D -> deaths++; state[p] = DEAD; at[p] = 0 } \
	:: atomic { state[p] == SEEKS -> state[p] = IDLE } \
	:: atomic { state[p] == RUNS && changes < V -> changes++; state[p] = IDLE; at[p] = 0 } \
	:: atomic { (state[p] == ASKS || state[p] == ADMITTED) && twice < T -> \
		twice++; at[p] = 0; \
		state[p] = (state[p] == ADMITTED -> SEEKS : (admitted[p] == 0 && ran[p] == 0 -> NEW : IDLE)) }

#define JOBS(s, m) \
	:: atomic { ASKED(s, m) && (ALL_DUE(s, m) || early < L) -> decide(s, m) } \
	:: atomic { job[JOB(s, m)] == PROBES && ready[JOB(s, m)] == members[m] -> \
		job[JOB(s, m)] = RUNNING; last = (m > last -> m : last); check() } \
	ADMITS(s, 0, m) ADMITS(s, 1, m)
#if P > 2
#define MORE_JOBS(s, m) JOBS(s, m) ADMITS(s, 2, m)
#else
#define MORE_JOBS(s, m) JOBS(s, m)
#endif

#define LIVES_IN_LAST(p) (HAS(members[last], p) && state[p] != DEAD)
#if P == 2
#define LIVING (LIVES_IN_LAST(0) + LIVES_IN_LAST(1))
#define RUNNING_NOW (state[0] == RUNS || state[1] == RUNS)
#else
#define LIVING (LIVES_IN_LAST(0) + LIVES_IN_LAST(1) + LIVES_IN_LAST(2))
#define RUNNING_NOW (state[0] == RUNS || state[1] == RUNS || state[2] == RUNS)
#endif

active proctype world() {
	atomic {
		members[1] = FIRST;
		for (q : 0 .. S * P - 1) {
			asks[q] = NONE
		}
		job[JOB(0, 1)] = RUNNING;
		for (q : 0 .. P - 1) {
			if
			:: HAS(FIRST, q) -> state[q] = RUNS; at[q] = 1; admitted[q] = 1; ran[q] = 1
			:: else -> state[q] = NEW
			fi
		}
		q = 0
	}
	do
	PROCESS(0) MEET(0, 0)
	PROCESS(1) MEET(0, 1)
#if P > 2
	PROCESS(2) MEET(0, 2)
#endif
	MORE_JOBS(0, 1) MORE_JOBS(0, 2)
#if M > 2
	MORE_JOBS(0, 3)
#endif
#if M > 3
	MORE_JOBS(0, 4)
#endif
#if S > 1
	MEET(1, 0) MEET(1, 1)
#if P > 2
	MEET(1, 2)
#endif
	MORE_JOBS(1, 1) MORE_JOBS(1, 2)
#if M > 2
	MORE_JOBS(1, 3)
#endif
#if M > 3
	MORE_JOBS(1, 4)
#endif
#endif
	:: atomic { switch_deaths < SD -> switch_dies(0) }
	:: else -> break
	od;
	/* At once: nobody would look at the next q if states that differ only in it were stored. */
	atomic {
		for (q : 0 .. P - 1) {
			/* New ones wait until they are let in. */
			assert(state[q] != ASKS || asks[(at[q] - 1) * P + q] == 0);
			assert(state[q] != IDLE && state[q] != SEEKS);
			group = group | (state[q] != DEAD -> (1 << q) : 0)
		}
		/* A membership that never ran, and whose members have died, might begin elsewhere. */
		complete = has_successors[JOB(0, last)] && (successors[JOB(0, last)] & group) == 0;
		/* Who was told that there were too few can ask again, but does not here. */
		for (q : 0 .. P - 1) {
			complete = complete || state[q] == FEW
		}
		assert(RUNNING_NOW || switch_deaths > 0 || S > 1 || LIVING < MIN || LIVING == 0 || complete)
	}
}
