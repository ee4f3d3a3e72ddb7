/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums that the switch rounds: the rule of core/rounding.h against divisions in doubles, the
 * lengths of packets, and whole sums of packets in any order. Also which packets are taken whose
 * lanes are rounded, or omitted (for sums of these: tests/fuzz/slot.c).
 */
#include <math.h>
#include <string.h>

#include "core/pool.h"
#include "support/quantize_random.h"
#include "support/test.h"

#define BLOCK SML_ROUNDED_BLOCK

static const uint32_t widths[] = {16, 8};

TEST(the_shift_is_the_least_one_with_which_the_largest_sum_fits)
{
	FOR_EACH(w, widths)
	for (unsigned n = 0; n < 200000; n++) {
		int32_t sum = (int32_t)random_bits() >> random_below(32);
		struct sml_rounded_by by;
		double most;

		sml_find_rounding(&by, widths[w], sml_rounded_magnitude(sum));
		most = ldexp(1, (int)(widths[w] - 1 + by.shift));
		assert_true(sum >= -most && sum < most);
		assert_true(by.shift == 0 || sum < -most / 2 || sum >= most / 2);
	}
}

/* eBPF takes steps to it, because it has no instruction. */
TEST(the_highest_bit_is_found_in_steps_too)
{
	for (uint32_t place = 0; place < 31; place++)
		for (uint32_t below = 0; below <= place; below++) {
			uint32_t a = 1u << place | ((1u << below) - 1);

			assert_int_equal(sml_highest_bit_in_steps(a), place);
			assert_int_equal(sml_highest_bit(a), place);
		}
}

TEST(sums_are_rounded_to_nearest_even)
{
	FOR_EACH(w, widths)
	for (unsigned n = 0; n < 200000; n++) {
		/* Of up to 2^12 ranks, and many of them halfway between two lanes. */
		uint32_t bits = (uint32_t)random_bits(), zeros = random_below(12);
		uint32_t above = 20 - widths[w]; /* bits that no sum has, and its sign */
		int32_t sum = ((int32_t)bits >> (above + random_below(31 - above))) &
			      (int32_t)(~0u << zeros);
		uint32_t others = (uint32_t)random_bits() >> (above + 1 + random_below(31 - above));
		struct sml_rounded_by by;
		double expected;

		sml_find_rounding(&by, widths[w], sml_rounded_magnitude(sum) | others);
		expected = nearbyint(ldexp(sum, -(int)by.shift));
		assert_true(by.shift <= SML_ROUNDED_SHIFT_MAX);
		assert_true(sml_rounded(widths[w], sum, by) ==
			    (int32_t)fmin(expected, ldexp(1, (int)widths[w] - 1) - 1));
	}
}

/* What a switch sends up for a sum. */
static int32_t rounded_up(unsigned width, int32_t sum)
{
	struct sml_rounded_by by;

	sml_find_rounding(&by, width, sml_rounded_magnitude(sum));
	assert_true(by.shift <= SML_ROUNDED_SHIFT_MAX);
	return (int32_t)((uint32_t)sml_rounded(width, sum, by) << by.shift);
}

/*
 * sums[n]: the largest sum of n ranks, however they are spread over hosts and switches below. On
 * each level, any number of parts are rounded, or come from ranks and are not.
 */
TEST(no_tree_of_4096_ranks_needs_a_larger_shift)
{
	static int32_t sums[SML_MAX_WORLD + 1];

	FOR_EACH(w, widths)
	{
		int32_t most = (1 << (widths[w] - 1)) - 1;

		for (int32_t n = 1; n <= SML_MAX_WORLD; n++)
			sums[n] = most * n;
		for (unsigned level = 0; level < 4; level++) {
			for (int32_t n = 1; n <= SML_MAX_WORLD; n++) {
				int32_t sum = rounded_up(widths[w], sums[n]);

				sums[n] = sum > most * n ? sum : most * n;
				for (int32_t a = 1; a <= n / 2; a++)
					if (sums[a] + sums[n - a] > sums[n])
						sums[n] = sums[a] + sums[n - a];
			}
			(void)rounded_up(widths[w], sums[SML_MAX_WORLD]);
		}
	}
}

