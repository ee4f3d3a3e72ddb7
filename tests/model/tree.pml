/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A tree of switches, for spin: leaves (core/slot.h), deaths of any switch, and the epochs
 * after them (core/resume.h). slot.pml has the same slot and worker, with more of them
 * and without these. It checks exhaustively that
 *
 *   - a sum contains each worker's chunk once, and only one chunk,
 *   - a worker takes only complete sums of the chunk that it waits for, and no chunk twice,
 *   - a chunk that some workers have and others lack is kept by one that has it,
 *   - nothing gets stuck: if nothing can change any more, every worker has every chunk.
 *
 * The network is the set of slot.pml: what was sent can arrive at any later time, in any later
 * epoch, any number of times, or never. But one packet that a leaf sends up can also get lost for
 * good while the slot is full: a leaf has no timer, so this shows who asks for it again.
 *
 * A death is that of any switch, which forgets everything, or lives on until the next epoch
 * without its control connections. Each worker freezes at its own time. When all have reported,
 * the merge makes the table. Each worker and each switch begins the new epoch at its own
 * time, and a switch can die in between.
 *
 * -DLOSSY: packets of uses that their worker has completed can get lost for good, too.
 *
 * -DW=workers -DL=leaves -DC=chunks -DD=deaths, one slot. -DTREE: who is below whom, below.
 * Odd and even epochs can have different trees. Each of these removes one rule, and then
 * the model must fail:
 *
 *	KEEP_ROOT     a root that survives keeps its slots in a new epoch
 *	KEEP_LEAF     a leaf keeps its slots when it takes a new epoch
 *	SAME_EPOCH    a leaf that restarts gets the epoch that it had (with LOSSY)
 *	OLD_REPORTS   after a death that follows the table, earlier reports count
 *	ANY_EPOCH_1   hop worker to leaf: the epoch is not checked. 2: leaf to its parent.
 *	              3: parent to leaf. 4: leaf to worker.
 *	ANY_USE       a leaf accepts a result of any use of the same buffer
 *	NO_RESEND     a duplicate in full is dropped
 *
 * tests/model/check runs all of this; docs/internals/verification.md has the counts.
 */
#ifndef W
#define W 2
#endif
#ifndef L
#define L 1
#endif
#ifndef C
#define C 3
#endif
#ifndef D
#define D 1
#endif
#ifndef TREE
#define TREE 1
#endif

#if W > 3 || L > 2 || C > 4 || D > 2
#error "there are steps for three workers, two leaves, four chunks and two deaths"
#endif

#define NODES (1 + L)            /* node 0 is the root */
#define ENDS  (W + NODES)        /* workers, and node n as the child W + n of another */
#define E     (D + 1)            /* epochs are 1 to E; 0: none */
#define U     C                  /* a slot serves at most all chunks in an epoch */
#define ALL   ((1 << W) - 1)
#define NONE  255
#define ALL_CHUNKS ((1 << C) - 1)

#define FRESH    0
#define FILLING  1
#define COMPLETE 2
#define FULL     3

#define UP(e, c, t)   (((e) * ENDS + (c)) * U + (t))
#define DOWN(e, n, t) (((e) * NODES + (n)) * U + (t))
#define BUF(n, t)     (2 * (n) + (t) % 2)

/* The tree of each epoch. It never changes, so it is not part of the state. */
hidden byte parent[(E + 1) * ENDS];   /* NONE: it is not there */
hidden byte children[(E + 1) * NODES];/* bits of ends */
#define PARENT(e, c)   parent[(e) * ENDS + (c)]
#define CHILDREN(e, n) children[(e) * NODES + (n)]

typedef Buffer {
	byte state;
	byte use;
	byte seen;
	byte chunk;
	byte sum                  /* bits of the workers that are in it */
};

/* ---- switches ---- */
byte epoch_of[NODES];
Buffer buffer[2 * NODES];
byte counter;                     /* the root's next ticket */
bool has_lost[NODES];             /* losing packets again and again would hide that it is stuck */

/* ---- packets ---- */
bool up[(E + 1) * ENDS * U];
byte up_chunk[(E + 1) * ENDS * U];
byte up_sum[(E + 1) * ENDS * U];
bool down[(E + 1) * NODES * U];
byte down_ticket[(E + 1) * NODES * U];
byte down_chunk[(E + 1) * NODES * U];
byte down_sum[(E + 1) * NODES * U];

