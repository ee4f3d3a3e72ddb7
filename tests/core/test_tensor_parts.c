/* SPDX-License-Identifier: BSD-3-Clause */
/* Chunks as lanes: how many, and chunks that are filled, placed or taken in part. */
#include <stdbool.h>
#include <string.h>

#include "core/element.h"
#include "sim/gen.h"
#include "support/one_tensor.h"
#include "support/test.h"

/* ---- lanes ---- */

TEST(lanes_are_rounded_to_a_power_of_two_at_most_a_packet)
{
	assert_int_equal(sml_lanes_round(0, 352), 0);
	assert_int_equal(sml_lanes_round(1, 352), 8);
	assert_int_equal(sml_lanes_round(8, 352), 8);
	assert_int_equal(sml_lanes_round(9, 352), 16);
	assert_int_equal(sml_lanes_round(256, 352), 256);
	assert_int_equal(sml_lanes_round(257, 352), 352);
	assert_int_equal(sml_lanes_round(352, 352), 352);
	assert_int_equal(sml_lanes_round(3, 8), 8);
}

/* Hardware has a program for one lane count: also a barrier's and a tensor's last chunk are full.
 */
TEST(where_only_full_packets_are_taken_every_chunk_has_all_lanes)
{
	static const uint64_t counts[] = {0, 1, LANES, LANES + 1, 10 * LANES + 1};
	const struct sml_shape shape = {LANES, 1, RANKS, true, false, false, false};
	static const int32_t elements[10 * LANES + 1] = {7};
	uint32_t lanes[LANES], zeros[LANES] = {0};
	struct sml_sequence sequence = {0};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct sml_tensor_spec spec = spec_of(SML_INT32, SML_SUM, counts[i]);

		spec.send = elements;
		make_in(&spec, &shape, &sequence);
		for (unsigned stream = 0; stream < SML_STREAMS; stream++)
			for (uint32_t c = 0; c < tensor.window[stream].count; c++) {
				struct sml_contribution out;

				sml_tensor_describe_chunk(&tensor, stream, c, &out);
				assert_int_equal(out.lanes, LANES);
			}
	}
	/* What is beyond the tensor is zero: here the empty head chunk, and the last data chunk. */
	memset(lanes, 0xff, sizeof(lanes));
	sml_tensor_fill(&tensor, SML_HEAD, 0, lanes);
	assert_memory_equal(lanes, zeros, sizeof(lanes));
	memset(lanes, 0xff, sizeof(lanes));
	sml_tensor_fill(&tensor, SML_DATA, 10, lanes);
	assert_memory_equal(lanes, zeros, sizeof(lanes));
}

/* All narrow types: their sums are right modulo their width, and each takes a whole lane. */
TEST(where_only_int32_is_added_narrow_integers_take_whole_lanes)
{
	static const enum sml_type types[] = {SML_UINT8, SML_INT8, SML_INT16, SML_BOOL};
	const struct sml_shape shape = {LANES, 1, RANKS, true, true, false, false};
	_Alignas(2) uint8_t elements[2 * LANES + 2], sums[2 * LANES + 2];
	uint32_t lanes[LANES];

	for (unsigned t = 0; t < 4; t++) {
		struct sml_tensor_spec spec = spec_of(types[t], SML_SUM, LANES + 1);
		size_t bytes = sml_element_bytes(types[t]) * (LANES + 1);

		for (size_t i = 0; i < bytes; i++)
			elements[i] = types[t] == SML_BOOL ? i % 3 == 0 : (uint8_t)(100 * i);
		memset(sums, 0xff, sizeof(sums));
		spec.send = elements;
		spec.recv = sums;
		make_in(&spec, &shape, NULL);
		assert_int_equal(tensor.window[SML_DATA].count, 2);
		for (uint32_t c = 0; c < 2; c++) {
			struct sml_contribution out;

			sml_tensor_describe_chunk(&tensor, SML_DATA, c, &out);
			assert_int_equal(out.lane_kind, SML_LANE_INT32);
			sml_tensor_fill(&tensor, SML_DATA, c, lanes);
			/* Three ranks with the same elements. */
			for (unsigned i = 0; i < LANES; i++)
				lanes[i] = sml_be32(RANKS * sml_be32(lanes[i]));
			sml_tensor_take(&tensor, SML_DATA, c, lanes);
		}
		for (size_t i = 0; i < LANES + 1; i++)
			if (types[t] == SML_INT16)
				assert_int_equal(((sml_any_u16 *)sums)[i],
						 (uint16_t)(RANKS * ((sml_any_u16 *)elements)[i]));
			else if (types[t] == SML_BOOL)
				assert_int_equal(sums[i], elements[i]);
			else
				assert_int_equal(sums[i], (uint8_t)(RANKS * elements[i]));
	}
}

