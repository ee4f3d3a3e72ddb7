/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * A job's slots on one switch, and the check that a packet may touch them. The first half is shared
 * with eBPF; the second (user space and simulator) keeps the slots in the caller's memory.
 *
 * Slots 0 … head_slots - 1 serve the head stream, the data_slots after them the data stream. Slot s
 * belongs to shard s mod n_shards, which one thread of the switch serves.
 */
#ifndef SML_CORE_POOL_H
#define SML_CORE_POOL_H

#include "core/rounding.h"
#include "core/slot.h"

enum sml_stream_id { SML_HEAD = 0, SML_DATA = 1, SML_STREAMS = 2 };

/* A leaf of a tree is a rank of another switch, its parent. */
struct sml_pool_parent {
	uint64_t cookie, tag; /* the leaf's cookie at the parent, and the parent's tag */
	uint32_t job;	      /* the job's number there */
	uint8_t rank;	      /* the leaf's there */
};

/*
 * What is fixed for one epoch of a job. In a tree, all its switches have the same epoch, slots,
 * lanes and shards; everything else belongs to one switch.
 */
struct sml_pool_rules {
	uint64_t tag;
	uint32_t job;
	uint32_t epoch;
	uint16_t head_slots;
	uint16_t data_slots;
	uint16_t lanes; /* of a full packet */
	uint8_t n_ranks;
	uint8_t n_shards;
	bool is_leaf;
	bool rounds;		       /* takes narrow lanes that a switch rounds: rounding.h */
	bool omits;		       /* takes packets without their lanes: SML_LANES_OMITTED */
	bool floats;		       /* takes lanes of floats: exact.h */
	uint16_t divisor;	       /* of AVG of floats: sml_divisor_of() */
	struct sml_pool_parent parent; /* of a leaf */
	uint64_t cookies[SML_MAX_CHILDREN];
};

/*
 * A mean is divided where the contributions of all the job's ranks first come together, and only
 * there, because each further step would round once more.
 */
static inline uint16_t sml_divisor_of(unsigned n_children, unsigned n_ranks, unsigned n_world)
{
	return (uint16_t)(n_children > 1 && n_ranks == n_world ? n_world : 1);
}

static inline uint64_t sml_pool_all_ranks(const struct sml_pool_rules *rules)
{
	return ~(uint64_t)0 >> (64 - rules->n_ranks);
}

static inline enum sml_stream_id sml_pool_stream_of(const struct sml_pool_rules *rules,
						    uint16_t slot)
{
	return slot < rules->head_slots ? SML_HEAD : SML_DATA;
}

/* Does the job take lanes of this kind, with this operation, in a packet of this length? */
static inline bool sml_pool_takes_lanes(const struct sml_pool_rules *rules,
					const struct sml_contribution *in)
{
	if (in->lanes > rules->lanes || (in->omitted && in->op == SML_LANE_MAX))
		return false;
	if (sml_lane_is_float(in->lane_kind))
		return rules->floats && (in->op == SML_LANE_SUM || in->op == SML_LANE_AVG);
	if (in->op > SML_LANE_MAX)
		return false;
	if (in->lane_kind <= SML_LANE_INT16_PAIR)
		return true;
	if (in->op != SML_LANE_SUM || !rules->rounds)
		return false;
	/* The widths are constants, for divisions without an instruction. */
	if (in->lane_kind == SML_LANE_INT8_ROUNDED)
		return sml_rounded_is_whole(8, in->lanes);
	return in->lane_kind == SML_LANE_INT16_ROUNDED && sml_rounded_is_whole(16, in->lanes);
}

/* The fields that contributions and results share, and their limits: ABSORBED or OUT_OF_RANGE. */
static inline enum sml_verdict sml_pool_read(const struct sml_pool_rules *rules,
					     const struct sml_header *header,
					     struct sml_contribution *in)
{
	in->slot = sml_be16(header->slot_be);
	in->use = sml_be32(header->use_be);
	in->chunk = sml_be32(header->chunk_be);
	in->digest = sml_be32(header->digest_be);
	in->op = header->op;
	in->lane_kind = header->lane_kind & (uint8_t)~in->omitted;
	in->shard = header->shard;
	if (in->slot >= rules->head_slots + rules->data_slots || !sml_pool_takes_lanes(rules, in) ||
	    in->shard != in->slot % rules->n_shards)
		return SML_VERDICT_OUT_OF_RANGE;
	return SML_VERDICT_ABSORBED;
}

/*
 * Is it a whole packet of this version and kind? length is that of the whole UDP payload. omits:
 * the lanes may be omitted.
 */
