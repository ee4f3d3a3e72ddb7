/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs whose members change, for spin: sml_reconfigure(), where the caller decides. Processes have
 * memberships one after the other, at one switch (src/job/). It checks exhaustively that
 *
 *   - a sum is that of all members of exactly one membership,
 *   - when a membership begins, each of its members has given up all earlier ones, and has proved
 *     its path for this one. So of two memberships that share a process, never both compute,
 *   - two members of a membership, however it ends for them, differ by one call at most,
 *   - every call ends: that of a sum, sml_reconfigure(), and sml_close(),
 *   - and when the members are all that are alive, and nothing dies any more, all calls are made.
 *
 * The caller is as bad as it may be. It decides on any processes at any time, also on some that
 * are dead, closing, or busy, and a process goes to any later membership that it is in: in order or
 * not, after an error or without one. Only the last membership is that of all live processes.
 *
 * A frozen process needs no state: every process takes its next step at any later time. What was
 * frozen acts in its old membership until it learns better. The switch gives up a silent process,
 * whether it is frozen or only slow, and so does a process that waits for others.
 *
 * The network is that of slot.pml: a packet that was sent can arrive at any later time, any number
 * of times, or never. A control connection keeps the order of its messages, but is as slow as it
 * likes: those of two memberships have no order.
 *
 * The switch has PLACES numbers for jobs, and a job gets the first that is free. So the number in
 * an old packet may be another membership's by then. Its slot is one buffer; slot.pml has the
 * rest.
 *
 * -DP=processes -DM=memberships -DC=calls -DD=deaths of processes -DS=deaths of the switch
 * -DF=times that one who lives is given up.
 * Each of these removes one rule, and then the model must fail:
 *
 *	ANY_EPOCH_1    the switch does not compare a packet's epoch and tag with the job's.
 *	               2: a process does not, with those of a result
 *	OLD_READY      Ready counts for the job that has the number now
 *	COUNT_SILENT   the switch counts a silent rank as one that has contributed
 *	KEEP_SLOT      a job begins with what its number's last job has left in the slot
 *	KEEP_OLD       a process goes to the next membership without giving up the one that it has
 *
 * -DALL_OR_NONE: a call that failed on one survivor has failed on all. That is not so, even if
 * members change only after errors, and the model fails.
 *
 * tests/model/check runs all of this; docs/internals/verification.md has the counts.
 */
#ifndef P
#define P 3
#endif
#ifndef M
#define M 2
#endif
#ifndef C
#define C 2
#endif
#ifndef D
#define D 1
#endif
#ifndef S
#define S 0
#endif
#ifndef F
#define F 1
#endif
#ifndef PLACES
#define PLACES 2
#endif

#if P > 3 || M > 3 || C > 2
#error "there are steps for three processes, three memberships and two calls"
#endif

#define ALL ((1 << P) - 1)
#define NOT_ENDED 255

/* A process. */
#define OUT     0                 /* it has no job: it is new, or has had an error */
#define JOINING 1                 /* in sml_reconfigure() */
#define IDLE    2                 /* between two calls */
#define CALLING 3
#define LEAVING 4                 /* in sml_close() */
#define OVER    5
#define DEAD    6

/* A job at the switch. */
#define UNKNOWN   0
#define GATHERING 1
#define PROBING   2
#define RUNNING   3

/* Of membership m (1 to M) and process p. */
#define AT(m, p)    (((m) - 1) * P + (p))
#define CALL(m, c)  (((m) - 1) * C + (c))
#define UP(m, p, c) (AT(m, p) * C + (c))
#define HAS(bits, p) (((bits) & (1 << (p))) != 0)

/* ---- the caller ---- */
byte decided;                     /* memberships */
byte members[M + 1];              /* as bits */
byte deaths, switch_deaths, given_up;

/* ---- processes ---- */
byte state[P];
byte now[P];                      /* its membership; 0: none yet */
byte done[P];                     /* calls, in this one */
byte ended[M * P];                /* as many when it had an error, or went elsewhere */

/* ---- control connections ---- */
byte said[M * P];                 /* 1: Join, 2: and Ready */
byte heard[M * P];                /* as much by the switch */
bool closed[M * P];               /* the process has ended it */
bool told[M * P];                 /* the switch has: the job has failed */
bool over[M * P];                 /* the switch knows that it has ended */

/* ---- the switch ---- */
byte job[M + 1];
byte place[M + 1];
byte owner[PLACES];               /* the membership that has the number; 0: none */
byte joined[M + 1];
byte ready[M + 1];
byte leaves[M + 1];
byte call[PLACES];                /* of a slot */
byte seen[PLACES];                /* ranks, as bits */
byte sum[PLACES];                 /* processes, as bits */
byte from[PLACES];                /* the memberships of these packets, as bits */

