/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shared vectors as packets, and random packets: each gets the verdict of the user-space slots,
 * and results are theirs byte by byte. Vectors begin with old slots, which the test writes into
 * registers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/element.h"
#include "p4_slot.h"

#define RANDOM_STEPS  3000
#define RANDOM_SLOTS  4
#define RANDOM_WORLDS 3

/* ---- vectors ---- */

static void write_register(const char *name, uint32_t index, uint64_t value)
{
	char whole[64];

	snprintf(whole, sizeof(whole), "SmlIngress.slot_step.slot_%s", name);
	p4_slot_write_register(whole, index, value);
}

/* p4/include/staged.p4: a use that is complete is the number after it. */
static void age_staged(uint32_t buffer, uint32_t incarnation, const struct sml_slot *slot)
{
	uint32_t held = slot->use + (slot->state == SML_SLOT_COMPLETE);

	write_register("incarnation", buffer, incarnation);
	write_register("use_lo", buffer, held);
	write_register("use_hi", buffer, incarnation);
	write_register("begins_lo", buffer, held);
	write_register("begins_hi", buffer, incarnation);
	write_register("seen_0", buffer, (uint32_t)slot->seen);
	write_register("seen_1", buffer, slot->seen >> 32);
}

static void age_buffer(uint32_t i, const struct sml_slot *slot)
{
	const struct sml_p4_job *job = sml_p4_job_of(p4_slot.dataplane, VECTOR_JOB);

	if (p4_slot.is_staged) {
		age_staged(job->first_buffer + i, job->incarnation, slot);
		return;
	}
	write_register("incarnation", job->first_buffer + i, job->incarnation);
	write_register("use", job->first_buffer + i, slot->use);
	write_register("seen", job->first_buffer + i, slot->seen);
}

/* A packet that is as long as it says gets zeros up to a full packet's lanes. */
static uint32_t fill_up(struct vector *vector)
{
	struct sml_header *header = (struct sml_header *)vector->packet;

	if (vector->verdict == SML_VERDICT_MALFORMED ||
	    vector->verdict == SML_VERDICT_OUT_OF_RANGE || sml_lane_is_rounded(header->lane_kind))
		return vector->length;
	header->lanes_be = sml_be16(VECTOR_LANES);
	return sizeof(vector->packet);
}

static void check_vector(struct sml_pool *pool, struct vector *vector, uint32_t previous_length,
			 bool leaves_out)
{
	uint32_t length = vector->length;
	unsigned expected = vector->verdict, fate;

	/* Of two ranks' different lengths, one is out of range here. */
	if (expected == SML_VERDICT_MISMATCH && length != previous_length)
		expected = SML_VERDICT_OUT_OF_RANGE;
	else
		length = fill_up(vector);
	fate = p4_slot_compare(pool, vector->packet, length, "line", vector->line);
	/* Without a packet before it, only the user-space slots know the verdict. */
	if (fate != expected && !leaves_out)
		fail_msg("line %u: %s, not %s", vector->line, p4_slot_fate_name(fate),
			 p4_slot_fate_name(expected));
}

static bool has_narrow_lanes(const struct vector *vector)
{
	const struct sml_header *header = (const struct sml_header *)vector->packet;

	return vector->length >= sizeof(*header) && header->lane_kind != SML_LANE_INT32 &&
	       vector->verdict != SML_VERDICT_OUT_OF_RANGE;
}

struct run {
	struct sml_pool pool;
	void *memory; /* the pool's */
	uint32_t previous_length;
	bool leaves_out; /* a packet of this world was left out */
	unsigned n, n_of_leaves, n_of_narrow, n_rounded;
};

static void begin_vectors(void *self, struct vector *vector)
{
	struct run *run = self;

	vector->rules.lanes = VECTOR_LANES;
	vector->rules.rounds = !p4_slot.is_staged;
	run->leaves_out = false;
	free(run->memory);
	run->memory = vector_pool_open(&run->pool, &vector->rules);
	if (!vector->rules.is_leaf)
		p4_slot_begin_world(&vector->rules);
}

static void age(void *self, const struct vector *vector)
{
	struct run *run = self;
	uint32_t n = 2u * (run->pool.rules.head_slots + run->pool.rules.data_slots);

	if (run->pool.rules.is_leaf) {
		run->n_of_leaves++;
		return;
	}
	vector_pool_age(&run->pool, vector->age);
	for (uint32_t i = 0; i < n; i++)
		age_buffer(i, &run->pool.slots[i]);
}