/* ---- workers ---- */
byte epoch[W];
bool frozen[W];
byte use[W];
byte chunk[W];                    /* C: nothing to do */
byte have[W];                     /* bits of chunks */
byte kept[W];                     /* bits of chunks: the last result of this epoch, or if there */
bool has_result[W];               /* is none, those of the epoch before */
byte beyond[W];

/* ---- the control plane ---- */
byte deaths;
byte last_epoch = 1;
bool pending;                     /* a switch has died, and the reports are not complete */
bool reported[W];
byte rep_have[W];
byte rep_kept[W];
byte rep_beyond[W];
byte table[E + 1];                /* bits of chunks */
byte after[E + 1];

hidden byte b, r, q, n_, w_, lack;

/* The chunk of ticket k in epoch e: r. */
inline chunk_of(e, k) {
	r = 0; q = k;
	do
	:: r >= after[e] -> r = r + q; break
	:: r < after[e] && (table[e] & (1 << r)) && q == 0 -> break
	:: r < after[e] && (table[e] & (1 << r)) && q > 0 -> q--; r++
	:: r < after[e] && !(table[e] & (1 << r)) -> r++
	od;
	if
	:: r > C -> r = C
	:: else
	fi
}

inline assign(w, e, k) {
	chunk_of(e, k);
	chunk[w] = r;
	if
	:: r < C && beyond[w] < r + 1 -> beyond[w] = r + 1
	:: else
	fi
}

/* ---- a switch: core/slot.h ---- */

#define MAY_BEGIN(n, t) \
	((buffer[BUF(n, t)].state == FRESH && (t) < 2) || \
	 (buffer[BUF(n, t)].state == COMPLETE && (t) == buffer[BUF(n, t)].use + 2))
#define MAY_ADD(n, c, t) \
	(buffer[BUF(n, t)].state == FILLING && (t) == buffer[BUF(n, t)].use && \
	 (buffer[BUF(n, t)].seen & (1 << (c))) == 0)
#ifdef NO_RESEND
#define MAY_RESEND(n, t) false
#else
#define MAY_RESEND(n, t) \
	(buffer[BUF(n, t)].state == FULL && (t) == buffer[BUF(n, t)].use && \
	 !up[UP(epoch_of[n], W + (n), t)])
#endif

inline send_up(n, t) {
	r = UP(epoch_of[n], W + n, t);
	up[r] = true;
	up_chunk[r] = buffer[b].chunk;
	up_sum[r] = buffer[b].sum
}

inline send_down(n, t, ticket) {
	r = DOWN(epoch_of[n], n, t);
	down[r] = true;
	down_ticket[r] = ticket;
	down_chunk[r] = buffer[b].chunk;
	down_sum[r] = buffer[b].sum
}

inline combine(pe, n, c, t) {
	b = BUF(n, t);
	if
	:: MAY_BEGIN(n, t) ->
		buffer[b].state = FILLING;
		buffer[b].use = t;
		buffer[b].chunk = up_chunk[UP(pe, c, t)];
		buffer[b].seen = 0;
		buffer[b].sum = 0
	:: else
	fi;
	assert(buffer[b].chunk == up_chunk[UP(pe, c, t)]);
	assert((buffer[b].sum & up_sum[UP(pe, c, t)]) == 0);
	buffer[b].seen = buffer[b].seen | (1 << c);
	buffer[b].sum = buffer[b].sum | up_sum[UP(pe, c, t)];
	if
	:: buffer[b].seen == CHILDREN(epoch_of[n], n) && n == 0 ->
		buffer[b].state = COMPLETE;
		send_down(n, t, counter);
		counter++
	:: buffer[b].seen == CHILDREN(epoch_of[n], n) && n != 0 ->
		buffer[b].state = FULL;
		send_up(n, t)
	:: else
	fi
}

/* A packet of a child of packet epoch pe. */
#define IS_WORKER(c) ((c) < W)
#ifdef ANY_EPOCH_1
#define UP_FITS_1(pe, c, n) (IS_WORKER(c) && (n) != 0)
#else
#define UP_FITS_1(pe, c, n) false
#endif
#ifdef ANY_EPOCH_2
#define UP_FITS_2(pe, c, n) (!IS_WORKER(c))
#else
#define UP_FITS_2(pe, c, n) false
#endif
#define UP_FITS(pe, c, n) \
	(epoch_of[n] != 0 && (CHILDREN(epoch_of[n], n) & (1 << (c))) && \
	 ((pe) == epoch_of[n] || UP_FITS_1(pe, c, n) || UP_FITS_2(pe, c, n)))
