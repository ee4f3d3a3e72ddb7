/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * The slot's step: the logic that every dataplane shares. It is compiled into the user-space
 * switch, the eBPF program and the simulator.
 *
 * A slot serves uses t = 0, 1, 2, …, in two buffers in turn (t mod 2), as in the paper's algorithm
 * 3, but with the whole use number instead of the paper's one bit. The result of use t survives
 * until every rank has proved, by sending use t + 1, that it has the result. And a packet of an
 * older use can never be taken for a newer one.
 *
 *            t = index            last rank seen
 *	FRESH ----------> FILLING ------------------> COMPLETE
 *	                     ^         t = use + 2        |
 *	                     +----------------------------+
 *
 * A leaf of a tree contributes to another switch, its parent, as a rank does. It sends its sum up,
 * and completes the use with the parent's result and ticket:
 *
 *	               last rank seen          the parent's result, t = use
 *	FILLING ------------------------> FULL -----------------------------> COMPLETE
 *	          the sum goes up          |  ^
 *	                                   +--+ a duplicate: the sum goes up again
 *
 * The invariant: in FILLING, the lanes combine exactly the ranks in `seen`, each once; those that
 * omit their lanes add zeros, and until another one has come, no lanes are stored. In FULL,
 * they combine all of the leaf's ranks, and in COMPLETE all ranks of the job; they do not change
 * until the state does.
 *
 * Not here: whether the sender is allowed (pool.h), and where results go. The only loops are over
 * lanes. One thread at a time may step a slot: in user space it has one owner, in eBPF a spin lock
 * beside it.
 */
#ifndef SML_CORE_SLOT_H
#define SML_CORE_SLOT_H

#include "core/base.h"
#include "core/wire.h"

/* What became of a packet. The first six are the protocol's; the rest are drops, by reason. */
#define SML_VERDICT_LIST(X)                                                                        \
	X(ABSORBED, "absorbed", "combined; more ranks are to come")                                \
	X(COMPLETED, "completed", "combined; the last rank: the result goes to all")               \
	X(RESEND, "resend", "its result was lost: it goes to the sender again")                    \
	X(FULL, "full", "combined; a leaf's last rank: the sum goes to the parent")                \
	X(RESEND_UP, "resend-up", "the parent's result is missing: a leaf's sum goes up again")    \
	X(MISMATCH, "mismatch", "the sender believes in another tensor: the job fails")            \
	X(DUPLICATE, "duplicate", "the rank is in already")                                        \
	X(STALE_USE, "stale-use", "of a use that the slot has left behind")                        \
	X(EARLY_USE, "early-use", "of a use that cannot have begun")                               \
	X(MALFORMED, "malformed",                                                                  \
	  "not a packet of this version for this place, or too long or short")                     \
	X(UNKNOWN_JOB, "unknown-job", "no such job here")                                          \
	X(WRONG_EPOCH, "wrong-epoch", "of another epoch of the job")                               \
	X(WRONG_COOKIE, "wrong-cookie",                                                            \
	  "the sender knows neither the rank's cookie nor the parent's tag")                       \
	X(OUT_OF_RANGE, "out-of-range", "rank, slot, shard, operation or lanes beyond the job's")

enum sml_verdict {
#define SML_VERDICT_ENUM(name, text, meaning) SML_VERDICT_##name,
	SML_VERDICT_LIST(SML_VERDICT_ENUM)
#undef SML_VERDICT_ENUM
		SML_VERDICTS
};

enum sml_slot_state {
	SML_SLOT_FRESH = 0,
	SML_SLOT_FILLING = 1,
	SML_SLOT_COMPLETE = 2,
	SML_SLOT_FULL = 3 /* only at a leaf */
};

/* One buffer of a slot, without its lanes: the dataplane chooses where they are. */
struct sml_slot {
	uint64_t seen;	 /* bit r is set if rank r has contributed */
	uint32_t use;	 /* which use the buffer holds */
	uint32_t digest; /* the first rank's digest of the tensor */
	uint32_t chunk;	 /* the chunk's number according to the first rank, for error texts */
	uint32_t ticket; /* once COMPLETE: what the slot's next use will serve */
	uint16_t lanes;
	uint8_t op;
	uint8_t lane_kind;
	uint8_t state;
	uint8_t last_rank; /* once COMPLETE: SML_NO_RANK if it is not behind this switch */
	uint8_t n_seen;	   /* how many ranks have contributed */
	uint8_t omitted;   /* SML_LANES_OMITTED if all lanes are zero, and none is stored; else 0 */
	uint64_t half_ns;  /* when half of the ranks had contributed (sml_waited()); 0 if unknown */
};

