/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contributions whose lanes are all zero, and do not travel (SML_LANES_OMITTED): each sum is the
 * one that a switch makes of the same lanes if all of them travel, bit for bit. At a switch, and at
 * a leaf whose ranks have such lanes.
 */
#include <stdlib.h>
#include <string.h>

#include "core/pool.h"
#include "support/quantize_random.h"
#include "support/test.h"

#define RANKS 4u
#define LANES 66 /* two blocks of int16, and a lane with their shifts */
#define TAG   5

struct packet {
	struct sml_header header;
	uint32_t lanes[LANES];
};

struct lanes_of {
	uint8_t lane_kind;
	uint16_t lanes;
};

static const struct lanes_of kinds[] = {{SML_LANE_INT32, 13},
					{SML_LANE_INT16_PAIR, 14},
					{SML_LANE_INT16_ROUNDED, 65},
					{SML_LANE_INT8_ROUNDED, 33}};

static struct sml_pool_rules rules_of(bool omits, bool is_leaf)
{
	return (struct sml_pool_rules){
		.tag = TAG,
		.data_slots = 1,
		.lanes = LANES,
		.n_ranks = RANKS,
		.n_shards = 1,
		.is_leaf = is_leaf,
		.rounds = true,
		.omits = omits,
		.parent = {.job = 0, .tag = TAG + 1, .cookie = 9, .rank = 1},
	};
}

static void *open_pool(struct sml_pool *pool, bool omits, bool is_leaf)
{
	const struct sml_pool_rules rules = rules_of(omits, is_leaf);
	void *memory = malloc(sml_pool_memory_bytes(&rules));

	assert_non_null(memory);
	sml_pool_init(pool, &rules, memory);
	return memory;
}

/* A contribution with random lanes. Shifts are 0. */
static void write_packet(struct packet *packet, const struct lanes_of *kind, unsigned rank)
{
	uint32_t numbers = kind->lanes - (sml_lane_is_rounded(kind->lane_kind) ? 1u : 0);

	memset(packet, 0, sizeof(*packet));
	packet->header = (struct sml_header){.magic_be = sml_be16(SML_WIRE_MAGIC),
					     .version = SML_WIRE_VERSION,
					     .rank = (uint8_t)rank,
					     .lane_kind = kind->lane_kind,
					     .lanes_be = sml_be16(kind->lanes)};
	for (uint32_t i = 0; i < numbers; i++)
		packet->lanes[i] = (uint32_t)random_bits();
}

static uint32_t omit(struct packet *packet)
{
	packet->header.lane_kind |= SML_LANES_OMITTED;
	return SML_HEADER_BYTES;
}

/* The last answer. zero: which ranks have zeros; they omit them if the pool allows it. */
static enum sml_verdict add_up(struct sml_pool *pool, const struct lanes_of *kind,
			       const struct packet *packets, unsigned zero, unsigned first,
			       struct sml_pool_answer *answer)
{
	enum sml_verdict verdict = SML_VERDICT_MALFORMED;

	for (unsigned i = 0; i < RANKS; i++) {
		unsigned rank = (first + i) % RANKS;
		struct packet packet = packets[rank];
		uint32_t length = SML_HEADER_BYTES + 4u * kind->lanes;

		if (zero >> rank & 1)
			memset(packet.lanes, 0, sizeof(packet.lanes));
		if (zero >> rank & 1 && pool->rules.omits)
			length = omit(&packet);
		verdict = sml_pool_receive(pool, &packet, length, answer);
		if (i + 1 < RANKS)
			assert_int_equal(verdict, SML_VERDICT_ABSORBED);
	}
	return verdict;
}

/* What is sent is the same packet, but for the lanes that are omitted if all ranks do. */
static void check_same(const struct sml_pool_answer *whole, const struct sml_pool_answer *got,
		       bool all_zero)
{
	struct packet expected;

	memcpy(&expected, whole->packet, whole->length);
	if (all_zero)
		expected.header.lane_kind |= SML_LANES_OMITTED;
	assert_int_equal(got->length, all_zero ? SML_HEADER_BYTES : whole->length);
	assert_memory_equal(got->packet, &expected, got->length);
}