TEST(packets_are_whole_blocks_with_their_shifts)
{
	FOR_EACH(w, widths)
	{
		uint32_t blocks = 0;

		for (uint32_t lanes = 0; lanes <= SML_MAX_LANES; lanes++) {
			bool is_whole = lanes == sml_rounded_lanes(widths[w], blocks + 1);

			blocks += is_whole;
			assert_int_equal(sml_rounded_blocks(widths[w], lanes), blocks);
			assert_int_equal(sml_rounded_is_whole(widths[w], lanes), is_whole);
		}
		assert_int_equal(blocks, widths[w] == 16 ? 68 : SML_ROUNDED_BLOCKS_MAX);
	}
	/* 64 elements of 2 bytes or of 1, and a shift for each of them in a whole lane for four. */
	assert_int_equal(sml_rounded_lanes(16, 4), 4 * 32 + 1);
	assert_int_equal(sml_rounded_lanes(8, 4), 4 * 16 + 1);
}

#define RANKS  5
#define BLOCKS 3

/* With lanes of 16 bits; of 8, the shifts come earlier. */
#define MOST_LANES (BLOCKS * 32 + 1)

struct packet {
	uint8_t bytes[4 * MOST_LANES];
};

static uint8_t *shifts_of(uint32_t width, struct packet *packet)
{
	return packet->bytes + BLOCKS * BLOCK * width / 8;
}

static int32_t lane_at(uint32_t width, const struct packet *packet, unsigned i)
{
	if (width == 8)
		return (int8_t)packet->bytes[i];
	return (int16_t)(packet->bytes[2 * i] << 8 | packet->bytes[2 * i + 1]);
}

/* Of ranks, whose shifts are 0, or of leaves. Block 0 is small, and block 2 at the limits. */
static void draw_packet(uint32_t width, struct packet *packet, bool of_leaf)
{
	memset(packet, 0, sizeof(*packet));
	for (unsigned b = 0; b < BLOCKS; b++)
		shifts_of(width, packet)[b] = (uint8_t)(of_leaf ? random_below(7) : 0);
	for (unsigned i = 0; i < BLOCKS * BLOCK; i++) {
		int32_t lane = (int32_t)random_bits() >> (32 - width);

		if (i < BLOCK)
			lane = lane / (width == 8 ? 8 : 64);
		if (i >= 2 * BLOCK && random_below(2))
			lane = lane < 0 ? -(1 << (width - 1)) : (1 << (width - 1)) - 1;
		if (width == 16)
			packet->bytes[2 * i] = (uint8_t)((uint32_t)lane >> 8);
		packet->bytes[width == 16 ? 2 * i + 1 : i] = (uint8_t)lane;
	}
}

static void check_sum(uint32_t width, struct packet *packets, struct packet *result)
{
	const double limit = ldexp(1, (int)width - 1);

	for (unsigned b = 0; b < BLOCKS; b++) {
		double sums[BLOCK] = {0};
		int shift = 0;

		for (unsigned i = 0; i < BLOCK; i++) {
			for (unsigned r = 0; r < RANKS; r++)
				sums[i] += ldexp(lane_at(width, &packets[r], b * BLOCK + i),
						 shifts_of(width, &packets[r])[b]);
			while (sums[i] >= ldexp(limit, shift) || sums[i] < -ldexp(limit, shift))
				shift++;
		}
		assert_int_equal(shifts_of(width, result)[b], shift);
		for (unsigned i = 0; i < BLOCK; i++)
			assert_true(lane_at(width, result, b * BLOCK + i) ==
				    fmin(nearbyint(ldexp(sums[i], -shift)), limit - 1));
	}
	assert_int_equal(shifts_of(width, result)[BLOCKS], 0);
}

TEST(a_sum_is_the_same_in_any_order_of_arrival)
{
	struct packet packets[RANKS];
	union {
		struct packet packet;
		int32_t sums[BLOCKS * BLOCK];
	} stored;

	for (unsigned turn = 0; turn < 1000; turn++) {
		unsigned first = random_below(RANKS);
		uint32_t width = widths[turn / 2 % 2], lanes = sml_rounded_lanes(width, BLOCKS);

		assert_int_equal(sml_lanes_stored_bytes(lanes, width), sizeof(stored));
		for (unsigned r = 0; r < RANKS; r++)
			draw_packet(width, &packets[r], turn % 2);
		for (unsigned r = 0; r < RANKS; r++)
			sml_lanes_combine(SML_LANE_SUM,
					  width == 8 ? SML_LANE_INT8_ROUNDED
						     : SML_LANE_INT16_ROUNDED,
					  r == 0	  ? SML_LANES_FIRST
					  : r + 1 < RANKS ? SML_LANES_NEXT
							  : SML_LANES_LAST,
					  &stored, &packets[(first + r) % RANKS], lanes);
		check_sum(width, packets, &stored.packet);
	}
}