#define AT(pe, c) PARENT(pe, c)

/* The parent's result, at leaf n. */
#ifdef ANY_USE
#define USE_FITS(n, t) ((t) % 2 == buffer[BUF(n, t)].use % 2)
#else
#define USE_FITS(n, t) ((t) == buffer[BUF(n, t)].use)
#endif
#ifdef ANY_EPOCH_3
#define RESULT_FITS(pe, n) (epoch_of[n] != 0)
#else
#define RESULT_FITS(pe, n) (epoch_of[n] == (pe))
#endif

inline accept(pe, n, t) {
	b = BUF(n, t);
	q = DOWN(pe, PARENT(pe, W + n), t);
	buffer[b].state = COMPLETE;
	buffer[b].chunk = down_chunk[q];
	buffer[b].sum = down_sum[q];
	send_down(n, buffer[b].use, down_ticket[q])
}

/* ---- a worker: core/worker_send.c, core/worker_receive.c ---- */

#define MAY_CONTRIBUTE(w, t) \
	(!frozen[w] && chunk[w] < C && use[w] == (t) && !up[UP(epoch[w], w, t)])

/* The buffer of a chunk that the worker has may belong to the application again. */
inline contribute(w, t) {
	assert(!(have[w] & (1 << chunk[w])));
	r = UP(epoch[w], w, t);
	up[r] = true;
	up_chunk[r] = chunk[w];
	up_sum[r] = 1 << w
}

#ifdef ANY_EPOCH_4
#define TAKE_FITS(pe, w) ((pe) == epoch[w] || PARENT(pe, w) != 0)
#else
#define TAKE_FITS(pe, w) ((pe) == epoch[w])
#endif
#define MAY_TAKE(pe, w, t) \
	(!frozen[w] && chunk[w] < C && use[w] == (t) && up[UP(epoch[w], w, t)] && \
	 TAKE_FITS(pe, w) && down[DOWN(pe, PARENT(pe, w), t)])

inline take(pe, w, t) {
	b = DOWN(pe, PARENT(pe, w), t);
	assert(down_chunk[b] == chunk[w] && down_sum[b] == ALL);
	have[w] = have[w] | (1 << chunk[w]);
	kept[w] = 1 << chunk[w];
	has_result[w] = true;
	use[w] = use[w] + 1;
	assign(w, epoch[w], down_ticket[b])
}

/* ---- deaths, reports, epochs ---- */

inline forget(n) {
	d_step {
		buffer[2 * n].state = FRESH; buffer[2 * n].use = 0; buffer[2 * n].seen = 0;
		buffer[2 * n].chunk = 0; buffer[2 * n].sum = 0;
		buffer[2 * n + 1].state = FRESH; buffer[2 * n + 1].use = 0;
		buffer[2 * n + 1].seen = 0; buffer[2 * n + 1].chunk = 0; buffer[2 * n + 1].sum = 0
	}
}

/* The reports for earlier deaths do not count. */
inline dies() {
	deaths++;
	pending = true;
#ifndef OLD_REPORTS
	for (w_ : 0 .. W - 1) {
		reported[w_] = false
	}
#endif
	w_ = 0
}

inline report(w) {
	frozen[w] = true;
	reported[w] = true;
	rep_have[w] = have[w];
	rep_kept[w] = kept[w];
	rep_beyond[w] = beyond[w]
}

#if W == 1
#define ALL_REPORTED (reported[0])
#elif W == 2
#define ALL_REPORTED (reported[0] && reported[1])
#else
#define ALL_REPORTED (reported[0] && reported[1] && reported[2])
#endif

