/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A call completes on all survivors or on none, for spin: the rules by which sml_reconfigure()
 * completes calls that have failed on some of them (src/core/standing.h). membership.pml has the
 * jobs themselves; what it proves is assumed here: a call is complete somewhere only if all members
 * have made it, and a rank's membership has begun only when all members have come.
 *
 * Processes have memberships one after the other, and make calls in each. When the members of the
 * next one have come, they tell each other how far they are in the last ones, and those that lack a
 * call's results get them from one that has all of them. Each member learns that at its own time,
 * or never: another one may die first, and then they try again in yet another membership.
 *
 * It checks exhaustively that
 *
 *   - of two processes that have been members of the same membership, and of all those after it,
 *     neither has completed a call that has failed on the other, once both have begun one of these;
 *   - whoever is to hand over results has them.
 *
 * The caller is as bad as it may be: it decides on any members, and a process goes to any later
 * membership that it is in. A job may fail at any time: a process that dies, is frozen, or is only
 * slow looks the same to the others.
 *
 * When a switch dies, members that have results give them to those that lack them, as long as they
 * live, and the job goes on (RESUME).
 *
 * -DP=processes -DM=memberships -DC=calls in each -DD=deaths
 * -DALL_FIRST: the first membership has all processes, so none comes later as a new one
 * Each of these removes one rule, and then the model must fail:
 *
 *	FORGET       a process that has begun a membership forgets the one before at once, and not
 *	             with its first call
 *	DROP_HANDED  results that were handed over are not kept for others that lack them
 *	DROP_RESUMED the same, of results that were handed over when a switch died
 *	ANY_WITNESS  one that comes later, and was not there when the others settled a call, counts
 *	             as much as they do
 */
#ifndef P
#define P 3
#endif
#ifndef M
#define M 3
#endif
#ifndef C
#define C 1
#endif
#ifndef D
#define D 1
#endif

#if P > 3 || M > 4 || C > 2
#error "there are steps for three processes, four memberships and two calls"
#endif

#define ALL ((1 << P) - 1)

#define OUT     0                 /* its job has failed, or it has none yet */
#define MEETING 1                 /* in sml_reconfigure() */
#define IDLE    2
#define CALLING 3
#define DEAD    4

#define AT(m, p)     (((m) - 1) * P + (p))
#define HAS(bits, p) (((bits) & (1 << (p))) != 0)

byte decided;
byte members[M + 1];              /* as bits */
byte came[M + 1];                 /* those that have told how far they are */
byte deaths;

byte state[P];
byte now[P];                      /* its membership, begun or not; 0: none yet */
bool begun[P];
byte made[M * P];                 /* calls of each membership */
byte done[P];                     /* of this one */
bool keeps[P];                    /* the results of its last complete call */

/* What a process knows of memberships that it was in: of one before the last, and of the last. */
typedef past {
	byte was[2];              /* 0: of none */
	byte done[2];
	bool kept[2];
	bool settled[2]
};
past own[P], told[M * P];         /* and what it has told when it came to each */

byte outcome[M * P];              /* calls that are complete, once they are settled */
byte where[M * P];                /* and in which membership they were settled; 0: not yet */

hidden byte q, k, e, f, most;
hidden byte bound, found, open_before;

/* ---- the caller decides ---- */

#ifdef ALL_FIRST
#define MAY_BE_FIRST(bits) ((bits) == ALL)
#else
#define MAY_BE_FIRST(bits) true
#endif
#define DECIDE(bits) \
	:: atomic { decided < M && (bits) <= ALL && (decided > 0 || MAY_BE_FIRST(bits)) -> \
		decided++; members[decided] = (bits) }

/* ---- sml_reconfigure() ---- */

inline forget(p, e) {
	own[p].was[e] = 0;
	own[p].done[e] = 0;
	own[p].kept[e] = false;
	own[p].settled[e] = false
}

/* What it has of the membership that it leaves, if that has begun. */
inline leave(p) {
	if
	:: begun[p] ->
		if
		:: done[p] > 0 -> forget(p, 0) /* so all members have settled what was before */
		:: else
		fi;
		own[p].was[1] = now[p];
		own[p].done[1] = done[p];
		own[p].kept[1] = keeps[p];
		own[p].settled[1] = false
	:: else
	fi
}

inline come(p, m) {
	for (e : 0 .. 1) {
		told[AT(m, p)].was[e] = own[p].was[e];
		told[AT(m, p)].done[e] = own[p].done[e];
		told[AT(m, p)].kept[e] = own[p].kept[e];
		told[AT(m, p)].settled[e] = own[p].settled[e]
	}
	e = 0;
	came[m] = came[m] | (1 << (p))
}

#define MOVE(p, m) \
	:: atomic { state[p] != DEAD && state[p] != MEETING && now[p] < (m) && decided >= (m) && \
		    HAS(members[m], p) -> \
		leave(p); come(p, m); \
		now[p] = (m); begun[p] = false; done[p] = 0; keeps[p] = false; state[p] = MEETING }