/* Each pattern of zeros, and each rank as the first one. */
static void check_kind(const struct lanes_of *kind, bool is_leaf)
{
	for (unsigned zero = 0; zero < 1u << RANKS; zero++) {
		struct packet packets[RANKS];

		for (unsigned rank = 0; rank < RANKS; rank++)
			write_packet(&packets[rank], kind, rank);
		for (unsigned first = 0; first < RANKS; first++) {
			struct sml_pool_answer whole, got, again;
			struct sml_pool old, new;
			void *memory[] = {open_pool(&old, false, is_leaf),
					  open_pool(&new, true, is_leaf)};
			struct packet late = packets[first];

			assert_int_equal(add_up(&old, kind, packets, zero, first, &whole),
					 sml_slot_last_verdict(is_leaf));
			/* What an earlier use has left there must not count. */
			memset(new.packets, 0xa5, 2 * (size_t) new.stride);
			assert_int_equal(add_up(&new, kind, packets, zero, first, &got),
					 sml_slot_last_verdict(is_leaf));
			check_same(&whole, &got, zero == (1u << RANKS) - 1);
			/* A rank asks again without its lanes, whatever it sent before. */
			assert_int_equal(sml_pool_receive(&new, &late, omit(&late), &again),
					 is_leaf ? SML_VERDICT_RESEND_UP : SML_VERDICT_RESEND);
			check_same(&whole, &again, zero == (1u << RANKS) - 1);
			free(memory[0]);
			free(memory[1]);
		}
	}
}

TEST(sums_have_the_same_bits_whether_zeros_travel_or_not)
{
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		check_kind(&kinds[k], false);
		check_kind(&kinds[k], true);
	}
}

TEST(a_leaf_passes_a_result_without_lanes_on)
{
	struct sml_pool_answer answer;
	struct packet packets[RANKS], result;
	struct sml_pool pool;
	void *memory = open_pool(&pool, true, true);

	for (unsigned rank = 0; rank < RANKS; rank++)
		write_packet(&packets[rank], &kinds[0], rank);
	assert_int_equal(add_up(&pool, &kinds[0], packets, 0xf, 0, &answer), SML_VERDICT_FULL);
	memcpy(&result, answer.packet, answer.length);
	result.header.kind = SML_PACKET_RESULT;
	result.header.key_be = sml_be64(TAG + 1);
	assert_int_equal(sml_pool_receive(&pool, &result, SML_HEADER_BYTES, &answer),
			 SML_VERDICT_COMPLETED);
	assert_int_equal(answer.length, SML_HEADER_BYTES);
	assert_int_equal(((const struct packet *)answer.packet)->header.lane_kind,
			 SML_LANE_INT32 | SML_LANES_OMITTED);
	/* Resent with the same length. */
	assert_int_equal(sml_pool_receive(&pool, &packets[2],
					  SML_HEADER_BYTES + 4u * kinds[0].lanes, &answer),
			 SML_VERDICT_RESEND);
	assert_int_equal(answer.length, SML_HEADER_BYTES);
	free(memory);
}

static enum sml_verdict verdict_of(bool omits, uint8_t op, uint8_t lane_kind, uint32_t length)
{
	const struct sml_pool_rules rules = rules_of(omits, false);
	const struct sml_header header = {.magic_be = sml_be16(SML_WIRE_MAGIC),
					  .version = SML_WIRE_VERSION,
					  .op = op,
					  .lane_kind = lane_kind | SML_LANES_OMITTED,
					  .lanes_be = sml_be16(33)};
	struct sml_contribution in;

	return sml_pool_check(&rules, &header, length, &in);
}

TEST(only_sums_omit_lanes_and_only_where_the_switch_takes_it)
{
	/* A block of int16, or two of int8. */
	const uint32_t whole = SML_HEADER_BYTES + 4 * 33;

	for (uint8_t kind = SML_LANE_INT32; kind <= SML_LANE_INT8_ROUNDED; kind++) {
		assert_int_equal(verdict_of(true, SML_LANE_SUM, kind, SML_HEADER_BYTES),
				 SML_VERDICT_ABSORBED);
		assert_int_equal(verdict_of(true, SML_LANE_SUM, kind, whole),
				 SML_VERDICT_MALFORMED);
		assert_int_equal(verdict_of(true, SML_LANE_MAX, kind, SML_HEADER_BYTES),
				 SML_VERDICT_OUT_OF_RANGE);
		assert_int_equal(verdict_of(false, SML_LANE_SUM, kind, SML_HEADER_BYTES),
				 SML_VERDICT_MALFORMED);
		assert_int_equal(verdict_of(false, SML_LANE_SUM, kind, whole),
				 SML_VERDICT_OUT_OF_RANGE);
	}
}

int main(void)
{
	return test_run(seed_is_set, NULL);
}