inline merge() {
	last_epoch++;
	pending = false;
	r = 0;
	for (w_ : 0 .. W - 1) {
		if
		:: rep_beyond[w_] > r -> r = rep_beyond[w_]
		:: else
		fi
	}
	after[last_epoch] = r;
	for (q : 0 .. C - 1) {
		lack = 0; b = 0;
		for (w_ : 0 .. W - 1) {
			if
			:: !(rep_have[w_] & (1 << q)) -> lack++
			:: (rep_have[w_] & (1 << q)) && (rep_kept[w_] & (1 << q)) -> b = 1
			:: else
			fi
		}
		if
		:: q < r && lack == W -> table[last_epoch] = table[last_epoch] | (1 << q)
		/* Whoever lacks it gets it from one that has it. */
		:: q < r && lack > 0 && lack < W -> assert(b == 1)
		:: else
		fi
	}
#ifndef OLD_REPORTS
	for (w_ : 0 .. W - 1) {
		rep_have[w_] = 0; rep_kept[w_] = 0; rep_beyond[w_] = 0; reported[w_] = false
	}
#endif
	r = 0; q = 0; b = 0; w_ = 0; lack = 0
}

inline begin(w) {
	epoch[w] = last_epoch;
	frozen[w] = false;
	/* The hand-over: all that is below `after` and not in the table. */
	have[w] = have[w] | (((1 << after[last_epoch]) - 1) & (ALL_CHUNKS - table[last_epoch]));
	has_result[w] = false;
	if
	:: beyond[w] < after[last_epoch] -> beyond[w] = after[last_epoch]
	:: else
	fi;
	use[w] = 0;
	assign(w, last_epoch, 0)
}
inline take_epoch(n) {
	epoch_of[n] = last_epoch;
	if
#ifndef KEEP_ROOT
	:: n == 0 -> forget(n)
#endif
#ifndef KEEP_LEAF
	:: n != 0 -> forget(n)
#endif
	:: else
	fi;
	if
	:: n == 0 -> counter = 1
	:: else
	fi
}

/* ---- the world ---- */

#define CLEAR b = 0; r = 0; q = 0; w_ = 0

#define WORKER_STEPS(w) \
	:: atomic { pending && !reported[w] -> report(w) } \
	:: atomic { !pending && epoch[w] < last_epoch && BEGINS(w) -> begin(w); CLEAR }
#ifdef OLD_REPORTS
#define BEGINS(w) true
#else
#define BEGINS(w) frozen[w]
#endif

/* A switch dies and forgets all, or loses only its control plane. */
#ifdef SAME_EPOCH
#define NODE_STEPS(n) \
	:: atomic { deaths < D && (n) != 0 && epoch_of[n] != 0 -> deaths++; forget(n) }
#else
#define NODE_STEPS(n) \
	:: atomic { deaths < D && epoch_of[n] != 0 -> dies(); epoch_of[n] = 0; forget(n) } \
	:: atomic { deaths < D && epoch_of[n] != 0 -> dies() } \
	:: atomic { MAY_TAKE_EPOCH(n) -> take_epoch(n); CLEAR }
#endif
/* A switch that has forgotten everything only gets an epoch that is newer than its death. */
#define MAY_TAKE_EPOCH(n) \
	(epoch_of[n] != last_epoch && CHILDREN(last_epoch, n) != 0 && \
	 (epoch_of[n] != 0 || !pending))

#define UP_STEPS(pe, c, t) \
	:: atomic { up[UP(pe, c, t)] && UP_FITS(pe, c, AT(pe, c)) && \
		    (MAY_BEGIN(AT(pe, c), t) || MAY_ADD(AT(pe, c), c, t)) -> \
		n_ = AT(pe, c); combine(pe, n_, c, t); CLEAR; n_ = 0 } \
	:: atomic { up[UP(pe, c, t)] && UP_FITS(pe, c, AT(pe, c)) && AT(pe, c) != 0 && \
		    MAY_RESEND(AT(pe, c), t) -> \
		n_ = AT(pe, c); b = BUF(n_, t); send_up(n_, t); CLEAR; n_ = 0 }

#define TAKE_STEPS(pe, w, t) \
	:: atomic { MAY_TAKE(pe, w, t) -> take(pe, w, t); CLEAR }

#define SEND_STEPS(w, t) \
	:: atomic { MAY_CONTRIBUTE(w, t) -> contribute(w, t); r = 0 }

#define LEAF_STEPS(pe, n, t) \
	:: atomic { PARENT(pe, W + (n)) != NONE && down[DOWN(pe, PARENT(pe, W + (n)), t)] && \
		    RESULT_FITS(pe, n) && buffer[BUF(n, t)].state == FULL && USE_FITS(n, t) -> \
		accept(pe, n, t); CLEAR }