static inline bool sml_pool_is_packet(const struct sml_header *header, uint32_t length,
				      enum sml_packet_kind kind, bool omits,
				      struct sml_contribution *in)
{
	if (length < SML_HEADER_BYTES || header->magic_be != sml_be16(SML_WIRE_MAGIC) ||
	    header->version != SML_WIRE_VERSION || header->kind != kind)
		return false;
	in->lanes = sml_be16(header->lanes_be);
	in->omitted = omits ? header->lane_kind & SML_LANES_OMITTED : 0;
	return length == SML_HEADER_BYTES + sml_lane_bytes(in->lanes, in->omitted);
}

/*
 * Is this a contribution that the job accepts? Returns SML_VERDICT_ABSORBED for yes (then *in is
 * filled), or the reason to drop it. Cheap and informative checks come first. The caller has
 * already found the job by its number.
 */
static inline enum sml_verdict sml_pool_check(const struct sml_pool_rules *rules,
					      const struct sml_header *header, uint32_t length,
					      struct sml_contribution *in)
{
	if (!sml_pool_is_packet(header, length, SML_PACKET_CONTRIBUTION, rules->omits, in))
		return SML_VERDICT_MALFORMED;
	if (header->job_be != sml_be32(rules->job))
		return SML_VERDICT_UNKNOWN_JOB;
	if (header->epoch_be != sml_be32(rules->epoch))
		return SML_VERDICT_WRONG_EPOCH;
	in->rank = header->rank;
	if (in->rank >= rules->n_ranks || in->rank >= SML_MAX_CHILDREN)
		return SML_VERDICT_OUT_OF_RANGE;
	if (header->key_be != sml_be64(rules->cookies[sml_below(in->rank, SML_MAX_CHILDREN)]))
		return SML_VERDICT_WRONG_COOKIE;
	return sml_pool_read(rules, header, in);
}

/* Is this a result of the parent that the leaf accepts? Otherwise as above. */
static inline enum sml_verdict sml_pool_check_result(const struct sml_pool_rules *rules,
						     const struct sml_header *header,
						     uint32_t length, struct sml_contribution *in)
{
	if (!rules->is_leaf ||
	    !sml_pool_is_packet(header, length, SML_PACKET_RESULT, rules->omits, in))
		return SML_VERDICT_MALFORMED;
	if (header->job_be != sml_be32(rules->parent.job))
		return SML_VERDICT_UNKNOWN_JOB;
	if (header->epoch_be != sml_be32(rules->epoch))
		return SML_VERDICT_WRONG_EPOCH;
	if (header->key_be != sml_be64(rules->parent.tag))
		return SML_VERDICT_WRONG_COOKIE;
	in->rank = header->rank;
	return sml_pool_read(rules, header, in);
}

/*
 * Does this probe come from one of the job's workers? The caller has already checked its magic,
 * version and job. Returns SML_VERDICT_ABSORBED for yes, or the reason to drop it.
 */
static inline enum sml_verdict sml_pool_check_probe(const struct sml_pool_rules *rules,
						    const struct sml_header *header)
{
	uint8_t rank = header->rank;

	if (header->epoch_be != sml_be32(rules->epoch))
		return SML_VERDICT_WRONG_EPOCH;
	if (rank >= rules->n_ranks || rank >= SML_MAX_CHILDREN || header->shard >= rules->n_shards)
		return SML_VERDICT_OUT_OF_RANGE;
	if (header->key_be != sml_be64(rules->cookies[sml_below(rank, SML_MAX_CHILDREN)]))
		return SML_VERDICT_WRONG_COOKIE;
	return SML_VERDICT_ABSORBED;
}

/* At a leaf: is this the parent's answer to its probe? length: as above. */
static inline enum sml_verdict sml_pool_check_reply(const struct sml_pool_rules *rules,
						    const struct sml_header *header,
						    uint32_t length)
{
	struct sml_contribution in;

	if (!rules->is_leaf ||
	    !sml_pool_is_packet(header, length, SML_PACKET_PROBE_REPLY, false, &in))
		return SML_VERDICT_MALFORMED;
	if (header->job_be != sml_be32(rules->parent.job))
		return SML_VERDICT_UNKNOWN_JOB;
	if (header->epoch_be != sml_be32(rules->epoch))
		return SML_VERDICT_WRONG_EPOCH;
	if (header->key_be != sml_be64(rules->parent.tag))
		return SML_VERDICT_WRONG_COOKIE;
	return in.lanes > rules->lanes || header->shard >= rules->n_shards
		       ? SML_VERDICT_OUT_OF_RANGE
		       : SML_VERDICT_ABSORBED;
}

