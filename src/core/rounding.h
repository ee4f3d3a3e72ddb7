/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * Narrow lanes whose sums the switch rounds. Ranks send integers of 16 or 8 bits that use their
 * whole width, whatever the number of ranks. The switch adds them in 32 bits. When a slot is
 * complete, it finds for each block of 64 the least shift s for which all sums, rounded by s bits,
 * fit into narrow lanes again. The result is these lanes, and a byte s for each block:
 *
 *	| block 0: 64 narrow lanes | block 1 | … | s of block 0 | s of block 1 | … | zeros |
 *
 * A contribution has the same form. A rank's shifts are 0. A leaf, or the leader of a host, sends
 * what it has rounded, and its parent adds lane << s. The shifts, too, fill whole lanes of 32 bits.
 *
 * A result is a function of the exact sums alone: whatever the order in which packets arrive, its
 * bits are the same. Shared with eBPF: no loops here, and no branches.
 */
#ifndef SML_CORE_ROUNDING_H
#define SML_CORE_ROUNDING_H

#include "core/base.h"
#include "core/wire.h"

/* Elements of a block that the switch rounds together: those of a block of exponents. */
#define SML_ROUNDED_BLOCK 64

/* The bits of narrow lanes: the most and the least. Everything below takes them as an argument. */
#define SML_ROUNDED_WIDTH     16
#define SML_ROUNDED_WIDTH_MIN 8

/* Most blocks of a packet, with the least bits: see sml_rounded_blocks(). */
#define SML_ROUNDED_BLOCKS_MAX 135

/*
 * Honest sums of 2^12 ranks need no larger shift. With int8 it is one more than the logarithm,
 * because switches and hosts below may have rounded up sums that were close to the limit.
 */
#define SML_ROUNDED_SHIFT_MAX 13

/* Of a contribution's shift, these bits count: a sender that lies must not shift too far. */
#define SML_ROUNDED_SHIFT_BITS 15

static inline bool sml_lane_is_rounded(uint8_t lane_kind)
{
	return lane_kind == SML_LANE_INT16_ROUNDED || lane_kind == SML_LANE_INT8_ROUNDED;
}

/* The bits of a lane that is rounded. */
static inline uint32_t sml_rounded_width(uint8_t lane_kind)
{
	return lane_kind == SML_LANE_INT8_ROUNDED ? 8 : 16;
}

/* The blocks of a number of elements. The last one may not be full. */
static inline uint32_t sml_rounded_blocks_of(uint32_t elements)
{
	return (elements + SML_ROUNDED_BLOCK - 1) / SML_ROUNDED_BLOCK;
}

/* Lanes of 32 bits that this many blocks and their shifts take. */
static inline uint32_t sml_rounded_lanes(uint32_t width, uint32_t blocks)
{
	return blocks * (SML_ROUNDED_BLOCK / 32 * width) + (blocks + 3) / 4;
}

/* The blocks that fit into a number of lanes. Four blocks have one lane of shifts. */
SML_SLOT_INLINE uint32_t sml_rounded_blocks(uint32_t width, uint32_t lanes)
{
	uint32_t block = SML_ROUNDED_BLOCK / 32 * width, rest = lanes % (4 * block + 1);

	return lanes / (4 * block + 1) * 4 + (rest ? (rest - 1) / block : 0);
}

/* Can a packet with lanes of this kind have this length? It has whole blocks, and nothing else. */
static inline bool sml_rounded_is_whole(uint32_t width, uint32_t lanes)
{
	uint32_t blocks = sml_rounded_blocks(width, lanes);

	return blocks > 0 && sml_rounded_lanes(width, blocks) == lanes;
}

/* Bits that all numbers below have together: of a negative one, those of its complement. */
SML_SLOT_INLINE uint32_t sml_rounded_magnitude(int32_t sum)
{
	return (uint32_t)sum ^ -((uint32_t)sum >> 31);
}

/* 1 if a > most, else 0. Both are below 2^31, or they differ by less. */
SML_SLOT_INLINE uint32_t sml_exceeds(uint32_t a, uint32_t most)
{
	return (most - a) >> 31;
}

/* The place of the highest bit of a number in [1, 2^31): eBPF has no instruction for that. */
SML_SLOT_INLINE uint32_t sml_highest_bit_in_steps(uint32_t a)
{
	uint32_t place = sml_exceeds(a, 0xffff) << 4;

	place += sml_exceeds(a >> place, 0xff) << 3;
	place += sml_exceeds(a >> place, 0xf) << 2;
	place += sml_exceeds(a >> place, 3) << 1;
	return place + sml_exceeds(a >> place, 1);
}

SML_SLOT_INLINE uint32_t sml_highest_bit(uint32_t a)
{
#ifdef __bpf__
	return sml_highest_bit_in_steps(a);
#else
	return 31 - (uint32_t)__builtin_clz(a);
#endif
}

/* How sums of a block are rounded. */
struct sml_rounded_by {
	uint32_t shift;
	uint32_t odd, half; /* 0 if the shift is 0; else 1, and one less than half a unit */
};

/*
 * magnitudes: those of all sums of the block, by "or". All are below 2^(width - 1 + shift). Not a
 * result, because clang 19 refuses results of this type for eBPF.
 */
SML_SLOT_INLINE void sml_find_rounding(struct sml_rounded_by *by, uint32_t width,
				       uint32_t magnitudes)
{
	uint32_t most = ((uint32_t)1 << (width - 1)) - 1;
	uint32_t shift = sml_highest_bit(magnitudes | most) - (width - 2);
	uint32_t unit = (uint32_t)1 << shift;

	/* unit >> 1 is 0 exactly if the shift is 0, and has one bit otherwise. */
	by->shift = shift;
	by->odd = -(unit >> 1) >> 31;
	by->half = (unit - 1) >> 1;
}

/*
 * To nearest, ties to even. Only a sum in the last half unit below 2^(width - 1 + shift) would
 * become 2^(width - 1), which does not fit: it becomes one less.
 */
SML_SLOT_INLINE int32_t sml_rounded(uint32_t width, int32_t sum, struct sml_rounded_by by)
{
	uint32_t odd = (uint32_t)(sum >> by.shift) & by.odd;
	int32_t rounded = (int32_t)((uint32_t)sum + by.half + odd) >> by.shift;
	int32_t most = (int32_t)(((uint32_t)1 << (width - 1)) - 1);

	return sml_at_most(rounded, most);
}

#endif