static void compare_vector(void *self, struct vector *vector)
{
	struct run *run = self;

	if (run->pool.rules.is_leaf) {
		run->n_of_leaves++;
		return;
	}
	if (p4_slot.is_staged && has_narrow_lanes(vector)) {
		run->n_of_narrow++;
		run->leaves_out = true;
		return;
	}
	run->n_rounded += has_narrow_lanes(vector) &&
			  sml_lane_is_rounded(((struct sml_header *)vector->packet)->lane_kind);
	check_vector(&run->pool, vector, run->previous_length, run->leaves_out);
	run->previous_length = vector->length;
	run->n++;
}

void every_vector_gets_its_verdict_and_result_in_simple_switch(void **state)
{
	const struct vector_steps steps = {begin_vectors, age, compare_vector, false};
	struct run run = {.memory = NULL};

	(void)state;
	vectors_run(&steps, &run);
	free(run.memory);
	print_message("%u vectors; left out: %u of leaves, which the P4 program cannot be", run.n,
		      run.n_of_leaves);
	if (p4_slot.is_staged)
		print_message(", and %u of int16 and int8, which its staged form does not have",
			      run.n_of_narrow);
	else
		assert_true(run.n_rounded > 5);
	print_message("\n");
	assert_true(run.n > 50);
}

/* ---- random packets ---- */

/* So that ranks agree. */
static uint8_t kind_of_use(uint32_t use)
{
	static const uint8_t kinds[] = {SML_LANE_INT32,		SML_LANE_INT32,
					SML_LANE_INT16_PAIR,	SML_LANE_INT8_ROUNDED,
					SML_LANE_INT16_ROUNDED, SML_LANE_INT8_ROUNDED};

	return p4_slot.is_staged ? SML_LANE_INT32 : kinds[(use >> 1) % 6];
}

/* All shifts are 0, and all numbers are divided by the same power of two. */
static void lessen(uint8_t kind, void *lanes, uint32_t n)
{
	uint32_t width = sml_rounded_width(kind), blocks = sml_rounded_blocks(width, n);
	unsigned by = p4_slot_random_below(width);
	uint32_t bytes = blocks * SML_ROUNDED_BLOCK * width / 8;

	for (uint32_t i = 0; i < blocks * SML_ROUNDED_BLOCK; i++)
		sml_narrow_store(width, lanes, i,
				 (uint32_t)(sml_narrow_load(width, lanes, i) >> by));
	memset((uint8_t *)lanes + bytes, 0, 4 * n - bytes);
}

/* Most contributions fit; some are late, early, or wrong in one field. */
static uint32_t random_packet(const struct sml_pool *pool, uint8_t *packet)
{
	const struct sml_pool_rules *rules = &pool->rules;
	uint16_t slot = (uint16_t)p4_slot_random_below(RANDOM_SLOTS);
	const struct sml_slot *newest = sml_pool_newest(pool, slot);
	uint32_t use = newest == NULL ? 0 : newest->use + (newest->state == SML_SLOT_COMPLETE);
	uint8_t rank = (uint8_t)p4_slot_random_below(rules->n_ranks);
	uint8_t kind = kind_of_use(use);
	uint32_t lanes =
		p4_slot_one_in(40) ? p4_slot_random_below(VECTOR_LANES + 1) : p4_slot_lanes(kind);
	struct sml_header *header = (struct sml_header *)packet;
	sml_any_u32 *values = (sml_any_u32 *)(header + 1);

	use += p4_slot_one_in(8) ? p4_slot_random_below(6) - 3 : 0;
	*header = (struct sml_header){
		.magic_be = sml_be16(SML_WIRE_MAGIC),
		.version = SML_WIRE_VERSION,
		.kind = p4_slot_one_in(50) ? SML_PACKET_RESULT : SML_PACKET_CONTRIBUTION,
		.job_be = sml_be32(rules->job + (p4_slot_one_in(50) ? 1 : 0)),
		.key_be = sml_be64(rules->cookies[rank] + (p4_slot_one_in(50) ? 1 : 0)),
		.epoch_be = sml_be32(rules->epoch + (p4_slot_one_in(50) ? 1 : 0)),
		.use_be = sml_be32(use),
		.chunk_be = sml_be32(p4_slot_random_below(1000)),
		.digest_be = sml_be32(use + (p4_slot_one_in(40) ? 1 : 0)),
		.slot_be = sml_be16((uint16_t)(slot + (p4_slot_one_in(50) ? RANDOM_SLOTS : 0))),
		.rank = (uint8_t)(rank + (p4_slot_one_in(50) ? RANDOM_RANKS : 0)),
		.op = (use >> 1) % 6 == 1 || ((use >> 1) % 12 == 2) ? SML_LANE_MAX : SML_LANE_SUM,
		.lane_kind = (uint8_t)(p4_slot_one_in(60) ? p4_slot_random_below(5) : kind),
		.shard = (uint8_t)(slot % rules->n_shards + (p4_slot_one_in(60) ? 1 : 0)),
		.lanes_be = sml_be16((uint16_t)lanes),
	};
	for (uint32_t i = 0; i < lanes; i++)
		values[i] = p4_slot_random_below(1u << 31) ^ p4_slot_random_below(1u << 31) << 1;
	/* A block that a rank has not rounded has no shift, and may have small numbers. */
	if (sml_lane_is_rounded(kind) && p4_slot_one_in(2))
		lessen(kind, values, lanes);
	return SML_HEADER_BYTES + 4 * lanes;
}