/* The fields of a contribution, or of a parent's result, that matter here, in host order. */
struct sml_contribution {
	uint32_t use;
	uint32_t digest;
	uint32_t chunk; /* the ticket, if it is a result */
	uint16_t slot;
	uint16_t lanes;
	uint8_t rank;
	uint8_t op;
	uint8_t lane_kind; /* without SML_LANES_OMITTED */
	uint8_t shard;
	uint8_t omitted; /* SML_LANES_OMITTED if all lanes are zero, and not here; else 0 */
};

/*
 * What to do with the lanes, in order of arrival of those that are not omitted. Lanes are kept in
 * host order while ranks are missing, and become big-endian with the last contribution, so that
 * they can be sent as stored. Lanes that the switch rounds are kept as sums of 32 bits, and are
 * rounded with the last one.
 */
enum sml_lane_step {
	SML_LANES_FIRST, /* stored  = arrived          big-endian to host */
	SML_LANES_NEXT,	 /* stored += arrived */
	SML_LANES_LAST,	 /* stored += arrived          and host to big-endian */
	SML_LANES_ONLY,	 /* stored = arrived stays big-endian: the only rank that has any */
	/* The packet has no lanes, because they are zero. */
	SML_LANES_NONE,	 /* stored stays */
	SML_LANES_FINISH /* stored                     host to big-endian */
};

SML_SLOT_INLINE enum sml_lane_step sml_lane_step_of(bool has_lanes, bool brings_lanes, bool last)
{
	if (!brings_lanes)
		return has_lanes && last ? SML_LANES_FINISH : SML_LANES_NONE;
	if (!has_lanes)
		return last ? SML_LANES_ONLY : SML_LANES_FIRST;
	return last ? SML_LANES_LAST : SML_LANES_NEXT;
}

/*
 * The greater of a and b, or of each of their halves, signed. high has the highest bit of each
 * number, and last is that bit's place in the lowest number. There are no branches, because eBPF's
 * verifier would follow each. With the highest bits flipped, signed numbers compare as unsigned
 * ones. keep has the highest bit of each number where a is at least b, and then all bits of each
 * such number.
 */
SML_SLOT_INLINE uint32_t sml_lane_greater(uint32_t high, uint32_t last, uint32_t a, uint32_t b)
{
	uint32_t difference = ((a ^ high) | high) - ((b ^ high) & ~high);
	uint32_t keep = ((~a & b) | (~(a ^ b) & difference)) & high;

	keep = (keep - (keep >> last)) | keep;
	return (a & keep) | (b & ~keep);
}

SML_SLOT_INLINE int32_t sml_lane_combine(uint8_t op, uint8_t lane_kind, uint32_t a, uint32_t b)
{
	const uint32_t high = 0x80008000u; /* of two halves */

	if (op == SML_LANE_MAX && lane_kind == SML_LANE_INT32)
		return (int32_t)a > (int32_t)b ? (int32_t)a : (int32_t)b;
	if (op == SML_LANE_MAX)
		return (int32_t)sml_lane_greater(high, 15, a, b);
	if (lane_kind == SML_LANE_INT32)
		return (int32_t)(a + b);
	/* Two sums in one lane: the lower half does not carry into the upper half. */
	return (int32_t)(((a ^ b) & high) ^ ((a & ~high) + (b & ~high)));
}

/* Is the packet of the tensor, the operation and the size that the slot has? */
SML_SLOT_INLINE bool sml_slot_agrees(const struct sml_slot *slot, const struct sml_contribution *in)
{
	return in->digest == slot->digest && in->lanes == slot->lanes && in->op == slot->op &&
	       in->lane_kind == slot->lane_kind;
}

/* The verdict on a packet of another use than the buffer's, whose next use is not it. */
SML_SLOT_INLINE enum sml_verdict sml_slot_other_use(const struct sml_slot *slot, uint32_t use)
{
	return sml_serial_before(use, slot->use) ? SML_VERDICT_STALE_USE : SML_VERDICT_EARLY_USE;
}

/*
 * Decide what a contribution means to the buffer `slot` of parity use & 1, and record it. After
 * ABSORBED, FULL and COMPLETED, the caller must combine the lanes as *step says (before any other
 * thread can see the slot). `all` has the bits of all ranks of the job at this switch. `tickets` is
 * the stream's counter, from which each use draws one; a leaf draws none.
 */
SML_SLOT_INLINE enum sml_verdict sml_slot_step(struct sml_slot *slot,
					       const struct sml_contribution *in, uint64_t all,
					       bool is_leaf, uint32_t *tickets,
					       enum sml_lane_step *step)
{
	uint64_t rank_bit = (uint64_t)1 << (in->rank & 63);
	bool begins = false, has_lanes;

