/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slot and worker protocol, for spin. Checks exhaustively that
 *
 *   - no contribution is ever added to a slot that serves another chunk,
 *   - a worker only takes complete sums of the chunk that it waits for,
 *   - a sum is that of the workers that have lanes of the chunk, and of nothing that the
 *     buffer held before, whichever workers omit their lanes because they are zero,
 *   - all workers agree which slot serves which chunk (tickets), and no chunk
 *     is served twice,
 *   - nothing gets stuck: if no packet can change anything any more, every
 *     worker has every chunk.
 *
 * The network is as bad as possible: after a packet is sent, it can arrive at any
 * later time, any number of times, in any order, or never. So the network is not a
 * channel but a set that only grows: sending sets a bit, and arriving leaves it set.
 * A retransmission sets the same bit again. (A FIFO channel would hide exactly the
 * fault that the full use number prevents.)
 *
 * Stripes need no separate model. Each stripe is a whole switch with its own slots,
 * uses and counter, and stripes never share a chunk (c mod m). So a job of m stripes
 * is m of these models side by side. Stripes are connected only where data waits for
 * exponents from another stripe. The simulator covers that (sim/, worlds with
 * n_stripes > 1).
 *
 * -DN=workers -DS=slots -DC=chunks. -DONE_BIT replaces the use number with the one
 * version bit of the paper's algorithm 3, and that model must fail. So must -DADD_FIRST: the
 * first lanes are added only if their packet begins the use, and otherwise to what is there.
 *
 * tests/model/check runs all of this and compares; docs/internals/verification.md has the counts.
 */
#ifndef N
#define N 2
#endif
#ifndef S
#define S 1
#endif
#ifndef C
#define C 4
#endif

#if N > 3 || S > 3
#error "there are steps for three workers and three slots"
#endif

#define U   C                 /* a slot serves at most all chunks */
#define ALL ((1 << N) - 1)

#define FRESH    0
#define FILLING  1
#define COMPLETE 2

/* One buffer of a slot on the switch. */
typedef Buffer {
	bool lanes;           /* some worker has sent lanes: core/slot.h has the opposite, omitted */
	byte sum;             /* the workers whose lanes are stored; without lanes, of an older use */
	byte state;
	byte use;
	byte seen;
	byte chunk
};

/* The number of worker w's end of slot s is w * S + s. */
#define END(w, s) ((w) * S + (s))
#define UP(w, s, t) (((w) * S + (s)) * U + (t))
#define DOWN(s, t) ((s) * U + (t))

Buffer buffer[2 * S];
byte counter = S;             /* the next ticket */
bool served[C];               /* a use of some slot has begun to serve the chunk */

bool up[N * S * U];           /* the contribution of use t has been sent */
byte up_chunk[N * S * U];     /* and carries this chunk */
bool down[S * U];             /* the result of use t has been sent */
byte down_ticket[S * U];
byte down_chunk[S * U];

byte use[N * S];
byte chunk[N * S];            /* C and above: there is nothing left to do */
byte have[N];                 /* how many chunks the worker has */

hidden byte b, r, begins;

/* ---- the switch: core/slot.h ---- */

#ifdef ONE_BIT
/*
 * Algorithm 3: seen[ver] of a worker is cleared when it sends the other
 * version. The switch knows nothing of a packet's use but t mod 2.
 */
#define MAY_BEGIN(w, s, t) \
	((buffer[2 * (s) + (t) % 2].seen & (1 << (w))) == 0 && \
	 buffer[2 * (s) + (t) % 2].state != FILLING)
#define MAY_ADD(w, s, t) \
	((buffer[2 * (s) + (t) % 2].seen & (1 << (w))) == 0 && \
	 buffer[2 * (s) + (t) % 2].state == FILLING)
#else
#define MAY_BEGIN(w, s, t) \
	((buffer[2 * (s) + (t) % 2].state == FRESH && (t) < 2) || \
	 (buffer[2 * (s) + (t) % 2].state == COMPLETE && \
	  (t) == buffer[2 * (s) + (t) % 2].use + 2))
#define MAY_ADD(w, s, t) \
	(buffer[2 * (s) + (t) % 2].state == FILLING && \
	 (t) == buffer[2 * (s) + (t) % 2].use && \
	 (buffer[2 * (s) + (t) % 2].seen & (1 << (w))) == 0)
#endif

/* Chunk 0 is zero at even workers, chunk 1 at odd ones, chunk 2 at all, and so on. */
#define OMITS(w, c) ((c) % 3 == 2 || (c) % 3 == (w) % 2)
#define HAS(w, c) (!OMITS(w, c) -> (1 << (w)) : 0)
#define WHOLE(c) ((HAS(0, c) | HAS(1, c) | HAS(2, c)) & ALL)

#ifdef ADD_FIRST
#define COPIES(begins, b) (begins == 1)
#else
#define COPIES(begins, b) (!buffer[b].lanes)
#endif

