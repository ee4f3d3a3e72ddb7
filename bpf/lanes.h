/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * eBPF: the loops over lanes, and the sums over them that a UDP checksum needs.
 * Eight lanes for one check of bounds. Nothing here calls a helper: the slot's
 * lock is held. Loops leave by a count of the packet's, and where the rest of a
 * packet begins is computed anew from it, so that the verifier sees the same
 * state whatever the count.
 */
#ifndef SML_BPF_LANES_H
#define SML_BPF_LANES_H

#include "bpf/layout.h"
#include "bpf/verifier.h"

#define BLOCK_LANES 8
#define BLOCKS	    (SML_XDP_LANES / BLOCK_LANES)
_Static_assert(SML_XDP_LANES % BLOCK_LANES == 0, "a packet is blocks");

enum lane_way {
	WAY_COMBINE, /* as enum sml_lane_step says */
	WAY_COPY,    /* arrived = stored: a result once more */
	WAY_SUM	     /* nothing but the sum over what arrived */
};

/* Everything in it is constant but the lanes: one lane is 3 to 6 instructions. */
struct lane_rule {
	enum lane_way way;
	enum sml_lane_step step;
	uint8_t op;
	uint8_t lane_kind;
};

static __always_inline uint64_t do_lane(const struct lane_rule rule, uint32_t *stored,
					uint32_t *arrived)
{
	uint32_t value;

	if (rule.way == WAY_COPY) {
		value = *stored;
		*arrived = value;
		return value;
	}
	value = *arrived;
	if (rule.way == WAY_SUM)
		return value;
	if (rule.step == SML_LANES_ONLY) {
		*stored = value;
		return value;
	}
	value = sml_be32(value);
	if (rule.step != SML_LANES_FIRST)
		value = (uint32_t)sml_lane_combine(rule.op, rule.lane_kind, *stored, value);
	if (rule.step != SML_LANES_LAST) {
		*stored = value;
		return 0;
	}
	value = sml_be32(value);
	*stored = value;
	*arrived = value;
	return value;
}

/* Returns the sum over the lanes as they are sent (of a result) or as they came (WAY_SUM). */
static __always_inline uint64_t do_lanes(const struct lane_rule rule, uint32_t *stored,
					 uint32_t *arrived, void *end, uint32_t n)
{
	uint32_t n_blocks = n / BLOCK_LANES, n_rest = n % BLOCK_LANES;
	uint32_t *rest = arrived, base;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < BLOCKS; i++) {
		if (i >= n_blocks || (void *)(arrived + BLOCK_LANES) > end)
			break;
#pragma clang loop unroll(full)
		for (uint32_t k = 0; k < BLOCK_LANES; k++)
			sum += do_lane(rule, stored + i * BLOCK_LANES + k, arrived + k);
		arrived += BLOCK_LANES;
	}
	base = n_blocks * BLOCK_LANES;
	hide(base);
	if (n_rest == 0 || base > SML_XDP_LANES - BLOCK_LANES)
		return sum;
	rest += base;
	stored += base;
	for (uint32_t k = 0; k < BLOCK_LANES - 1; k++) {
		if (k >= n_rest || (void *)(rest + 1) > end)
			break;
		sum += do_lane(rule, stored++, rest++);
	}
	return sum;
}

#define RULE(way, step, op, kind) ((const struct lane_rule){way, step, op, kind})

/* The lanes of an ABSORBED or COMPLETED contribution. A result's are written into the packet. */
static __always_inline uint64_t lanes_combine(const struct sml_slot *slot, enum sml_lane_step step,
					      uint32_t *stored, uint32_t *arrived, void *end)
{
	uint32_t n = slot->lanes;

#define COMBINE(step, op, kind) do_lanes(RULE(WAY_COMBINE, step, op, kind), stored, arrived, end, n)
	if (step == SML_LANES_ONLY)
		return COMBINE(SML_LANES_ONLY, SML_LANE_SUM, SML_LANE_INT32);
	if (step == SML_LANES_FIRST)
		return COMBINE(SML_LANES_FIRST, SML_LANE_SUM, SML_LANE_INT32);
	if (slot->op == SML_LANE_MAX)
		return step == SML_LANES_LAST
			       ? COMBINE(SML_LANES_LAST, SML_LANE_MAX, SML_LANE_INT32)
			       : COMBINE(SML_LANES_NEXT, SML_LANE_MAX, SML_LANE_INT32);
	if (slot->lane_kind == SML_LANE_INT16_PAIR)
		return step == SML_LANES_LAST
			       ? COMBINE(SML_LANES_LAST, SML_LANE_SUM, SML_LANE_INT16_PAIR)
			       : COMBINE(SML_LANES_NEXT, SML_LANE_SUM, SML_LANE_INT16_PAIR);
	return step == SML_LANES_LAST ? COMBINE(SML_LANES_LAST, SML_LANE_SUM, SML_LANE_INT32)
				      : COMBINE(SML_LANES_NEXT, SML_LANE_SUM, SML_LANE_INT32);
#undef COMBINE
}

static __always_inline uint64_t lanes_copy(uint32_t *stored, uint32_t *to, void *end, uint32_t n)
{
	return do_lanes(RULE(WAY_COPY, 0, 0, 0), stored, to, end, n);
}

static __always_inline uint64_t lanes_sum(uint32_t *arrived, void *end, uint32_t n)
{
	return do_lanes(RULE(WAY_SUM, 0, 0, 0), (void *)0, arrived, end, n);
}

#endif
