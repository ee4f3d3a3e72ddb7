/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whole calls, without a network: the bits of a result do not depend on how packets hold elements.
 * Each call goes through all sizes of packets, also with exponents in lanes of 32 bits, and with
 * chunks in random order.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "support/quantize_random.h"
#include "support/test.h"

#define RANKS 3
#define MOST  40000u /* elements */

static uint64_t inputs[RANKS][MOST], results[RANKS][MOST], usual[MOST];

static const struct {
	enum sml_type type;
	enum sml_wire wire;
	uint32_t block;
} codings[] = {
	{SML_FLOAT32, SML_WIRE_INT32, 256},  {SML_FLOAT32, SML_WIRE_INT16, 64},
	{SML_FLOAT16, SML_WIRE_INT32, 256},  {SML_FLOAT16, SML_WIRE_INT16, 64},
	{SML_BFLOAT16, SML_WIRE_INT32, 256}, {SML_BFLOAT16, SML_WIRE_INT16, 64},
	{SML_FLOAT64, SML_WIRE_INT32, 256},  {SML_FLOAT64, SML_WIRE_INT16, 64},
	{SML_FLOAT64, SML_WIRE_INT64, 64},   {SML_FLOAT32, SML_WIRE_INT8, 64},
	{SML_FLOAT16, SML_WIRE_INT8, 64},    {SML_BFLOAT16, SML_WIRE_INT8, 64},
};

/* Finite, and of very different sizes, so that another block gives other bits. */
static void draw_elements(enum sml_type type, void *elements, size_t i)
{
	uint64_t bits = random_bits();
	float value = ldexpf((float)(int32_t)bits, (int)(bits >> 32) % 12 - 40);
	double wide = ldexp((double)(int64_t)random_bits(), (int)(bits >> 32) % 80 - 100);
	uint32_t whole;

	memcpy(&whole, &value, 4);
	if (type == SML_FLOAT64)
		memcpy((uint8_t *)elements + 8 * i, &wide, 8);
	else if (type == SML_FLOAT32)
		memcpy((uint8_t *)elements + 4 * i, &value, 4);
	else if (type == SML_BFLOAT16)
		memcpy((uint8_t *)elements + 2 * i, (uint16_t[]){(uint16_t)(whole >> 16)}, 2);
	else
		memcpy((uint8_t *)elements + 2 * i, (uint16_t[]){(uint16_t)(bits & 0xbbff)}, 2);
}

struct call {
	struct sml_tensor tensors[RANKS];
	void *memory[RANKS];
};

/* Whole blocks if they are rounded, and as many as fit if all packets are full. */
static void check_length(const struct sml_shape *shape, const struct sml_contribution *in)
{
	uint32_t width = sml_rounded_width(in->lane_kind);
	uint32_t most = sml_rounded_lanes(width, sml_rounded_blocks(width, shape->lanes));

	if (sml_lane_is_rounded(in->lane_kind)) {
		assert_true(sml_rounded_is_whole(width, in->lanes));
		if (shape->only_full)
			assert_int_equal(in->lanes, most);
	} else if (shape->only_full) {
		assert_int_equal(in->lanes, shape->lanes);
	}
}

/* All ranks' chunk is combined as a switch does it. */
static void pass(struct call *call, enum sml_stream_id stream, uint32_t index)
{
	uint32_t sum[4 * SML_MAX_LANES], lanes[SML_MAX_LANES];
	struct sml_contribution in;

	assert_in_range(sml_lanes_stored_bytes(SML_MAX_LANES, SML_ROUNDED_WIDTH_MIN), 1,
			sizeof(sum));
	for (unsigned rank = 0; rank < RANKS; rank++) {
		enum sml_lane_step step = rank == 0	     ? SML_LANES_FIRST
					  : rank < RANKS - 1 ? SML_LANES_NEXT
							     : SML_LANES_LAST;

		assert_true(sml_tensor_chunk_is_ready(&call->tensors[rank], stream, index));
		assert_true(sml_tensor_claim(&call->tensors[rank], stream, index));
		sml_tensor_describe_chunk(&call->tensors[rank], stream, index, &in);
		check_length(&call->tensors[rank].shape, &in);
		sml_tensor_fill(&call->tensors[rank], stream, index, lanes);
		sml_lanes_combine(in.op, in.lane_kind, step, sum, lanes, in.lanes);
	}
	for (unsigned rank = 0; rank < RANKS; rank++)
		sml_tensor_take(&call->tensors[rank], stream, index, sum);
}

static void pass_stream(struct call *call, enum sml_stream_id stream)
{
	uint32_t n = call->tensors[0].window[stream].count;
	uint32_t step = 2 * random_below(50) + 1, at = n ? random_below(n) : 0;

	/* Each chunk once, and neighbors seldom one after the other. */
	for (uint32_t i = 0; i < n; i++) {
		while (sml_tensor_chunk_is_done(&call->tensors[0], stream, at))
			at = (at + 1) % n;
		pass(call, stream, at);
		at = (at + step) % n;
	}
}