/* The header of a result, without the lanes. */
SML_SLOT_INLINE void sml_pool_write_header(const struct sml_pool_rules *rules,
					   const struct sml_slot *slot,
					   const struct sml_contribution *in,
					   struct sml_header *out)
{
	out->magic_be = sml_be16(SML_WIRE_MAGIC);
	out->version = SML_WIRE_VERSION;
	out->kind = SML_PACKET_RESULT;
	out->job_be = sml_be32(rules->job);
	out->key_be = sml_be64(rules->tag);
	out->epoch_be = sml_be32(rules->epoch);
	out->use_be = sml_be32(slot->use);
	out->chunk_be = sml_be32(slot->ticket);
	out->digest_be = sml_be32(slot->digest);
	out->slot_be = sml_be16(in->slot);
	out->rank = slot->last_rank;
	out->op = slot->op;
	out->lane_kind = slot->lane_kind | slot->omitted;
	out->shard = in->shard;
	out->lanes_be = sml_be16(slot->lanes);
}

/* The header of a leaf's contribution to its parent, without the lanes. */
SML_SLOT_INLINE void sml_pool_write_header_up(const struct sml_pool_rules *rules,
					      const struct sml_slot *slot,
					      const struct sml_contribution *in,
					      struct sml_header *out)
{
	sml_pool_write_header(rules, slot, in, out);
	out->kind = SML_PACKET_CONTRIBUTION;
	out->job_be = sml_be32(rules->parent.job);
	out->key_be = sml_be64(rules->parent.cookie);
	out->chunk_be = sml_be32(slot->chunk);
	out->rank = rules->parent.rank;
}

#ifndef __bpf__

/*
 * The slots of one job, two buffers each. Buffer b of slot s has the number 2 s + b. Its result
 * (header and lanes, as sent) is at packets + number x stride; in FULL, it is what goes to the
 * parent. While the slot is FILLING, its lanes are there, or the sums that will be rounded, which
 * take more room. Sums of floats that need even more have it at words + number x words_stride; the
 * kernel gives no memory to pages there that no sum has needed. A slot belongs to the thread of its
 * shard; threads share only the ticket counters and waited_until_ns.
 */
struct sml_pool {
	struct sml_pool_rules rules;
	uint32_t tickets[SML_STREAMS];
	uint64_t waited_until_ns; /* atomic: sml_waited() */
	struct sml_slot *slots;
	uint8_t *packets, *words;
	uint32_t stride, words_stride;
};

/* Bytes of memory (8-byte aligned) that a pool with these rules needs. */
size_t sml_pool_memory_bytes(const struct sml_pool_rules *rules);

/*
 * All slots become FRESH, and the next ticket is the number of slots. The caller owns the memory.
 */
void sml_pool_init(struct sml_pool *pool, const struct sml_pool_rules *rules, void *memory);

/* What to send after a packet: NULL and 0 for nothing. Valid until the next call on the pool. */
struct sml_pool_answer {
	const void *packet;
	uint32_t length;
	struct sml_contribution in; /* filled unless the packet was refused before its slot */
};

/*
 * Process one packet (4-byte aligned): a contribution, or, at a leaf, a result of its parent.
 * COMPLETED: the answer goes to all ranks. RESEND: it goes only to answer->in.rank. FULL and
 * RESEND_UP: it goes to the parent. Any other verdict: nothing is sent.
 */
enum sml_verdict sml_pool_receive(struct sml_pool *pool, const void *packet, uint32_t length,
				  struct sml_pool_answer *answer);

/*
 * After each packet: how long the ranks have waited for answer->in.rank. The time may be the same
 * for many packets.
 */
uint64_t sml_pool_waited(struct sml_pool *pool, enum sml_verdict verdict,
			 const struct sml_contribution *in, uint64_t now_ns);

/*
 * The header of a leaf's probe, which tests this many lanes on the path to its parent. renewal: the
 * number of core/renewal.h, or 0.
 */
struct sml_header sml_pool_probe_up(const struct sml_pool_rules *rules, uint8_t shard,
				    uint16_t lanes, uint32_t renewal);

/*
 * Bytes that any n lanes take where they are stored. Sums that will be rounded take more than what
 * arrives: the more, the fewer bits their lanes have. width: of the narrowest; 0 if no lanes are
 * rounded.
 */
size_t sml_lanes_stored_bytes(uint32_t n, uint32_t width);

/*
 * One step of combining n lanes (4-byte aligned): `arrived` is big-endian, and `stored` as the step
 * says; it is not read if the step says that there is none. Of lanes that are rounded, n makes
 * whole blocks.
 */
void sml_lanes_combine(uint8_t op, uint8_t lane_kind, enum sml_lane_step step, void *stored,
		       const void *arrived, uint32_t n);

/* The newer of a slot's two buffers; NULL if no rank has used the slot yet. */
const struct sml_slot *sml_pool_newest(const struct sml_pool *pool, uint32_t slot);

/* The name and the meaning of a verdict. */
const char *sml_verdict_name(enum sml_verdict verdict);
const char *sml_verdict_meaning(enum sml_verdict verdict);

#endif
#endif
