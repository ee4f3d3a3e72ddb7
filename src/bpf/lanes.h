/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * eBPF: the loops over lanes, and the sums over them that a UDP checksum needs. eBPF has no
 * vectors, so two lanes are processed as a 64-bit word, with one bounds check for eight words. In
 * host order, a word has its first lane in the upper half. Lanes are stored like that until the
 * last rank has contributed, and from then on big-endian, as they are sent.
 *
 * Lanes that are rounded (core/rounding.h) are stored as sums of 32 bits until then, in the order
 * of the elements.
 *
 * Nothing here calls a helper: the slot's lock is held. Loops end by the packet's own count, and
 * the start of the rest of the packet is recomputed from that count, so that the verifier sees the
 * same state for every count.
 */
#ifndef SML_BPF_LANES_H
#define SML_BPF_LANES_H

#include "bpf/layout.h"
#include "bpf/verifier.h"

#define BLOCK_LANES 16
#define BLOCKS	    (SML_XDP_LANES / BLOCK_LANES)
_Static_assert(SML_XDP_LANES % BLOCK_LANES == 0, "a packet is blocks");

enum lane_way {
	WAY_FIRST, /* stored  = arrived */
	WAY_ADD32, /* stored += arrived */
	WAY_ADD16, /* the same in 16-bit halves */
	WAY_MAX,   /* stored  = the greater, of lanes or of their halves */
	WAY_KEEP,  /* stored  = arrived, unchanged: the only rank, or a parent's result */
	WAY_COPY,  /* arrived = stored: a result again */
	WAY_SUM	   /* only the checksum over what arrived */
};

/* `way` and `last` are constants in every call. */
struct lane_rule {
	enum lane_way way;
	bool last; /* the result: big-endian, into the packet too */
	/* WAY_MAX: see sml_lane_greater(). Not constants, because one loop does both kinds. */
	uint32_t high, last_bit;
};

/* A sum of 32-bit words, in two parts that do not depend on each other. */
struct word_sum {
	uint64_t even, odd;
};

/*
 * Hidden, because the compiler would otherwise add up a block's lanes at the block's end, and until
 * then store each of them on the stack.
 */
static __always_inline void add_lane(uint64_t *sum, uint32_t lane)
{
	*sum += lane;
	hide(*sum);
}

static __always_inline uint32_t combine(const struct lane_rule *rule, uint32_t a, uint32_t b)
{
	uint8_t kind = rule->way == WAY_ADD16 ? SML_LANE_INT16_PAIR : SML_LANE_INT32;

	if (rule->way == WAY_MAX)
		return sml_lane_greater(rule->high, rule->last_bit, a, b);
	return (uint32_t)sml_lane_combine(SML_LANE_SUM, kind, a, b);
}

/* Which 32-bit half of a stored word holds the first of its two lanes, until they are a result. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define FIRST 1
#else
#define FIRST 0
#endif

static __always_inline bool combines(const struct lane_rule *rule)
{
	return rule->way == WAY_ADD32 || rule->way == WAY_ADD16 || rule->way == WAY_MAX;
}

/* The new value of one lane, the i-th of its word; in host order while ranks are still missing. */
static __always_inline uint32_t lane_of(const struct lane_rule *rule, const uint32_t *stored,
					const uint32_t *arrived, uint32_t i)
{
	uint32_t lane;

	if (rule->way == WAY_COPY)
		return stored[i];
	if (!combines(rule))
		return rule->way == WAY_FIRST ? sml_be32(arrived[i]) : arrived[i];
	lane = combine(rule, stored[i ^ FIRST], sml_be32(arrived[i]));
	return rule->last ? sml_be32(lane) : lane;
}

