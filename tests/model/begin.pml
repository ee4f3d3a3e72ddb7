/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a job begins when its switch dies meanwhile, for spin: at any moment, also between two Start
 * messages (src/lib/context/begin.c, src/job/join/join.c). The next switch, or the same one again,
 * finds some ranks that have begun, and resume; some that were ready, and say so; and some that
 * join anew. It checks exhaustively that
 *
 *   - a job begins anew only if no rank has begun,
 *   - it resumes only if every rank was ready for it,
 *   - and at the switch that does not die, all ranks begin, in one job.
 *
 * A rank notices that its switch has died at any later time. A Start that was sent before arrives,
 * or is lost.
 *
 * -DN=ranks -DL=switches, one after the other; all but the last may die.
 * Each of these removes one rule, and then the model must fail:
 *
 *	NO_CLAIM  a rank that was ready joins anew like any other
 *	NO_MOVE   ranks that were ready, and have come before one that resumes, stay where they are
 *	EARLY     a switch starts the job when one rank is ready
 *
 * tests/model/check runs this; docs/internals/verification.md has the counts.
 */
#ifndef N
#define N 2
#endif
#ifndef L
#define L 2
#endif

#define ALL ((1 << N) - 1)
#define HAS(bits, r) (((bits) & (1 << (r))) != 0)

/* A rank at the switch that it knows. */
#define OUT      0
#define JOINED   1
#define ADMITTED 2
#define READY    3
#define RUNNING  4

/* ---- ranks ---- */
byte at[N];      /* the switch, from 1 on; 0: none yet */
byte state[N];
byte claim[N];   /* the job that it was ready for, by the switch that admitted it first; 0: none */
bool begun[N];   /* it was told to start that job */

/* ---- switches, one after the other ---- */
byte now = 1;    /* the one that lives */
byte anew, resuming; /* ranks that have joined each of its jobs, as bits */
byte job;        /* that the others resume; 0: none does */
byte admitted;   /* the job that it has admitted; 0: none */
bool resumed;    /* that job had begun before */
byte ready, started; /* ranks, as bits */

hidden byte q;

inline admit(which, old) {
	admitted = which;
	resumed = old;
	for (q : 0 .. N - 1) {
		assert(old || !begun[q]);
		assert(!old || claim[q] == which)
	}
	q = 0
}

/* Those that say the same have come before. */
inline gather() {
#ifdef NO_MOVE
	skip
#else
	for (q : 0 .. N - 1) {
		if
		:: HAS(anew, q) && claim[q] == job ->
			anew = anew & (ALL - (1 << q));
			resuming = resuming | (1 << q)
		:: else
		fi
	}
	q = 0
#endif
}

#ifdef NO_CLAIM
#define IS_OF_JOB(r) false
#else
#define IS_OF_JOB(r) (job != 0 && claim[r] == job)
#endif

inline join(r) {
	at[r] = now;
	state[r] = JOINED;
	if
	:: begun[r] ->
		job = claim[r];
		resuming = resuming | (1 << r);
		gather()
	:: !begun[r] && IS_OF_JOB(r) -> resuming = resuming | (1 << r)
	:: !begun[r] && !(IS_OF_JOB(r)) -> anew = anew | (1 << r)
	fi;
	if
	:: resuming == ALL -> admit(job, true)
	:: anew == ALL -> admit(now, false)
	:: else
	fi
}

inline die() {
	now++;
	anew = 0; resuming = 0; job = 0; admitted = 0; resumed = false; ready = 0; started = 0
}

/* Only the switch that it knows tells a rank anything; and a Start of the last one may arrive. */
byte late; /* ranks to which the switch before has sent Start */

#define HERE(r) (at[r] == now)
#ifdef EARLY
#define MAY_START (ready != 0)
#else
#define MAY_START (ready == ALL)
#endif

#define RANK(r) \
	:: atomic { state[r] == OUT && at[r] < now -> join(r) } \
	:: atomic { HERE(r) && state[r] == JOINED && admitted != 0 -> \
		state[r] = ADMITTED; \
		if \
		:: resumed \
		:: !resumed -> claim[r] = 0 \
		fi } \
	:: atomic { HERE(r) && state[r] == ADMITTED -> \
		state[r] = READY; claim[r] = admitted; ready = ready | (1 << r) } \
	:: atomic { HERE(r) && MAY_START && !HAS(started, r) -> started = started | (1 << r) } \
	:: atomic { HERE(r) && state[r] == READY && HAS(started, r) -> \
		state[r] = RUNNING; begun[r] = true } \
	:: atomic { at[r] + 1 == now && state[r] == READY && HAS(late, r) -> \
		state[r] = RUNNING; begun[r] = true } \
	:: atomic { at[r] != 0 && at[r] < now && state[r] != OUT -> \
		state[r] = OUT }

active proctype world() {
	byte r;

	do
	RANK(0)
	RANK(1)
#if N > 2
	RANK(2)
#endif
	:: atomic { now < L -> late = started; die() }
	:: else -> break
	od;
	for (r : 0 .. N - 1) {
		assert(at[r] == now && state[r] == RUNNING && claim[r] == claim[0])
	}
}