inline combine(w, s, t) {
	begins = 0;
	b = 2 * s + t % 2;
	if
	:: MAY_BEGIN(w, s, t) ->
		buffer[b].state = FILLING;
		buffer[b].use = t;
		buffer[b].chunk = up_chunk[UP(w, s, t)];
		buffer[b].seen = 0;
		buffer[b].lanes = false;
		begins = 1;
		assert(!served[buffer[b].chunk]);
		served[buffer[b].chunk] = true
	:: else
	fi;
	/* The sum contains only one chunk. */
	assert(buffer[b].chunk == up_chunk[UP(w, s, t)]);
	if
	:: OMITS(w, buffer[b].chunk)
	:: !OMITS(w, buffer[b].chunk) && COPIES(begins, b) ->
		buffer[b].sum = 1 << w;
		buffer[b].lanes = true
	:: else ->
		buffer[b].sum = buffer[b].sum | (1 << w);
		buffer[b].lanes = true
	fi;
	buffer[b].seen = buffer[b].seen | (1 << w);
#ifdef ONE_BIT
	buffer[2 * s + 1 - t % 2].seen = buffer[2 * s + 1 - t % 2].seen & (ALL - (1 << w));
#endif
	if
	:: buffer[b].seen == ALL ->
		buffer[b].state = COMPLETE;
		assert((buffer[b].lanes -> buffer[b].sum : 0) == WHOLE(buffer[b].chunk));
		r = DOWN(s, buffer[b].use);
		down[r] = true;
		down_ticket[r] = counter;
		down_chunk[r] = buffer[b].chunk;
		counter++
	:: else
	fi
}

/* ---- the worker: core/worker_send.c, core/worker_receive.c ---- */

inline contribute(w, s) {
	up[UP(w, s, use[END(w, s)])] = true;
	up_chunk[UP(w, s, use[END(w, s)])] = chunk[END(w, s)]
}

/* What the worker knows of a result: the use, or its parity. */
#ifdef ONE_BIT
#define FITS(w, s, t) (use[END(w, s)] % 2 == (t) % 2)
#else
#define FITS(w, s, t) (use[END(w, s)] == (t))
#endif

inline take(w, s, t) {
	/* The sum is the one that this worker waits for. */
	assert(down_chunk[DOWN(s, t)] == chunk[END(w, s)]);
	have[w]++;
	use[END(w, s)] = use[END(w, s)] + 1;
	chunk[END(w, s)] = down_ticket[DOWN(s, t)]
}

/* ---- the world ---- */

#define IN_FLIGHT(w, s) (chunk[END(w, s)] < C && up[UP(w, s, use[END(w, s)])])

/* Each step changes something. Packets that change nothing can be ignored. */
#define STEPS(w, s, t) \
	:: atomic { chunk[END(w, s)] < C && use[END(w, s)] == t && !up[UP(w, s, t)] -> \
		contribute(w, s) } \
	:: atomic { up[UP(w, s, t)] && (MAY_BEGIN(w, s, t) || MAY_ADD(w, s, t)) -> \
		combine(w, s, t); b = 0; r = 0; begins = 0 } \
	:: atomic { down[DOWN(s, t)] && IN_FLIGHT(w, s) && FITS(w, s, t) -> \
		take(w, s, t) }

#if C == 3
#define USES(w, s) STEPS(w, s, 0) STEPS(w, s, 1) STEPS(w, s, 2)
#elif C == 4
#define USES(w, s) STEPS(w, s, 0) STEPS(w, s, 1) STEPS(w, s, 2) STEPS(w, s, 3)
#elif C == 5
#define USES(w, s) STEPS(w, s, 0) STEPS(w, s, 1) STEPS(w, s, 2) STEPS(w, s, 3) STEPS(w, s, 4)
#elif C == 6
#define USES(w, s) STEPS(w, s, 0) STEPS(w, s, 1) STEPS(w, s, 2) STEPS(w, s, 3) STEPS(w, s, 4) \
	STEPS(w, s, 5)
#endif

#if S == 1
#define SLOTS(w) USES(w, 0)
#elif S == 2
#define SLOTS(w) USES(w, 0) USES(w, 1)
#elif S == 3
#define SLOTS(w) USES(w, 0) USES(w, 1) USES(w, 2)
#endif

active proctype world() {
	byte w, s;

	d_step {
		for (w : 0 .. N - 1) {
			for (s : 0 .. S - 1) {
				chunk[END(w, s)] = s
			}
		}
		w = 0; s = 0
	};
	do
	SLOTS(0)
#if N > 1
	SLOTS(1)
#endif
#if N > 2
	SLOTS(2)
#endif
	:: else -> break
	od;
	/* Nothing can change any more, so every worker must have every chunk. */
	for (w : 0 .. N - 1) {
		assert(have[w] == C)
	}
}