static __always_inline void put_lane(const struct lane_rule *rule, uint32_t *stored,
				     uint32_t *arrived, uint32_t i, uint32_t lane, uint64_t *sum)
{
	bool grows = rule->way == WAY_FIRST || (combines(rule) && !rule->last);

	if (grows)
		stored[i ^ FIRST] = lane;
	else if (rule->way != WAY_COPY && rule->way != WAY_SUM)
		stored[i] = lane;
	if (rule->last || rule->way == WAY_COPY)
		arrived[i] = lane;
	if (!grows)
		add_lane(sum, lane);
}

/* Stores are the bottleneck, so a result's two lanes are stored as one word. */
static __always_inline void do_pair(const struct lane_rule *rule, uint64_t *word, uint32_t *arrived,
				    struct word_sum *sum)
{
	uint32_t *stored = (uint32_t *)word, lanes[2];

	if (rule->way == WAY_FIRST) {
		*word = sml_be64(*(uint64_t *)arrived);
		return;
	}
	lanes[0] = lane_of(rule, stored, arrived, 0);
	lanes[1] = lane_of(rule, stored, arrived, 1);
	if (rule->last) {
		*word = *(uint64_t *)arrived = (uint64_t)lanes[FIRST] << 32 | lanes[!FIRST];
		add_lane(&sum->even, lanes[0]);
		add_lane(&sum->odd, lanes[1]);
		return;
	}
	put_lane(rule, stored, arrived, 0, lanes[0], &sum->even);
	put_lane(rule, stored, arrived, 1, lanes[1], &sum->odd);
}

/* A last lane without a partner: the packet ends after it, but its word in the slot does not. */
static __always_inline void do_single(const struct lane_rule *rule, uint64_t *word,
				      uint32_t *arrived, struct word_sum *sum)
{
	uint32_t *stored = (uint32_t *)word;

	put_lane(rule, stored, arrived, 0, lane_of(rule, stored, arrived, 0), &sum->even);
}

/* Returns the checksum over the lanes, as sent (for a result) or as received. */
static __always_inline uint64_t do_lanes(const struct lane_rule rule, uint64_t *stored,
					 uint32_t *arrived, void *end, uint32_t n)
{
	uint32_t n_blocks = n / BLOCK_LANES, n_pairs = n % BLOCK_LANES / 2, base;
	struct word_sum sum = {0, 0};
	uint32_t *rest = arrived;

	for (uint32_t i = 0; i < BLOCKS; i++) {
		if (i >= n_blocks || (void *)(arrived + BLOCK_LANES) > end)
			break;
#pragma clang loop unroll(full)
		for (uint32_t k = 0; k < BLOCK_LANES / 2; k++)
			do_pair(&rule, stored + i * (BLOCK_LANES / 2) + k, arrived + 2 * k, &sum);
		arrived += BLOCK_LANES;
	}
	base = n_blocks * BLOCK_LANES;
	hide(base);
	if (n % BLOCK_LANES == 0 || base > SML_XDP_LANES - BLOCK_LANES)
		return sum.even + sum.odd;
	rest += base;
	stored += base / 2;
	for (uint32_t k = 0; k < BLOCK_LANES / 2 - 1; k++) {
		if (k >= n_pairs || (void *)(rest + 2) > end)
			break;
		do_pair(&rule, stored++, rest, &sum);
		rest += 2;
	}
	if (n % 2 && (void *)(rest + 1) <= end)
		do_single(&rule, stored, rest, &sum);
	return sum.even + sum.odd;
}

#define DO_LANES(way, last)                                                                        \
	do_lanes((const struct lane_rule){way, last, 0, 0}, stored, arrived, end, n)

/* Of lanes of this kind, which pool.h has checked. */
static __always_inline uint64_t lanes_max(uint8_t lane_kind, bool last, uint64_t *stored,
					  uint32_t *arrived, void *end, uint32_t n)
{
	uint32_t high = 0x80000000u | (uint32_t)lane_kind << 15, last_bit = 31 - 16u * lane_kind;

	_Static_assert(SML_LANE_INT32 == 0 && SML_LANE_INT16_PAIR == 1, "they are factors here");
	return do_lanes((const struct lane_rule){WAY_MAX, last, high, last_bit}, stored, arrived,
			end, n);
}

