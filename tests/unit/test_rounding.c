/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums that the switch rounds: the rule of core/rounding.h against divisions in doubles, the
 * lengths of packets, and whole sums of packets in any order.
 */
#include <math.h>
#include <string.h>

#include "core/pool.h"
#include "support/quantize_random.h"
#include "support/test.h"

#define WIDTH SML_ROUNDED_WIDTH
#define BLOCK SML_ROUNDED_BLOCK

TEST(the_shift_is_the_least_one_with_which_the_largest_sum_fits)
{
	for (unsigned n = 0; n < 200000; n++) {
		int32_t sum = (int32_t)random_bits() >> random_below(32);
		struct sml_rounded_by by;
		double most;

		sml_find_rounding(&by, WIDTH, sml_rounded_magnitude(sum));
		most = ldexp(1, (int)(WIDTH - 1 + by.shift));
		assert_true(sum >= -most && sum < most);
		assert_true(by.shift == 0 || sum < -most / 2 || sum >= most / 2);
	}
}

TEST(sums_are_rounded_to_nearest_even)
{
	for (unsigned n = 0; n < 200000; n++) {
		/* Of up to 2^12 ranks, and many of them halfway between two lanes. */
		uint32_t bits = (uint32_t)random_bits(), zeros = random_below(12);
		int32_t sum = ((int32_t)bits >> (4 + random_below(24))) & (int32_t)(~0u << zeros);
		uint32_t others = (uint32_t)random_bits() >> (5 + random_below(27));
		struct sml_rounded_by by;
		double expected;

		sml_find_rounding(&by, WIDTH, sml_rounded_magnitude(sum) | others);
		expected = nearbyint(ldexp(sum, -(int)by.shift));
		assert_true(by.shift <= SML_ROUNDED_SHIFT_MAX);
		assert_true(sml_rounded(WIDTH, sum, by) == (int32_t)fmin(expected, INT16_MAX));
	}
}

TEST(packets_are_whole_blocks_with_their_shifts)
{
	uint32_t blocks = 0;

	for (uint32_t lanes = 0; lanes <= SML_MAX_LANES; lanes++) {
		bool is_whole = lanes == sml_rounded_lanes(WIDTH, blocks + 1);

		blocks += is_whole;
		assert_int_equal(sml_rounded_blocks(WIDTH, lanes), blocks);
		assert_int_equal(sml_rounded_is_whole(WIDTH, lanes), is_whole);
	}
	assert_int_equal(blocks, SML_ROUNDED_BLOCKS_MAX);
	/* 64 elements of 2 bytes, and a shift for each of them in a whole lane for four. */
	assert_int_equal(sml_rounded_lanes(WIDTH, 4), 4 * 32 + 1);
}

#define RANKS  5
#define BLOCKS 3
#define LANES  (BLOCKS * 32 + 1)

struct packet {
	int16_t lanes_be[BLOCKS * BLOCK];
	uint8_t shifts[4];
};

_Static_assert(sizeof(struct packet) == 4 * LANES, "as in a packet");

/* Of ranks, whose shifts are 0, or of leaves. Block 0 is small, and block 2 at the limits. */
static void draw_packet(struct packet *packet, bool of_leaf)
{
	memset(packet, 0, sizeof(*packet));
	for (unsigned b = 0; b < BLOCKS; b++)
		packet->shifts[b] = (uint8_t)(of_leaf ? random_below(7) : 0);
	for (unsigned i = 0; i < BLOCKS * BLOCK; i++) {
		int16_t lane = (int16_t)random_bits();

		if (i < BLOCK)
			lane = (int16_t)(lane / 64);
		if (i >= 2 * BLOCK && random_below(2))
			lane = lane < 0 ? INT16_MIN : INT16_MAX;
		packet->lanes_be[i] = (int16_t)sml_be16((uint16_t)lane);
	}
}

static int16_t lane_at(const struct packet *packet, unsigned i)
{
	return (int16_t)sml_be16((uint16_t)packet->lanes_be[i]);
}

static void check_sum(const struct packet *packets, const struct packet *result)
{
	for (unsigned b = 0; b < BLOCKS; b++) {
		double sums[BLOCK] = {0};
		int shift = 0;

		for (unsigned i = 0; i < BLOCK; i++) {
			for (unsigned r = 0; r < RANKS; r++)
				sums[i] += ldexp(lane_at(&packets[r], b * BLOCK + i),
						 packets[r].shifts[b]);
			while (sums[i] >= ldexp(1, 15 + shift) || sums[i] < -ldexp(1, 15 + shift))
				shift++;
		}
		assert_int_equal(result->shifts[b], shift);
		for (unsigned i = 0; i < BLOCK; i++)
			assert_true(lane_at(result, b * BLOCK + i) ==
				    fmin(nearbyint(ldexp(sums[i], -shift)), INT16_MAX));
	}
	assert_int_equal(result->shifts[BLOCKS], 0);
}

TEST(a_sum_is_the_same_in_any_order_of_arrival)
{
	struct packet packets[RANKS];
	union {
		struct packet packet;
		int32_t sums[BLOCKS * BLOCK];
	} stored;

	assert_int_equal(sml_lanes_stored_bytes(LANES, true), sizeof(stored));
	for (unsigned turn = 0; turn < 500; turn++) {
		unsigned first = random_below(RANKS);

		for (unsigned r = 0; r < RANKS; r++)
			draw_packet(&packets[r], turn % 2);
		for (unsigned r = 0; r < RANKS; r++)
			sml_lanes_combine(SML_LANE_SUM, SML_LANE_INT16_ROUNDED,
					  r == 0	  ? SML_LANES_FIRST
					  : r + 1 < RANKS ? SML_LANES_NEXT
							  : SML_LANES_LAST,
					  &stored, &packets[(first + r) % RANKS], LANES);
		check_sum(packets, &stored.packet);
	}
}

static enum sml_verdict verdict_of(bool rounds, uint8_t op, uint16_t lanes)
{
	const struct sml_pool_rules rules = {
		.lanes = 352, .n_ranks = 1, .data_slots = 1, .n_shards = 1, .rounds = rounds};
	const struct sml_header header = {.magic_be = sml_be16(SML_WIRE_MAGIC),
					  .version = SML_WIRE_VERSION,
					  .op = op,
					  .lane_kind = SML_LANE_INT16_ROUNDED,
					  .lanes_be = sml_be16(lanes)};
	struct sml_contribution in;

	return sml_pool_check(&rules, &header, SML_HEADER_BYTES + 4u * lanes, &in);
}

TEST(only_sums_of_whole_blocks_are_taken_and_only_where_switches_round)
{
	assert_int_equal(verdict_of(true, SML_LANE_SUM, LANES), SML_VERDICT_ABSORBED);
	assert_int_equal(verdict_of(false, SML_LANE_SUM, LANES), SML_VERDICT_OUT_OF_RANGE);
	assert_int_equal(verdict_of(true, SML_LANE_MAX, LANES), SML_VERDICT_OUT_OF_RANGE);
	assert_int_equal(verdict_of(true, SML_LANE_SUM, LANES + 1), SML_VERDICT_OUT_OF_RANGE);
	assert_int_equal(verdict_of(true, SML_LANE_SUM, 0), SML_VERDICT_OUT_OF_RANGE);
}

int main(void)
{
	return test_run(seed_is_set, NULL);
}