	if (slot->state == SML_SLOT_FRESH) {
		if (in->use != (in->use & 1u))
			return SML_VERDICT_EARLY_USE;
		begins = true;
	} else if (in->use != slot->use) {
		/* in->use has the buffer's parity, so the buffer's next use is use + 2. */
		if (in->use != slot->use + 2u)
			return sml_slot_other_use(slot, in->use);
		if (slot->state != SML_SLOT_COMPLETE)
			return SML_VERDICT_EARLY_USE;
		begins = true;
	}

	if (begins) {
		slot->state = SML_SLOT_FILLING;
		slot->seen = 0;
		slot->n_seen = 0;
		slot->half_ns = 0;
		slot->use = in->use;
		slot->digest = in->digest;
		slot->chunk = in->chunk;
		slot->lanes = in->lanes;
		slot->op = in->op;
		slot->lane_kind = in->lane_kind;
		slot->omitted = SML_LANES_OMITTED;
	} else if (slot->state == SML_SLOT_COMPLETE) {
		return SML_VERDICT_RESEND;
	} else if (slot->seen & rank_bit) {
		return slot->state == SML_SLOT_FULL ? SML_VERDICT_RESEND_UP : SML_VERDICT_DUPLICATE;
	} else if (!sml_slot_agrees(slot, in)) {
		return SML_VERDICT_MISMATCH;
	}

	has_lanes = !begins && !slot->omitted;
	slot->omitted &= in->omitted;
	slot->seen |= rank_bit;
	slot->n_seen++;
	*step = sml_lane_step_of(has_lanes, !in->omitted, slot->seen == all);
	if (slot->seen != all)
		return SML_VERDICT_ABSORBED;
	slot->last_rank = in->rank;
	if (is_leaf) {
		slot->state = SML_SLOT_FULL;
		return SML_VERDICT_FULL;
	}
	slot->ticket = sml_fetch_add_u32(tickets, 1);
	slot->state = SML_SLOT_COMPLETE;
	return SML_VERDICT_COMPLETED;
}

/*
 * At a leaf: decide what a result of the parent means to the buffer `slot` of parity use & 1, and
 * record it. own_rank is the leaf's at the parent. After COMPLETED, the caller must store the
 * result's lanes, if any, as they arrived (before any other thread can see the slot), and the
 * result goes to all ranks. Any other verdict is a drop.
 */
SML_SLOT_INLINE enum sml_verdict
sml_slot_accept(struct sml_slot *slot, const struct sml_contribution *in, uint8_t own_rank)
{
	if (slot->state == SML_SLOT_FRESH)
		return SML_VERDICT_EARLY_USE;
	if (in->use != slot->use)
		return sml_slot_other_use(slot, in->use);
	if (slot->state == SML_SLOT_COMPLETE)
		return SML_VERDICT_DUPLICATE;
	if (slot->state != SML_SLOT_FULL)
		return SML_VERDICT_EARLY_USE;
	if (!sml_slot_agrees(slot, in))
		return SML_VERDICT_MALFORMED;
	slot->ticket = in->chunk;
	slot->omitted = in->omitted;
	/* If this leaf was not the parent's last rank, its ranks have waited for others. */
	if (in->rank != own_rank)
		slot->last_rank = SML_NO_RANK;
	slot->state = SML_SLOT_COMPLETE;
	return SML_VERDICT_COMPLETED;
}

/* The verdict on the last of a switch's ranks: a leaf's sum then goes up. */
static inline enum sml_verdict sml_slot_last_verdict(bool is_leaf)
{
	return is_leaf ? SML_VERDICT_FULL : SML_VERDICT_COMPLETED;
}

/*
 * Which rank does the job wait for? Once half of the ranks have contributed to a use, they wait for
 * the one that completes it. Many slots wait at the same time, so the wait counts only from the
 * last moment when any use completed: no moment counts twice. Half of the ranks, because from the
 * first one on, all the time that packets take to arrive would count; and if only the last one's
 * delay after all others counted, two ranks that are equally late would hide each other.
 */
static inline uint32_t sml_half_of(uint32_t n_ranks)
{
	return (n_ranks + 1) / 2;
}

/*
 * A use is complete: how long have its ranks waited for the last one, since half_ns? *until_ns is
 * up to when the job's waits have been counted. The clock may be coarse: then waits are right on
 * average.
 */
static inline uint64_t sml_waited(uint64_t half_ns, uint64_t *until_ns, uint64_t now_ns)
{
	uint64_t since_ns = sml_load_u64(until_ns);

	if (half_ns == 0 || now_ns <= since_ns)
		return 0;
	since_ns = sml_exchange_u64(until_ns, now_ns);
	if (since_ns < half_ns)
		since_ns = half_ns;
	return now_ns > since_ns ? now_ns - since_ns : 0;
}

#endif