/* ---- lanes that are rounded; the width is a constant in every call ---- */

/* Lanes of 32 bits in a block. */
static __always_inline uint32_t rounded_lanes(uint32_t width)
{
	return SML_ROUNDED_BLOCK / 32 * width;
}

static __always_inline uint32_t most_blocks(uint32_t width)
{
	return width == 8 ? SML_XDP_INT8_BLOCKS : SML_XDP_INT16_BLOCKS;
}

/* The i-th number of a lane in host order, whose first is in the highest bits. */
static __always_inline uint32_t narrow_of(uint32_t width, uint32_t lane, uint32_t i)
{
	return (uint32_t)((int32_t)(lane << width * i) >> (32 - width));
}

/* Add a block to its sums. Returns their magnitudes, if this was the last contribution. */
static __always_inline uint32_t add_block(uint32_t width, enum sml_lane_step step, uint32_t *sums,
					  const uint32_t *arrived, uint32_t shift)
{
	uint32_t magnitudes = 0, lane = 0;

#pragma clang loop unroll(full)
	for (uint32_t k = 0; k < SML_ROUNDED_BLOCK; k++) {
		uint32_t i = k % (32 / width), sum;

		if (i == 0)
			lane = sml_be32(arrived[k * width / 32]);
		sum = narrow_of(width, lane, i) << shift;
		if (step != SML_LANES_FIRST)
			sum += sums[k];
		sums[k] = sum;
		if (step != SML_LANES_LAST)
			continue;
		magnitudes |= sml_rounded_magnitude((int32_t)sum);
		hide(magnitudes);
	}
	return magnitudes;
}

/* Round a block's sums into lanes, which overwrite only sums that have been read. */
static __always_inline void round_block(uint32_t width, const uint32_t *sums, uint32_t *lanes,
					uint32_t *arrived, struct sml_rounded_by by, uint64_t *sum)
{
#pragma clang loop unroll(full)
	for (uint32_t k = 0; k < rounded_lanes(width); k++) {
		uint32_t lane = 0;

#pragma clang loop unroll(full)
		for (uint32_t i = 0; i < 32 / width; i++) {
			int32_t of = (int32_t)sums[32 / width * k + i];
			uint32_t rounded = (uint32_t)sml_rounded(width, of, by);

			lane = lane << width | (rounded & (0xffffffffu >> (32 - width)));
		}
		lane = sml_be32(lane);
		lanes[k] = lane;
		arrived[k] = lane;
		add_lane(sum, lane);
	}
}

/* The shifts, which are in the packet, as lanes of the result. What follows the last one is 0. */
static __always_inline void keep_shifts(uint32_t width, uint32_t n_blocks, uint32_t *lanes,
					uint32_t *arrived, void *end, uint64_t *sum)
{
	uint32_t last = (n_blocks - 1) / 4, unused = 3 - (n_blocks - 1) % 4;

	for (uint32_t i = 0; i < (most_blocks(width) + 3) / 4; i++) {
		uint32_t lane;

		if (i > last || (void *)(arrived + 1) > end)
			break;
		lane = *arrived;
		if (i == last)
			lane &= sml_be32(0xffffffffu << 8 * unused);
		*arrived++ = lane;
		lanes[i] = lane;
		add_lane(sum, lane);
	}
}