#define LOSE_STEPS(n, t) \
	:: atomic { epoch_of[n] != 0 && buffer[BUF(n, t)].state == FULL && \
		    buffer[BUF(n, t)].use == (t) && up[UP(epoch_of[n], W + (n), t)] && \
		    !has_lost[n] -> \
		up[UP(epoch_of[n], W + (n), t)] = false; has_lost[n] = true }

#define FOR_3(X, a, b_) X(a, b_, 0) X(a, b_, 1) X(a, b_, 2)
#define FOR_2(X, a) X(a, 0) X(a, 1) X(a, 2)
#if C == 4
#undef FOR_3
#undef FOR_2
#define FOR_3(X, a, b_) X(a, b_, 0) X(a, b_, 1) X(a, b_, 2) X(a, b_, 3)
#define FOR_2(X, a) X(a, 0) X(a, 1) X(a, 2) X(a, 3)
#endif

#if E == 1
#define FOR_E(X, a) FOR_3(X, 1, a)
#elif E == 2
#define FOR_E(X, a) FOR_3(X, 1, a) FOR_3(X, 2, a)
#else
#define FOR_E(X, a) FOR_3(X, 1, a) FOR_3(X, 2, a) FOR_3(X, 3, a)
#endif

#ifdef LOSSY
#define FORGOTTEN_STEPS(w, t) \
	:: atomic { use[w] > (t) && up[UP(epoch[w], w, t)] -> up[UP(epoch[w], w, t)] = false }
#else
#define FORGOTTEN_STEPS(w, t)
#endif

#define OF_WORKER(w) \
	WORKER_STEPS(w) FOR_2(SEND_STEPS, w) FOR_2(FORGOTTEN_STEPS, w) FOR_E(UP_STEPS, w) FOR_E(TAKE_STEPS, w)
#define OF_LEAF(n) \
	NODE_STEPS(n) FOR_E(UP_STEPS, W + (n)) FOR_E(LEAF_STEPS, n) FOR_2(LOSE_STEPS, n)

inline place(e, c, n) {
	PARENT(e, c) = n;
	CHILDREN(e, n) = CHILDREN(e, n) | (1 << (c))
}

/* Trees, by -DTREE; the odd epochs, and the even ones. */
inline plant() {
	for (r : 0 .. (E + 1) * ENDS - 1) {
		parent[r] = NONE
	}
	for (r : 1 .. E) {
#if TREE == 1                             /* one rack of two */
		place(r, W + 1, 0); place(r, 0, 1); place(r, 1, 1)
#elif TREE == 2                           /* a worker in a rack, one beside it; then both in it */
		place(r, W + 1, 0); place(r, 0, 1);
		if
		:: r % 2 == 1 -> place(r, 1, 0)
		:: else -> place(r, 1, 1)
		fi
#elif TREE == 3                           /* two racks of one; then one rack of two */
		place(r, W + 1, 0); place(r, 0, 1);
		if
		:: r % 2 == 1 -> place(r, W + 2, 0); place(r, 1, 2)
		:: else -> place(r, 1, 1)
		fi
#elif TREE == 4                           /* a leaf below a leaf: three levels */
		place(r, W + 1, 0); place(r, W + 2, 1); place(r, 0, 2); place(r, 1, 1)
#elif TREE == 5                           /* a rack of two, and a worker beside it */
		place(r, W + 1, 0); place(r, 0, 1); place(r, 1, 1); place(r, 2, 0)
#endif
	}
	r = 0
}

active proctype world() {
	byte w;

	d_step {
		plant();
		for (w : 0 .. W - 1) {
			epoch[w] = 1; chunk[w] = 0; beyond[w] = 1
		}
		for (w : 0 .. NODES - 1) {
			epoch_of[w] = (CHILDREN(1, w) != 0 -> 1 : 0)
		}
		counter = 1;
		w = 0
	};
	do
	OF_WORKER(0)
#if W > 1
	OF_WORKER(1)
#endif
#if W > 2
	OF_WORKER(2)
#endif
	NODE_STEPS(0)
	OF_LEAF(1)
#if L > 1
	OF_LEAF(2)
#endif
	:: atomic { pending && ALL_REPORTED -> merge() }
	:: else -> break
	od;
	for (w : 0 .. W - 1) {
		assert(have[w] == ALL_CHUNKS)
	}
}
