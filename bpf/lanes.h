/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * eBPF: the loops over lanes, and the sums over them that a UDP checksum needs.
 * eBPF has no vectors, so two lanes are a 64-bit word, and eight words go for one
 * check of bounds. Turned to host order a word has its first lane in the upper
 * half: that is how lanes are stored until the last rank is in, and big-endian,
 * as they are sent, from then on.
 *
 * Nothing here calls a helper: the slot's lock is held. Loops leave by a count
 * of the packet's, and where the rest of a packet begins is computed anew from
 * it, so that the verifier sees the same state whatever the count.
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
	WAY_MAX,   /* stored  = the greater */
	WAY_KEEP,  /* stored  = arrived, as it came: one rank alone */
	WAY_COPY,  /* arrived = stored: a result once more */
	WAY_SUM	   /* nothing but the sum over what arrived */
};

/* `way` and `last` are constants in every call. */
struct lane_rule {
	enum lane_way way;
	bool last; /* the result: big-endian, into the packet too */
};

/*
 * A sum of words of 32 bits, w1 + w2 + …, which come two at a time: `all` adds
 * both at once and loses what overflows, `upper` the upper ones alone.
 */
struct word_sum {
	uint64_t all, upper;
};

static __always_inline void word_sum_add(struct word_sum *sum, uint64_t word)
{
	sum->all += word;
	sum->upper += word >> 32;
}

static __always_inline uint64_t word_sum_total(const struct word_sum *sum)
{
	return sum->all - (sum->upper << 32) + sum->upper;
}

static __always_inline uint32_t combine(enum lane_way way, uint32_t a, uint32_t b)
{
	uint8_t op = way == WAY_MAX ? SML_LANE_MAX : SML_LANE_SUM;
	uint8_t kind = way == WAY_ADD16 ? SML_LANE_INT16_PAIR : SML_LANE_INT32;

	return (uint32_t)sml_lane_combine(op, kind, a, b);
}

/* One word; *came is as it came, and as it goes. Returns what is to be stored. */
static __always_inline uint64_t do_word(const struct lane_rule *rule, uint64_t stored,
					uint64_t *came)
{
	uint64_t word = *came;

	if (rule->way == WAY_COPY)
		return *came = stored;
	if (rule->way == WAY_SUM || rule->way == WAY_KEEP)
		return word;
	word = sml_be64(word);
	if (rule->way != WAY_FIRST)
		word = (uint64_t)combine(rule->way, (uint32_t)(stored >> 32),
					 (uint32_t)(word >> 32))
			       << 32 |
		       combine(rule->way, (uint32_t)stored, (uint32_t)word);
	if (rule->last)
		*came = word = sml_be64(word);
	return word;
}

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define UPPER 1
#else
#define UPPER 0
#endif

/* The hottest: halves of words need no taking apart and putting together. */
static __always_inline void combine_pair(enum lane_way way, uint32_t *stored,
					 const uint32_t *arrived)
{
	stored[UPPER] = combine(way, stored[UPPER], sml_be32(arrived[0]));
	stored[!UPPER] = combine(way, stored[!UPPER], sml_be32(arrived[1]));
}

static __always_inline void do_pair(const struct lane_rule *rule, uint64_t *stored,
				    uint64_t *arrived, struct word_sum *sum)
{
	bool combines = rule->way == WAY_ADD32 || rule->way == WAY_ADD16 || rule->way == WAY_MAX;
	bool reads = combines || rule->way == WAY_COPY;
	uint64_t came, kept;

	if (combines && !rule->last) {
		combine_pair(rule->way, (uint32_t *)stored, (const uint32_t *)arrived);
		return;
	}
	came = rule->way == WAY_COPY ? 0 : *arrived;
	kept = do_word(rule, reads ? *stored : 0, &came);
	if (rule->way != WAY_SUM && rule->way != WAY_COPY)
		*stored = kept;
	if (rule->last || rule->way == WAY_COPY)
		*arrived = came;
	if (rule->last || rule->way == WAY_COPY || rule->way == WAY_SUM || rule->way == WAY_KEEP)
		word_sum_add(sum, came);
}

/* A last lane without a partner: the packet ends behind it, its word in the slot doesn't. */
static __always_inline void do_single(const struct lane_rule *rule, uint64_t *stored,
				      uint32_t *arrived, struct word_sum *sum)
{
	uint64_t came = *arrived, kept;

	if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
		came <<= 32;
	kept = do_word(rule, rule->way == WAY_SUM ? 0 : *stored, &came);
	if (rule->way != WAY_SUM && rule->way != WAY_COPY)
		*stored = kept;
	if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
		came >>= 32;
	if (rule->last || rule->way == WAY_COPY)
		*arrived = (uint32_t)came;
	sum->all += (uint32_t)came;
}

/* Returns the sum over the lanes as they are sent (of a result) or as they came. */
static __always_inline uint64_t do_lanes(const struct lane_rule rule, uint64_t *stored,
					 uint32_t *arrived, void *end, uint32_t n)
{
	uint32_t n_blocks = n / BLOCK_LANES, n_pairs = n % BLOCK_LANES / 2, base;
	struct word_sum sum = {0, 0};
	uint32_t *rest = arrived;

	for (uint32_t i = 0; i < BLOCKS; i++) {
		uint64_t *words = (uint64_t *)arrived;

		if (i >= n_blocks || (void *)(arrived + BLOCK_LANES) > end)
			break;
#pragma clang loop unroll(full)
		for (uint32_t k = 0; k < BLOCK_LANES / 2; k++)
			do_pair(&rule, stored + i * (BLOCK_LANES / 2) + k, words + k, &sum);
		arrived += BLOCK_LANES;
	}
	base = n_blocks * BLOCK_LANES;
	hide(base);
	if (n % BLOCK_LANES == 0 || base > SML_XDP_LANES - BLOCK_LANES)
		return word_sum_total(&sum);
	rest += base;
	stored += base / 2;
	for (uint32_t k = 0; k < BLOCK_LANES / 2 - 1; k++) {
		if (k >= n_pairs || (void *)(rest + 2) > end)
			break;
		do_pair(&rule, stored++, (uint64_t *)rest, &sum);
		rest += 2;
	}
	if (n % 2 && (void *)(rest + 1) <= end)
		do_single(&rule, stored, rest, &sum);
	return word_sum_total(&sum);
}

#define DO_LANES(way, last) do_lanes((const struct lane_rule){way, last}, stored, arrived, end, n)

/* The lanes of an ABSORBED or COMPLETED contribution. A result's are written into the packet. */
static __always_inline uint64_t lanes_combine(const struct sml_slot *slot, enum sml_lane_step step,
					      uint64_t *stored, uint32_t *arrived, void *end)
{
	uint32_t n = slot->lanes;

	if (step == SML_LANES_ONLY)
		return DO_LANES(WAY_KEEP, false);
	if (step == SML_LANES_FIRST)
		return DO_LANES(WAY_FIRST, false);
	if (slot->op == SML_LANE_MAX)
		return step == SML_LANES_LAST ? DO_LANES(WAY_MAX, true) : DO_LANES(WAY_MAX, false);
	if (slot->lane_kind == SML_LANE_INT16_PAIR)
		return step == SML_LANES_LAST ? DO_LANES(WAY_ADD16, true)
					      : DO_LANES(WAY_ADD16, false);
	return step == SML_LANES_LAST ? DO_LANES(WAY_ADD32, true) : DO_LANES(WAY_ADD32, false);
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