/* Returns the checksum over the lanes of a result. `step` is a constant in every call. */
static __always_inline uint64_t do_rounded(uint32_t width, enum sml_lane_step step,
					   uint64_t *stored, uint32_t *arrived, void *end,
					   uint32_t n)
{
	uint32_t n_blocks = sml_rounded_blocks(width, n), *lanes = (uint32_t *)stored;
	uint32_t block = rounded_lanes(width), *at = arrived;
	uint8_t *shifts;
	uint64_t sum = 0;

	hide(n_blocks);
	if (n_blocks == 0 || n_blocks > most_blocks(width))
		return 0;
	shifts = (uint8_t *)(arrived + n_blocks * block);
	for (uint32_t b = 0; b < most_blocks(width); b++) {
		uint32_t *sums = (uint32_t *)stored + b * SML_ROUNDED_BLOCK, magnitudes;

		if (b >= n_blocks || (void *)(at + block) > end || (void *)(shifts + 1) > end)
			break;
		magnitudes = add_block(width, step, sums, at, *shifts & SML_ROUNDED_SHIFT_BITS);
		if (step == SML_LANES_LAST) {
			struct sml_rounded_by by;

			sml_find_rounding(&by, width, magnitudes);
			hide(by.odd); /* otherwise clang 19 makes branches of it, for each lane */
			*shifts = (uint8_t)by.shift;
			/* Otherwise all sums of the block would wait on the stack. */
			asm volatile("" ::: "memory");
			round_block(width, sums, lanes, at, by, &sum);
			lanes += block;
		}
		shifts++;
		at += block;
	}
	if (step == SML_LANES_LAST)
		keep_shifts(width, n_blocks, (uint32_t *)stored + n_blocks * block,
			    arrived + n_blocks * block, end, &sum);
	return sum;
}

static __always_inline uint64_t rounded_combine(uint32_t width, enum sml_lane_step step,
						uint64_t *stored, uint32_t *arrived, void *end,
						uint32_t n)
{
	if (step == SML_LANES_FIRST)
		return do_rounded(width, SML_LANES_FIRST, stored, arrived, end, n);
	if (step == SML_LANES_NEXT)
		return do_rounded(width, SML_LANES_NEXT, stored, arrived, end, n);
	return do_rounded(width, SML_LANES_LAST, stored, arrived, end, n);
}

/*
 * The lanes of an ABSORBED, FULL or COMPLETED contribution. The whole sum's are written into the
 * packet. width: of the lanes that this program rounds; one of 8 bits has no others.
 */
static __always_inline uint64_t lanes_combine(uint32_t width, const struct sml_slot *slot,
					      enum sml_lane_step step, uint64_t *stored,
					      uint32_t *arrived, void *end)
{
	uint32_t n = slot->lanes;

	if (step == SML_LANES_ONLY)
		return DO_LANES(WAY_KEEP, false);
	if (width == 8 || slot->lane_kind == SML_LANE_INT16_ROUNDED)
		return rounded_combine(width, step, stored, arrived, end, n);
	if (step == SML_LANES_FIRST)
		return DO_LANES(WAY_FIRST, false);
	if (slot->op == SML_LANE_MAX && step == SML_LANES_LAST)
		return lanes_max(slot->lane_kind, true, stored, arrived, end, n);
	if (slot->op == SML_LANE_MAX)
		return lanes_max(slot->lane_kind, false, stored, arrived, end, n);
	if (slot->lane_kind == SML_LANE_INT16_PAIR)
		return step == SML_LANES_LAST ? DO_LANES(WAY_ADD16, true)
					      : DO_LANES(WAY_ADD16, false);
	return step == SML_LANES_LAST ? DO_LANES(WAY_ADD32, true) : DO_LANES(WAY_ADD32, false);
}

/* A parent's result, which stays in the packet, too. */
static __always_inline uint64_t lanes_keep(uint64_t *stored, uint32_t *arrived, void *end,
					   uint32_t n)
{
	return DO_LANES(WAY_KEEP, false);
}

static __always_inline uint64_t lanes_copy(uint64_t *stored, uint32_t *arrived, void *end,
					   uint32_t n)
{
	return DO_LANES(WAY_COPY, false);
}

static __always_inline uint64_t lanes_sum(uint32_t *arrived, void *end, uint32_t n)
{
	uint64_t *stored = (void *)0;

	return DO_LANES(WAY_SUM, false);
}

#endif