/* How many calls of the membership own[p].was[e] are complete, as these members have told. */
inline count(m, p) {
	most = 0;
	bound = false;
	open_before = false;
	for (q : 0 .. P - 1) {
		for (f : 0 .. 1) {
			if
			:: HAS(members[m], q) && told[AT(m, q)].was[f] == own[p].was[e] ->
				open_before = open_before || !told[AT(m, q)].settled[f];
#ifndef ANY_WITNESS
				if
				:: told[AT(m, q)].settled[f] && !bound ->
					bound = true;
					most = told[AT(m, q)].done[f]
				:: else
				fi;
#endif
				if
				:: !bound && told[AT(m, q)].done[f] > most ->
					most = told[AT(m, q)].done[f]
				:: else
				fi
			:: else
			fi
		}
	}
	q = 0; f = 0
}

/* It takes what it lacks from one that has it. */
inline take_over(m, p) {
	found = false;
	for (q : 0 .. P - 1) {
		for (f : 0 .. 1) {
			found = found || (HAS(members[m], q) && told[AT(m, q)].was[f] == own[p].was[e] &&
					  told[AT(m, q)].done[f] == most && told[AT(m, q)].kept[f])
		}
	}
	q = 0; f = 0;
	assert(found);
	own[p].done[e] = most;
#ifndef DROP_HANDED
	own[p].kept[e] = true
#else
	own[p].kept[e] = false
#endif
}

/* Members of all memberships since then. */
inline were_together(p, last) {
	found = true;
	for (k : own[p].was[e] + 1 .. last) {
		found = found && HAS(members[k], p) && HAS(members[k], q)
	}
	k = 0
}

inline settle(m, p) {
	count(m, p);
	if
	:: most > own[p].done[e] -> take_over(m, p)
	:: else
	fi;
	own[p].settled[e] = true;
	outcome[AT(own[p].was[e], p)] = own[p].done[e];
	where[AT(own[p].was[e], p)] = m;
	for (q : 0 .. P - 1) {
		f = where[AT(own[p].was[e], q)];
		if
		:: q != p && state[q] != DEAD && f != 0 ->
			f = (f > m -> f : m);
			were_together(p, f);
			assert(!found || outcome[AT(own[p].was[e], q)] == own[p].done[e])
		:: else
		fi
	}
	q = 0; f = 0
}

/* Only one of the two can still be open for a member that has to try again. */
inline keep_one(m, p) {
	e = 0;
	count(m, p);
	if
	:: own[p].was[1] != 0 && (own[p].was[0] == 0 || !open_before) ->
		own[p].was[0] = own[p].was[1];
		own[p].done[0] = own[p].done[1];
		own[p].kept[0] = own[p].kept[1];
		own[p].settled[0] = own[p].settled[1]
	:: else
	fi;
	forget(p, 1);
#ifdef FORGET
	forget(p, 0);
#endif
	most = 0;
	bound = false;
	open_before = false;
	found = false
}

inline begin(m, p) {
	for (e : 0 .. 1) {
		if
		:: own[p].was[e] != 0 && !own[p].settled[e] -> settle(m, p)
		:: else
		fi
	}
	keep_one(m, p);
	begun[p] = true;
	state[p] = IDLE
}

/* ---- a process ---- */

#define IN_JOB(p) (state[p] == IDLE || state[p] == CALLING)

/* All members have made the call that p is in. */
#define MADE(p, q) (!HAS(members[now[p]], q) || made[AT(now[p], q)] > done[p])
#if P == 2
#define IS_COMPLETE(p) (MADE(p, 0) && MADE(p, 1))
#else
#define IS_COMPLETE(p) (MADE(p, 0) && MADE(p, 1) && MADE(p, 2))
#endif

#define PROCESS_STEPS(p) \
	:: atomic { state[p] == MEETING && came[now[p]] == members[now[p]] -> begin(now[p], p) } \
	:: atomic { state[p] == IDLE && made[AT(now[p], p)] < C -> \
		made[AT(now[p], p)] = made[AT(now[p], p)] + 1; state[p] = CALLING } \
	:: atomic { state[p] == CALLING && IS_COMPLETE(p) -> \
		done[p] = done[p] + 1; keeps[p] = true; state[p] = IDLE } \
	:: atomic { state[p] == MEETING || state[p] == CALLING -> state[p] = OUT } \
	:: atomic { state[p] < DEAD && deaths < D -> deaths++; state[p] = DEAD }

/* A switch has died, and p's results of the call that q is in are handed over. */
#ifndef DROP_RESUMED
#define KEEPS_RESUMED true
#else
#define KEEPS_RESUMED false
#endif
#define RESUME(p, q) \
	:: atomic { IN_JOB(p) && state[q] == CALLING && now[p] == now[q] && keeps[p] && \
		    done[p] == done[q] + 1 -> \
		done[q] = done[q] + 1; keeps[q] = KEEPS_RESUMED; state[q] = IDLE }

/* ---- the world ---- */

#if P == 2
#define MOVES(m) MOVE(0, m) MOVE(1, m)
#else
#define MOVES(m) MOVE(0, m) MOVE(1, m) MOVE(2, m)
#endif

active proctype world() {
	do
	DECIDE(1) DECIDE(2) DECIDE(3) DECIDE(4) DECIDE(5) DECIDE(6) DECIDE(7)
	PROCESS_STEPS(0)
	PROCESS_STEPS(1)
	RESUME(0, 1) RESUME(1, 0)
#if P > 2
	PROCESS_STEPS(2)
	RESUME(0, 2) RESUME(2, 0) RESUME(1, 2) RESUME(2, 1)
#endif
	MOVES(1)
	MOVES(2)
#if M > 2
	MOVES(3)
#endif
#if M > 3
	MOVES(4)
#endif
	:: else -> break
	od
}