static enum sml_verdict verdict_at(bool rounds, bool omits, uint8_t op, uint8_t lane_kind,
				   uint32_t lanes, uint32_t length)
{
	const struct sml_pool_rules rules = {.lanes = 352,
					     .n_ranks = 1,
					     .data_slots = 1,
					     .n_shards = 1,
					     .rounds = rounds,
					     .omits = omits};
	const struct sml_header header = {.magic_be = sml_be16(SML_WIRE_MAGIC),
					  .version = SML_WIRE_VERSION,
					  .op = op,
					  .lane_kind = lane_kind,
					  .lanes_be = sml_be16((uint16_t)lanes)};
	struct sml_contribution in;

	return sml_pool_check(&rules, &header, length, &in);
}

static enum sml_verdict verdict_of(bool rounds, uint8_t op, uint8_t lane_kind, uint32_t lanes)
{
	return verdict_at(rounds, false, op, lane_kind, lanes, SML_HEADER_BYTES + 4 * lanes);
}

TEST(only_sums_of_whole_blocks_are_taken_and_only_where_switches_round)
{
	FOR_EACH(w, widths)
	{
		const uint8_t kind =
			widths[w] == 8 ? SML_LANE_INT8_ROUNDED : SML_LANE_INT16_ROUNDED;
		const uint32_t whole = sml_rounded_lanes(widths[w], 3);

		assert_int_equal(verdict_of(true, SML_LANE_SUM, kind, whole), SML_VERDICT_ABSORBED);
		assert_int_equal(verdict_of(false, SML_LANE_SUM, kind, whole),
				 SML_VERDICT_OUT_OF_RANGE);
		assert_int_equal(verdict_of(true, SML_LANE_MAX, kind, whole),
				 SML_VERDICT_OUT_OF_RANGE);
		assert_int_equal(verdict_of(true, SML_LANE_SUM, kind, whole + 1),
				 SML_VERDICT_OUT_OF_RANGE);
		assert_int_equal(verdict_of(true, SML_LANE_SUM, kind, 0), SML_VERDICT_OUT_OF_RANGE);
	}
	assert_int_equal(verdict_of(true, SML_LANE_SUM, SML_LANE_INT8_ROUNDED + 1, 49),
			 SML_VERDICT_OUT_OF_RANGE);
}

/* Of a packet whose header counts 33 lanes, and says that it omits them. */
static enum sml_verdict verdict_without(bool omits, uint8_t op, uint8_t lane_kind, uint32_t length)
{
	/* A block of int16, or two of int8. */
	return verdict_at(true, omits, op, lane_kind | SML_LANES_OMITTED, 33, length);
}

TEST(only_sums_omit_lanes_and_only_where_the_switch_takes_it)
{
	const uint32_t none = SML_HEADER_BYTES, all = SML_HEADER_BYTES + 4 * 33;

	for (uint8_t kind = SML_LANE_INT32; kind <= SML_LANE_INT8_ROUNDED; kind++) {
		assert_int_equal(verdict_without(true, SML_LANE_SUM, kind, none),
				 SML_VERDICT_ABSORBED);
		assert_int_equal(verdict_without(true, SML_LANE_SUM, kind, all),
				 SML_VERDICT_MALFORMED);
		assert_int_equal(verdict_without(true, SML_LANE_MAX, kind, none),
				 SML_VERDICT_OUT_OF_RANGE);
		assert_int_equal(verdict_without(false, SML_LANE_SUM, kind, none),
				 SML_VERDICT_MALFORMED);
		assert_int_equal(verdict_without(false, SML_LANE_SUM, kind, all),
				 SML_VERDICT_OUT_OF_RANGE);
	}
}

TESTS_BETWEEN(seed_is_set, NULL)