TEST(only_a_tensor_s_last_chunk_is_shorter)
{
	struct sml_tensor_spec spec = spec_of(SML_INT32, SML_SUM, 2 * LANES + 9);
	struct sml_contribution out;

	make(&spec, NULL);
	sml_tensor_describe_chunk(&tensor, SML_HEAD, 0, &out);
	assert_int_equal(out.lanes, 0);
	sml_tensor_describe_chunk(&tensor, SML_DATA, 1, &out);
	assert_int_equal(out.lanes, LANES);
	sml_tensor_describe_chunk(&tensor, SML_DATA, 2, &out);
	assert_int_equal(out.lanes, 16);
}

/* ---- filling and taking in part ---- */

/* Fill every chunk, and take what was filled, as in a job with one rank. */
static void loop_back(void)
{
	uint32_t lanes[LANES];

	for (enum sml_stream_id stream = SML_HEAD; stream < SML_STREAMS; stream++) {
		for (uint32_t i = 0; i < tensor.window[stream].count; i++) {
			memset(lanes, 0xee, sizeof(lanes));
			assert_true(sml_tensor_chunk_is_ready(&tensor, stream, i));
			sml_tensor_fill(&tensor, stream, i, lanes);
			sml_tensor_take(&tensor, stream, i, lanes);
			assert_true(sml_tensor_chunk_is_done(&tensor, stream, i));
		}
	}
	assert_true(sml_tensor_is_done(&tensor));
}

TEST(bytes_sent_in_part_are_zeros_elsewhere)
{
	struct gen gen;

	gen_from_seed(&gen, 5);
	for (int round = 0; round < 400; round++) {
		uint32_t count = gen_below(&gen, 600), sent = gen_below(&gen, count + 1);
		struct sml_tensor_spec spec = spec_of(SML_BYTE, SML_SUM, count);
		struct guarded send = guard_take(sent), recv = guard_take(count);

		for (uint32_t i = 0; i < sent; i++)
			send.bytes[i] = (uint8_t)gen_range(&gen, 1, 255);
		spec.send = send.bytes;
		spec.send_count = sent;
		spec.send_first = gen_below(&gen, count - sent + 1);
		spec.recv = recv.bytes;
		make(&spec, NULL);
		loop_back();
		for (uint32_t i = 0; i < count; i++) {
			uint64_t own = i - spec.send_first;

			assert_int_equal(recv.bytes[i], own < sent ? send.bytes[own] : 0);
		}
		assert_true(guard_give(&send));
		assert_true(guard_give(&recv));
	}
}

/* The bytes of all chunks, when this rank has placed its own among others. */
static void place_all(uint8_t *bytes, uint8_t others)
{
	enum sml_stream_id stream = tensor.form == SML_FORM_SMALL ? SML_HEAD : SML_DATA;

	for (uint32_t i = 0; i < tensor.window[stream].count && tensor.form != SML_FORM_EMPTY;
	     i++) {
		uint8_t lanes[4 * LANES];
		uint32_t first = i * 4 * LANES, left = (uint32_t)tensor.spec.count - first;

		memset(lanes, others, sizeof(lanes));
		sml_tensor_insert(&tensor, stream, i, lanes);
		memcpy(bytes + first, lanes, left < sizeof(lanes) ? left : sizeof(lanes));
	}
}

TEST(placed_bytes_leave_all_others_alone)
{
	struct gen gen;

	gen_from_seed(&gen, 6);
	for (int round = 0; round < 400; round++) {
		uint32_t count = gen_below(&gen, 600), sent = gen_below(&gen, count + 1);
		struct sml_tensor_spec spec = spec_of(SML_BYTE, SML_SUM, count);
		struct guarded send = guard_take(sent), all = guard_take(count);

		memset(send.bytes, 1, sent);
		spec.send = send.bytes;
		spec.send_count = sent;
		spec.send_first = gen_below(&gen, count - sent + 1);
		make(&spec, NULL);
		assert_true(sml_tensor_is_inserted(&tensor));
		place_all(all.bytes, 0xee);
		for (uint32_t i = 0; i < count; i++)
			assert_int_equal(all.bytes[i], i - spec.send_first < sent ? 1 : 0xee);
		assert_true(guard_give(&send));
		assert_true(guard_give(&all));
	}
}

TEST(elements_wanted_in_part_are_taken_and_no_others)
{
	struct gen gen;

	gen_from_seed(&gen, 6);
	for (int round = 0; round < 400; round++) {
		uint32_t count = gen_range(&gen, 1, 300), wanted = gen_below(&gen, count + 1);
		struct sml_tensor_spec spec = spec_of(SML_INT32, SML_SUM, count);
		struct guarded send = guard_take(4 * (size_t)count);
		struct guarded recv = guard_take(4 * (size_t)wanted);

		for (uint32_t i = 0; i < count; i++)
			((uint32_t *)(void *)send.bytes)[i] = gen_below(&gen, UINT32_MAX);
		spec.send = send.bytes;
		spec.recv = recv.bytes;
		spec.recv_count = wanted;
		spec.recv_first = gen_below(&gen, count - wanted + 1);
		make(&spec, NULL);
		loop_back();
		assert_memory_equal(recv.bytes, send.bytes + 4 * spec.recv_first,
				    4 * (size_t)wanted);
		assert_true(guard_give(&send));
		assert_true(guard_give(&recv));
	}
}

TESTS_BETWEEN(NULL, end)