/* A packet that was changed on its way is counted, and changes nothing. */
static void send_corrupted(const uint8_t *packet, uint32_t length)
{
	const struct frame_wrapping own = p4_slot_wrapping(packet[34]);
	struct fates before = p4_slot_fates();
	uint8_t frame[FRAME_BYTES];
	uint32_t bytes = frame_build(frame, &own, packet, length);

	frame[frame_headers(&own) + SML_HEADER_BYTES +
	      p4_slot_random_below(length - SML_HEADER_BYTES)] ^= 0x10;
	p4_slot_send(frame, bytes);
	assert_int_equal(p4_slot_await_fate(&before), SML_VERDICTS);
}

static void run_random_world(unsigned world, uint64_t counts[SML_VERDICTS], uint64_t *n_rounded)
{
	struct sml_pool_rules rules = {
		.tag = 0x7461672d7461672d + world,
		.job = VECTOR_JOB,
		.epoch = VECTOR_EPOCH + world,
		.head_slots = 1,
		.data_slots = RANDOM_SLOTS - 1,
		.lanes = VECTOR_LANES,
		.n_ranks = RANDOM_RANKS,
		.n_shards = (uint8_t)(1 + world),
		.rounds = !p4_slot.is_staged,
	};
	uint8_t packet[SML_HEADER_BYTES + 4 * VECTOR_LANES] __attribute__((aligned(8)));
	struct sml_pool_answer answer = {.packet = NULL};
	struct sml_pool pool;
	unsigned fate;
	void *memory;

	for (unsigned rank = 0; rank < rules.n_ranks; rank++)
		rules.cookies[rank] = (uint64_t)p4_slot_random_below(1u << 31) << 32 | rank;
	memory = vector_pool_open(&pool, &rules);
	p4_slot_begin_world(&rules);
	for (unsigned i = 0; i < RANDOM_STEPS / RANDOM_WORLDS; i++) {
		uint32_t length = random_packet(&pool, packet);

		uint8_t kind = ((struct sml_header *)packet)->lane_kind;
		bool has_lanes = length == SML_HEADER_BYTES + 4 * p4_slot_lanes(kind) &&
				 !(p4_slot.is_staged && kind != SML_LANE_INT32);

		if (p4_slot_one_in(16) && has_lanes &&
		    sml_pool_check(&rules, (struct sml_header *)packet, length, &answer.in) ==
			    SML_VERDICT_ABSORBED)
			send_corrupted(packet, length);
		fate = p4_slot_compare(&pool, packet, length, "random packet", i);
		counts[fate]++;
		*n_rounded += fate == SML_VERDICT_COMPLETED && sml_lane_is_rounded(kind);
	}
	free(memory);
}

void random_packets_get_the_verdicts_and_bytes_of_the_user_space_slots(void **state)
{
	uint64_t counts[SML_VERDICTS] = {0}, n_rounded = 0;

	(void)state;
	for (unsigned world = 0; world < RANDOM_WORLDS; world++)
		run_random_world(world, counts, &n_rounded);
	for (unsigned v = 0; v < SML_VERDICTS; v++)
		print_message("%s %lu%s", p4_slot_fate_name(v), (unsigned long)counts[v],
			      v + 1 < SML_VERDICTS ? ", " : "");
	print_message("; %lu results were rounded\n", (unsigned long)n_rounded);
	assert_true(p4_slot.is_staged || n_rounded > 10);
	for (unsigned v = 0; v < SML_VERDICTS; v++)
		if (v != SML_VERDICT_FULL && v != SML_VERDICT_RESEND_UP)
			assert_true(counts[v] > 0);
}
