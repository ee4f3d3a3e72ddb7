/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Losses between the passes of the staged form. The test writes into a register which packets are
 * lost; the program must be built for it (SML_TEST_LOSS).
 */
#include <stdlib.h>
#include <string.h>

#include "core/element.h"
#include "p4_slot.h"

/* The passes of p4/include/staged.p4. */
enum pass { PASS_LOAD = 1, PASS_FINISH, PASS_MISMATCH };

static void lose_next(enum pass pass)
{
	p4_slot_write_register("SmlIngress.losses", pass, 1);
}

static void await_loss(enum pass pass)
{
	uint64_t end_ns = sml_now_ns() + PATIENCE_NS;

	while (p4_slot_read_register("SmlIngress.losses", pass) != 0)
		assert_true(sml_now_ns() < end_ns);
}

struct losing {
	struct sml_pool pool;
	uint32_t use;
	uint8_t op;
	uint8_t packets[RANDOM_RANKS][SML_HEADER_BYTES + 4 * VECTOR_LANES]
		__attribute__((aligned(8)));
};

static void make_packets(struct losing *own, uint32_t use)
{
	const struct sml_pool_rules *rules = &own->pool.rules;

	own->use = use;
	own->op = use / (4 * RANDOM_RANKS) % 2 ? SML_LANE_MAX : SML_LANE_SUM;
	for (uint8_t rank = 0; rank < rules->n_ranks; rank++) {
		struct sml_header *header = (struct sml_header *)own->packets[rank];
		sml_any_u32 *values = (sml_any_u32 *)(header + 1);

		*header = frame_header(rules, rank, 0, use, VECTOR_LANES);
		header->chunk_be = sml_be32(use);
		header->digest_be = sml_be32(77 + use);
		header->op = own->op;
		for (uint32_t i = 0; i < VECTOR_LANES; i++)
			values[i] = p4_slot_random_below(1u << 31) ^ p4_slot_random_below(1u << 31)
									     << 1;
	}
}

static void send_packet(const uint8_t *packet)
{
	const struct frame_wrapping own =
		p4_slot_wrapping(((const struct sml_header *)packet)->rank);
	uint8_t frame[FRAME_BYTES];

	p4_slot_send(frame, frame_build(frame, &own, packet, SML_HEADER_BYTES + 4 * VECTOR_LANES));
}

/* Nothing has become of a packet: neither a verdict, nor (the next frame shows it) a result. */
static void lose(const uint8_t *packet, enum pass pass)
{
	struct fates before = p4_slot_fates(), after;

	lose_next(pass);
	send_packet(packet);
	await_loss(pass);
	after = p4_slot_fates();
	assert_memory_equal(&before, &after, sizeof(before));
}

static unsigned fate_of(const uint8_t *packet)
{
	struct fates before = p4_slot_fates();

	send_packet(packet);
	return p4_slot_await_fate(&before);
}

static void next_use_may_not_begin(struct losing *own)
{
	struct sml_header *header = (struct sml_header *)own->packets[0];

	header->use_be = sml_be32(own->use + 2);
	assert_int_equal(fate_of(own->packets[0]), SML_VERDICT_EARLY_USE);
	header->use_be = sml_be32(own->use);
}

/*
 * The last rank's packet is lost before it completes the use, and then the copies of `rank`, if
 * they are lost, too. Its next copy completes the use, for all ranks.
 */
static void lose_the_last(struct losing *own, uint8_t rank, bool load_too, bool finish_too)
{
	uint32_t length = sizeof(own->packets[0]);
	uint8_t expected[sizeof(own->packets[0])] __attribute__((aligned(8)));
	struct sml_pool_answer answer = {.packet = NULL};
	enum sml_verdict verdict;

	for (uint8_t first = 0; first + 1 < RANDOM_RANKS; first++)
		assert_int_equal(
			p4_slot_compare(&own->pool, own->packets[first], length, "use", own->use),
			SML_VERDICT_ABSORBED);
	verdict = sml_pool_receive(&own->pool, own->packets[RANDOM_RANKS - 1], length, &answer);
	assert_int_equal(verdict, SML_VERDICT_COMPLETED);
	memcpy(expected, answer.packet, length);
	lose(own->packets[RANDOM_RANKS - 1], PASS_FINISH);
	next_use_may_not_begin(own);
	if (load_too)
		lose(own->packets[rank], PASS_LOAD);
	if (finish_too)
		lose(own->packets[rank], PASS_FINISH);
	/* Who completes the use is its last rank. */
	((struct sml_header *)expected)->rank = rank;
	answer = (struct sml_pool_answer){.packet = expected, .length = length, .in.rank = rank};
	assert_int_equal(fate_of(own->packets[rank]), SML_VERDICT_COMPLETED);
	p4_slot_check_results(&own->pool.rules, SML_VERDICT_COMPLETED, &answer);
	/* It stays complete. A copy that is lost before its FINISH is no harm, either. */
	lose(own->packets[0], PASS_FINISH);
	for (uint8_t again = 0; again < RANDOM_RANKS; again++) {
		answer.in.rank = again;
		assert_int_equal(fate_of(own->packets[again]), SML_VERDICT_RESEND);
		p4_slot_check_results(&own->pool.rules, SML_VERDICT_RESEND, &answer);
	}
}

/* A mismatch that is lost on its way to the daemon is told by the next copy. */
static void lose_a_mismatch(struct losing *own)
{
	uint32_t length = sizeof(own->packets[0]);
	struct sml_header *header = (struct sml_header *)own->packets[1];

	assert_int_equal(p4_slot_compare(&own->pool, own->packets[0], length, "use", own->use),
			 SML_VERDICT_ABSORBED);
	header->digest_be ^= 1;
	lose(own->packets[1], PASS_MISMATCH);
	assert_int_equal(p4_slot_compare(&own->pool, own->packets[1], length, "use", own->use),
			 SML_VERDICT_MISMATCH);
	header->digest_be ^= 1;
	for (uint8_t rank = 1; rank < RANDOM_RANKS; rank++)
		p4_slot_compare(&own->pool, own->packets[rank], length, "use", own->use);
}

void a_use_whose_last_packet_is_lost_between_passes_is_completed_by_any_copy(void **state)
{
	struct sml_pool_rules rules = {
		.tag = 0x7461672d7461672d,
		.job = VECTOR_JOB,
		.epoch = VECTOR_EPOCH,
		.head_slots = 1,
		.data_slots = 1,
		.lanes = VECTOR_LANES,
		.n_ranks = RANDOM_RANKS,
		.n_shards = 1,
	};
	struct losing own;
	uint32_t use = 0;
	void *memory;

	(void)state;
	assert_true(p4_slot.is_staged);
	for (unsigned rank = 0; rank < rules.n_ranks; rank++)
		rules.cookies[rank] = (uint64_t)p4_slot_random_below(1u << 31) << 32 | rank;
	memory = vector_pool_open(&own.pool, &rules);
	p4_slot_begin_world(&rules);
	/* The first round has sums, and the second one maxima. */
	for (unsigned round = 0; round < 2; round++)
		for (uint8_t rank = 0; rank < RANDOM_RANKS; rank++)
			for (unsigned also = 0; also < 4; also++) {
				make_packets(&own, use++);
				lose_the_last(&own, rank, also & 1, also & 2);
			}
	print_message("%u uses lost their last packet, and were completed by a copy;\n", use);
	make_packets(&own, use++);
	lose_a_mismatch(&own);
	free(memory);
}