/* ---- packets ---- */
bool up[M * P * C];
bool down[M * C];

hidden byte q, r, k;

/* ---- what happens to a job ---- */

inline clear(pl) {
	call[pl] = 0;
	seen[pl] = 0;
	sum[pl] = 0;
	from[pl] = 0
}

inline forget(m) {
	owner[place[m]] = 0;
	job[m] = UNKNOWN;
	joined[m] = 0;
	ready[m] = 0
}

inline fail(m) {
	for (q : 0 .. P - 1) {
		if
		:: HAS(joined[m], q) -> told[AT(m, q)] = true
		:: else
		fi
	}
	q = 0;
	forget(m)
}

inline begin(m) {
	for (q : 0 .. P - 1) {
		assert(!HAS(members[m], q) || (now[q] >= m && said[AT(m, q)] == 2))
	}
	q = 0;
	job[m] = RUNNING;
#ifndef KEEP_SLOT
	clear(place[m])
#endif
}

/* The number of process p in membership m. */
inline number(m, p) {
	r = 0;
	for (q : 0 .. P - 1) {
		if
		:: q < p && HAS(members[m], q) -> r++
		:: else
		fi
	}
	q = 0
}

inline count(bits) {
	k = 0;
	for (q : 0 .. P - 1) {
		if
		:: HAS(bits, q) -> k++
		:: else
		fi
	}
	q = 0
}

/* ---- the caller decides ---- */

/* Also on a process that is dead, or closes: the caller may not know it. */
#define DECIDE(bits) \
	:: atomic { decided + 1 < M && (bits) <= ALL -> decided++; members[decided] = (bits) }

#define MAY_BE_LAST(p) (state[p] < LEAVING -> (1 << (p)) : 0)
#if P == 2
#define LAST (MAY_BE_LAST(0) | MAY_BE_LAST(1))
#else
#define LAST (MAY_BE_LAST(0) | MAY_BE_LAST(1) | MAY_BE_LAST(2))
#endif

/* ---- a process ---- */

/* However a membership ends for its members, they are at most one call apart. */
inline ends(p) {
	if
	:: now[p] != 0 ->
		ended[AT(now[p], p)] = done[p];
		for (q : 0 .. P - 1) {
			r = (HAS(members[now[p]], q) -> ended[AT(now[p], q)] : NOT_ENDED);
			assert(r == NOT_ENDED || state[q] == DEAD ||
			       (r <= done[p] + 1 && done[p] <= r + 1));
#ifdef ALL_OR_NONE
			assert(r == NOT_ENDED || state[q] == DEAD || r == done[p])
#endif
		}
		q = 0; r = 0
	:: else
	fi
}

inline close_connection(p) {
	if
	:: now[p] != 0 -> closed[AT(now[p], p)] = true
	:: else
	fi
}

#ifdef ALL_OR_NONE
#define MAY_MOVE(p) (state[p] == OUT)
#else
#define MAY_MOVE(p) (state[p] == OUT || state[p] == IDLE)
#endif

#define MOVE(p, m) \
	:: atomic { MAY_MOVE(p) && now[p] < (m) && decided >= (m) && HAS(members[m], p) -> \
		GO(p); now[p] = (m); done[p] = 0; state[p] = JOINING; said[AT(m, p)] = 1 }
#ifdef KEEP_OLD
#define GO(p) skip
#else
#define GO(p) \
	if \
	:: state[p] == IDLE -> ends(p) \
	:: else \
	fi; \
	close_connection(p)
#endif

/* It waits in vain for such a member. */
#define COMES_NOT(m, q) \
	(HAS(members[m], q) && (state[q] >= LEAVING || now[q] > (m) || (now[q] == (m) && state[q] == OUT)))
#if P == 2
#define IS_HOPELESS(m) (COMES_NOT(m, 0) || COMES_NOT(m, 1))
#else
#define IS_HOPELESS(m) (COMES_NOT(m, 0) || COMES_NOT(m, 1) || COMES_NOT(m, 2))
#endif

#define NO_ROOM(p) \
	(now[p] < M && heard[AT(now[p], p)] == 0 && job[now[p]] == UNKNOWN && !(FREE))