static void sum_all(size_t c, uint32_t count, enum sml_op op, const struct sml_shape *shape)
{
	size_t bytes = sml_element_bytes(codings[c].type);
	struct call call;

	for (unsigned rank = 0; rank < RANKS; rank++) {
		struct sml_sequence sequence = {0};
		struct sml_shape own = *shape;
		struct sml_tensor_spec spec = {
			.type = codings[c].type,
			.op = op,
			.wire = codings[c].wire,
			.count = count,
			.send = inputs[rank],
			.send_count = count,
			.recv = results[rank],
			.recv_count = count,
		};

		own.rank = (uint16_t)rank;
		call.memory[rank] = malloc(sml_tensor_memory_bytes(&spec, &own));
		sml_tensor_init(&call.tensors[rank], &spec, &own, &sequence, call.memory[rank]);
		memset(results[rank], 0xa5, bytes * count);
	}
	pass_stream(&call, SML_HEAD);
	pass_stream(&call, SML_DATA);
	for (unsigned rank = 0; rank < RANKS; rank++) {
		assert_true(sml_tensor_is_done(&call.tensors[rank]));
		free(call.memory[rank]);
		assert_memory_equal(results[rank], results[0], bytes * count);
	}
}

static void in_all_packets(size_t c, uint32_t count, enum sml_op op, bool rounds)
{
	bool first = true;

	static const uint16_t lanes[] = SML_LANE_COUNTS;
	size_t bytes = sml_element_bytes(codings[c].type);

	for (unsigned i = 0; lanes[i] != 0; i++)
		for (unsigned hardware = 0; hardware < 3; hardware++) {
			const struct sml_shape shape = {
				.lanes = lanes[i],
				.n_ranks = RANKS,
				.only_full = hardware > 0,
				.only_int32 = hardware > 1,
				.rounds = rounds,
			};

			if (shape.only_int32 && codings[c].wire == SML_WIRE_INT16)
				continue;
			/* This wire has no other form. */
			if (!rounds && codings[c].wire == SML_WIRE_INT8)
				continue;
			/* No rounding without room for a block, nor of lanes of int32. */
			if (rounds && (lanes[i] == 32 || shape.only_int32))
				continue;
			sum_all(c, count, op, &shape);
			if (first)
				memcpy(usual, results[0], bytes * count);
			first = false;
			assert_memory_equal(results[0], usual, bytes * count);
		}
}

TEST(bits_do_not_depend_on_packets)
{
	static const uint32_t counts[] = {1, 40, 116, 468, 469, 937, 2047, 8193, MOST};

	FOR_EACH(c, codings)
	{
		for (unsigned rank = 0; rank < RANKS; rank++)
			for (uint32_t i = 0; i < MOST; i++)
				draw_elements(codings[c].type, inputs[rank], i);
		FOR_EACH(n, counts)
		{
			in_all_packets(c, counts[n], SML_SUM, false);
			in_all_packets(c, counts[n], SML_AVG, false);
			in_all_packets(c, counts[n], SML_SUM, true);
			in_all_packets(c, counts[n], SML_AVG, true);
		}
	}
}

static bool is_nan(enum sml_type type, size_t i)
{
	const uint8_t *place = (const uint8_t *)results[0] + i * sml_element_bytes(type);
	uint16_t half;
	double wide;
	float value;

	memcpy(&half, place, 2);
	memcpy(&value, place, 4);
	memcpy(&wide, place, 8);
	return type == SML_FLOAT64    ? isnan(wide)
	       : type == SML_FLOAT32  ? isnan(value)
	       : type == SML_BFLOAT16 ? (half & 0x7fff) > 0x7f80
				      : (half & 0x7fff) > 0x7c00;
}

/* The exact extent of a block, in packets that hold parts of blocks. */
static void spoil_a_block(size_t c, bool rounds)
{
	const struct sml_shape shape = {.lanes = 352, .n_ranks = RANKS, .rounds = rounds};
	enum sml_type type = codings[c].type;
	size_t bytes = sml_element_bytes(type);
	uint32_t at = random_below(MOST), block = at / codings[c].block;

	for (unsigned rank = 0; rank < RANKS; rank++)
		for (uint32_t i = 0; i < MOST; i++)
			draw_elements(type, inputs[rank], i);
	/* All exponent bits, and others, are set in NaN of each type. */
	memset((uint8_t *)inputs[1] + at * bytes, 0x7f, bytes);
	memset((uint8_t *)inputs[1] + at * bytes, 0xff, bytes - 1);
	sum_all(c, MOST, SML_SUM, &shape);
	for (uint32_t i = 0; i < MOST; i++)
		assert_int_equal(is_nan(type, i), i / codings[c].block == block);
}

TEST(a_nan_spoils_its_own_block_only)
{
	FOR_EACH(c, codings)
	{
		if (codings[c].wire != SML_WIRE_INT8)
			spoil_a_block(c, false);
		spoil_a_block(c, true);
	}
}

TESTS_BETWEEN(seed_is_set, NULL)