/* In the last membership, no process is so slow that others give it up. */
#define PROCESS_STEPS(p) \
	:: atomic { state[p] == JOINING && said[AT(now[p], p)] == 1 && job[now[p]] == PROBING && \
		    HAS(joined[now[p]], p) -> said[AT(now[p], p)] = 2 } \
	:: atomic { state[p] == JOINING && said[AT(now[p], p)] == 2 && job[now[p]] == RUNNING -> \
		state[p] = IDLE } \
	:: atomic { state[p] == JOINING && (IS_HOPELESS(now[p]) || NO_ROOM(p)) -> \
		close_connection(p); ends(p); state[p] = OUT } \
	:: atomic { state[p] == JOINING && now[p] < M && given_up < F -> \
		given_up++; close_connection(p); ends(p); state[p] = OUT } \
	:: atomic { state[p] == IDLE && done[p] < C -> \
		state[p] = CALLING; up[UP(now[p], p, done[p])] = true } \
	:: atomic { state[p] > OUT && state[p] < LEAVING && told[AT(now[p], p)] -> \
		close_connection(p); ends(p); state[p] = OUT } \
	:: atomic { state[p] == LEAVING && told[AT(now[p], p)] -> \
		close_connection(p); state[p] = OVER } \
	:: atomic { state[p] == IDLE && done[p] == C && (decided < M || now[p] == M) -> \
		ends(p); state[p] = LEAVING; leaves[now[p]] = leaves[now[p]] | (1 << (p)) } \
	:: atomic { state[p] == LEAVING && leaves[now[p]] == members[now[p]] -> \
		close_connection(p); state[p] = OVER } \
	:: atomic { state[p] < OVER && deaths < D && decided < M -> \
		deaths++; close_connection(p); state[p] = DEAD }

#ifdef ANY_EPOCH_2
#define MINE(p, m) (now[p] != 0)
#else
#define MINE(p, m) (now[p] == (m))
#endif
#define TAKE(p, m, c) \
	:: atomic { state[p] == CALLING && MINE(p, m) && done[p] == (c) && down[CALL(m, c)] -> \
		assert(now[p] == (m)); done[p] = done[p] + 1; state[p] = IDLE }

/* ---- the switch and a connection ---- */

#if PLACES == 1
#define FREE (owner[0] == 0)
#define FIRST_FREE 0
#else
#define FREE (owner[0] == 0 || owner[1] == 0)
#define FIRST_FREE (owner[0] == 0 -> 0 : 1)
#endif

inline hear_join(m, p) {
	heard[AT(m, p)] = 1;
	if
	:: job[m] == UNKNOWN ->
		place[m] = FIRST_FREE;
		owner[place[m]] = m;
		job[m] = GATHERING
	:: else
	fi;
	joined[m] = joined[m] | (1 << p);
	if
	:: joined[m] == members[m] -> job[m] = PROBING
	:: else
	fi
}

inline hear_ready(m, p) {
	heard[AT(m, p)] = 2;
#ifdef OLD_READY
	k = owner[place[m]];
#else
	k = m;
#endif
	if
	:: k != 0 && job[k] == PROBING && HAS(joined[k], p) ->
		ready[k] = ready[k] | (1 << p);
		if
		:: ready[k] == members[k] -> begin(k)
		:: else
		fi
	:: else
	fi;
	k = 0
}

inline hear_end(m, p) {
	over[AT(m, p)] = true;
	if
	:: !HAS(joined[m], p)
	:: HAS(joined[m], p) && job[m] == GATHERING ->
		/* The others may still come, and this one again. */
		joined[m] = joined[m] & (ALL - (1 << p));
		if
		:: joined[m] == 0 -> forget(m)
		:: else
		fi
	:: HAS(joined[m], p) && job[m] != GATHERING && leaves[m] == members[m] -> forget(m)
	:: HAS(joined[m], p) && job[m] != GATHERING && leaves[m] != members[m] -> fail(m)
	fi
}

/* With OLD_READY, an end may be heard before a Ready. */
#ifdef OLD_READY
#define IS_IN_ORDER(m, p) true
#else
#define IS_IN_ORDER(m, p) !over[AT(m, p)]
#endif

#define CONNECTION(m, p) \
	:: atomic { said[AT(m, p)] > 0 && heard[AT(m, p)] == 0 && !told[AT(m, p)] && \
		    (job[m] != UNKNOWN || FREE) -> hear_join(m, p) } \
	:: atomic { said[AT(m, p)] == 2 && heard[AT(m, p)] == 1 && IS_IN_ORDER(m, p) -> \
		hear_ready(m, p) } \
	:: atomic { closed[AT(m, p)] && !over[AT(m, p)] && heard[AT(m, p)] > 0 && ENDS(m, p) -> \
		hear_end(m, p) }
#ifdef OLD_READY
#define ENDS(m, p) true
#else
#define ENDS(m, p) (heard[AT(m, p)] == said[AT(m, p)])
#endif

/* ---- the switch and its jobs ---- */

/* A silent process may be frozen, or only slow. */
#ifdef COUNT_SILENT
#define SILENCE(m) \
	:: atomic { (m) < M && given_up < F && job[m] == RUNNING && seen[place[m]] == 0 -> \
		given_up++; seen[place[m]] = 1 }
#else
#define SILENCE(m) \
	:: atomic { (m) < M && given_up < F && job[m] >= PROBING -> given_up++; fail(m) }
#endif

inline die() {
	for (k : 1 .. M) {
		if
		:: job[k] != UNKNOWN -> fail(k)
		:: else
		fi
	}
	k = 0
}
#define SWITCH_STEPS \
	:: atomic { switch_deaths < S && decided < M -> switch_deaths++; die() } \
	:: atomic { given_up < F -> given_up++ /* or nobody is given up */ }

/* ---- slots ---- */

#ifdef ANY_EPOCH_1
#define FITS(m) (owner[place[m]] != 0)
#else
#define FITS(m) (owner[place[m]] == (m))
#endif

inline add(m, p, c) {
	d_step {
		number(m, p);
		count(members[owner[place[m]]]);
		if
		:: r < k && !HAS(seen[place[m]], r) && call[place[m]] == c ->
			seen[place[m]] = seen[place[m]] | (1 << r);
			sum[place[m]] = sum[place[m]] | (1 << p);
			from[place[m]] = from[place[m]] | (1 << m)
		:: else
		fi;
		if
		:: seen[place[m]] == (1 << k) - 1 ->
			q = owner[place[m]];
			assert(from[place[m]] == 1 << q && sum[place[m]] == members[q]);
			down[CALL(q, c)] = true;
			seen[place[m]] = 0;
			sum[place[m]] = 0;
			from[place[m]] = 0;
			call[place[m]] = c + 1
		:: else
		fi;
		q = 0; r = 0; k = 0
	}
}

/* A packet that can change nothing need not arrive. */
#define SLOT_STEPS(m, p, c) \
	:: atomic { up[UP(m, p, c)] && place[m] < PLACES && FITS(m) && \
		    job[owner[place[m]]] == RUNNING && call[place[m]] == (c) && IS_NEW(m, p) -> \
		add(m, p, c) }
/* Bits of processes serve as well as numbers, where only the members contribute. */
#ifdef ANY_EPOCH_1
#define IS_NEW(m, p) true
#elif defined(COUNT_SILENT) || defined(KEEP_SLOT)
#define IS_NEW(m, p) true
#else
#define IS_NEW(m, p) !HAS(sum[place[m]], p)
#endif

/* ---- the world ---- */

#define OF_CALL(m, p, c) SLOT_STEPS(m, p, c) TAKE(p, m, c)
#if C == 1
#define OF_CALLS(m, p) OF_CALL(m, p, 0)
#else
#define OF_CALLS(m, p) OF_CALL(m, p, 0) OF_CALL(m, p, 1)
#endif
#define OF_BOTH(m, p) MOVE(p, m) CONNECTION(m, p) OF_CALLS(m, p)
#if P == 2
#define OF_MEMBERSHIP(m) SILENCE(m) OF_BOTH(m, 0) OF_BOTH(m, 1)
#else
#define OF_MEMBERSHIP(m) SILENCE(m) OF_BOTH(m, 0) OF_BOTH(m, 1) OF_BOTH(m, 2)
#endif

active proctype world() {
	byte p;

	d_step {
		for (p : 0 .. M * P - 1) {
			ended[p] = NOT_ENDED
		}
		p = 0
	};
	do
	DECIDE(1) DECIDE(2) DECIDE(3) DECIDE(4) DECIDE(5) DECIDE(6) DECIDE(7)
	:: atomic { decided + 1 == M && LAST != 0 -> decided++; members[decided] = LAST }
	PROCESS_STEPS(0)
	PROCESS_STEPS(1)
#if P > 2
	PROCESS_STEPS(2)
#endif
	OF_MEMBERSHIP(1)
#if M > 1
	OF_MEMBERSHIP(2)
#endif
#if M > 2
	OF_MEMBERSHIP(3)
#endif
	SWITCH_STEPS
	:: else -> break
	od;
	/* Nothing can change any more, so every process has made its calls, and has left. */
	for (p : 0 .. P - 1) {
		assert(state[p] >= OVER)
	}
}
