/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls as chunks: windows, forms, digests, and chunks that are filled or taken in part. */
#include <stdbool.h>
#include <string.h>

#include "core/element.h"
#include "core/tensor.h"
#include "sim/gen.h"
#include "support/guard.h"
#include "support/test.h"

#define LANES 32
#define RANKS 3
/* Elements of the blocks whose exponents fill a head chunk, on the int32 and int16 wires. */
#define HEAD_32 (2 * LANES * 256)
#define HEAD_16 (2 * LANES * 64)

static struct sml_tensor tensor;
static struct guarded memory;

static struct sml_tensor_spec spec_of(enum sml_type type, enum sml_op op, uint64_t count)
{
	return (struct sml_tensor_spec){.type = type,
					.op = op,
					.wire = SML_WIRE_INT32,
					.count = count,
					.send_count = count,
					.recv_count = count};
}

static void make_in(const struct sml_tensor_spec *spec, const struct sml_shape *shape,
		    struct sml_sequence *sequence)
{
	guard_give(&memory);
	memory = guard_take(sml_tensor_memory_bytes(spec, shape));
	sml_tensor_init(&tensor, spec, shape, sequence, memory.bytes);
}

static void make(const struct sml_tensor_spec *spec, struct sml_sequence *sequence)
{
	const struct sml_shape shape = {LANES, 1, RANKS, false, false, false};

	make_in(spec, &shape, sequence);
}

static int end(void **state)
{
	(void)state;
	return guard_give(&memory) ? 0 : -1;
}

/* ---- forms and windows ---- */

TEST(a_tensor_has_the_form_and_chunks_that_its_size_asks_for)
{
	static const struct {
		enum sml_type type;
		enum sml_op op;
		enum sml_wire wire;
		uint64_t count;
		enum sml_form form;
		uint32_t head, data;
	} rows[] = {
		{SML_FLOAT32, SML_SUM, SML_WIRE_INT32, 0, SML_FORM_EMPTY, 1, 0},
		{SML_FLOAT32, SML_SUM, SML_WIRE_INT32, 1, SML_FORM_GATHER, 1, 0},
		{SML_FLOAT32, SML_SUM, SML_WIRE_INT32, LANES / RANKS, SML_FORM_GATHER, 1, 0},
		/* Several packets with the elements of every rank take one round trip. */
		{SML_FLOAT32, SML_SUM, SML_WIRE_INT32, LANES / RANKS + 1, SML_FORM_GATHER, 2, 0},
		/* Up to what fits into four packets of 352 lanes: 117 lanes for each rank. */
		{SML_FLOAT32, SML_AVG, SML_WIRE_INT16, 4 * 117, SML_FORM_GATHER, 47, 0},
		{SML_FLOAT32, SML_AVG, SML_WIRE_INT32, 4 * 117 + 1, SML_FORM_EXPONENT, 1, 15},
		{SML_FLOAT32, SML_AVG, SML_WIRE_INT16, 4 * 117 + 1, SML_FORM_EXPONENT, 1, 8},
		{SML_BFLOAT16, SML_AVG, SML_WIRE_INT16, 4 * 234, SML_FORM_GATHER, 47, 0},
		{SML_FLOAT64, SML_SUM, SML_WIRE_INT64, 4 * 58, SML_FORM_GATHER, 47, 0},
		{SML_FLOAT64, SML_SUM, SML_WIRE_INT64, 4 * 58 + 1, SML_FORM_EXPONENT, 1, 24},
		/* The exact wire: as many packets as necessary. */
		{SML_FLOAT32, SML_AVG, SML_WIRE_EXACT, 0, SML_FORM_EMPTY, 1, 0},
		{SML_FLOAT32, SML_AVG, SML_WIRE_EXACT, 41, SML_FORM_GATHER, 5, 0},
		{SML_FLOAT32, SML_SUM, SML_WIRE_EXACT, SML_EXACT_BYTES / 4, SML_FORM_GATHER, 205,
		 0},
		{SML_FLOAT64, SML_SUM, SML_WIRE_EXACT, SML_EXACT_BYTES / 8, SML_FORM_GATHER, 205,
		 0},
		{SML_FLOAT16, SML_SUM, SML_WIRE_INT32, HEAD_32, SML_FORM_EXPONENT, 1,
		 HEAD_32 / LANES},
		{SML_FLOAT16, SML_SUM, SML_WIRE_INT32, HEAD_32 + 1, SML_FORM_EXPONENT, 2,
		 HEAD_32 / LANES + 1},
		{SML_FLOAT16, SML_SUM, SML_WIRE_INT16, HEAD_16, SML_FORM_EXPONENT, 1,
		 HEAD_16 / (2 * LANES)},
		{SML_FLOAT16, SML_SUM, SML_WIRE_INT16, HEAD_16 + 1, SML_FORM_EXPONENT, 2,
		 HEAD_16 / (2 * LANES) + 1},
		{SML_FLOAT32, SML_MAX, SML_WIRE_INT16, LANES, SML_FORM_SMALL, 1, 0},
		{SML_FLOAT32, SML_MIN, SML_WIRE_INT32, LANES + 1, SML_FORM_PLAIN, 1, 2},
		{SML_INT32, SML_SUM, SML_WIRE_INT32, LANES, SML_FORM_SMALL, 1, 0},
		{SML_INT32, SML_SUM, SML_WIRE_INT16, 3 * LANES, SML_FORM_PLAIN, 1, 3},
		{SML_BYTE, SML_SUM, SML_WIRE_INT32, 4 * LANES, SML_FORM_SMALL, 1, 0},
		{SML_BYTE, SML_SUM, SML_WIRE_INT32, 4 * LANES + 1, SML_FORM_PLAIN, 1, 2},
	};
	struct sml_sequence sequence = {0};
	uint64_t head = 0, data = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sml_tensor_spec spec = spec_of(rows[i].type, rows[i].op, rows[i].count);

		spec.wire = rows[i].wire;
		make(&spec, &sequence);
		assert_int_equal(tensor.form, rows[i].form);
		assert_int_equal(tensor.number, i);
		assert_int_equal(tensor.window[SML_HEAD].first, head);
		assert_int_equal(tensor.window[SML_DATA].first, data);
		assert_int_equal(tensor.window[SML_HEAD].count, rows[i].head);
		assert_int_equal(tensor.window[SML_DATA].count, rows[i].data);
		assert_int_equal(tensor.left, rows[i].head + rows[i].data);
		assert_false(sml_tensor_is_done(&tensor));
		head += rows[i].head;
		data += rows[i].data;
	}
	assert_int_equal(sequence.next[SML_HEAD], head);
	assert_int_equal(sequence.next[SML_DATA], data);
}

/* Every chunk of a window belongs to a stripe, in ascending order, also across 2^32. */
TEST(stripes_share_a_window_whatever_their_number)
{
	static const uint64_t firsts[] = {0, 1, 4, 0xfffffffeull, 0x100000000ull, 0x2fffffff9ull};
	struct sml_tensor_spec spec = spec_of(SML_INT32, SML_SUM, 20 * LANES);

	for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++) {
		struct sml_sequence sequence = {.next = {firsts[i], firsts[i]}};

		make(&spec, &sequence);
		for (uint32_t n_stripes = 1; n_stripes <= 7; n_stripes++) {
			uint32_t counts = 0;

			for (uint32_t stripe = 0; stripe < n_stripes; stripe++) {
				struct sml_window window = sml_tensor_stripe_window(
					&tensor, SML_DATA, stripe, n_stripes);
				uint64_t chunk = firsts[i];

				while (chunk % n_stripes != stripe)
					chunk++;
				assert_int_equal(window.first, (uint32_t)(chunk / n_stripes));
				counts += window.count;
			}
			assert_int_equal(counts, 20);
		}
	}
}

/* ---- chunks of zeros ---- */

/* A sum of floats in several packets of 352 lanes, of which this rank is one of three. */
static void make_floats(enum sml_type type, enum sml_wire wire, bool only_full, void *elements,
			uint32_t count)
{
	const struct sml_shape shape = {352, 1, RANKS, only_full, false, !only_full};
	struct sml_tensor_spec spec = spec_of(type, SML_SUM, count);
	struct sml_sequence sequence = {0};

	spec.wire = wire;
	spec.send = spec.recv = elements;
	make_in(&spec, &shape, &sequence);
	assert_int_equal(tensor.form, SML_FORM_EXPONENT);
}

/* All ranks have the same elements: the job's exponents are this rank's own. */
static void exchange_exponents(void)
{
	uint32_t lanes[352];

	for (uint32_t index = 0; index < tensor.window[SML_HEAD].count; index++) {
		sml_tensor_fill(&tensor, SML_HEAD, index, lanes);
		sml_tensor_take(&tensor, SML_HEAD, index, lanes);
	}
}

static uint32_t lanes_of(uint32_t index, uint8_t *lane_kind)
{
	struct sml_contribution out;

	sml_tensor_describe_chunk(&tensor, SML_DATA, index, &out);
	*lane_kind = out.lane_kind;
	return out.lanes;
}

/* What a chunk that is all zero does: nothing of a packet is written or read. */
static void check_zero_chunk(uint32_t index)
{
	uint64_t first = (uint64_t)index * tensor.elements_per_chunk;
	size_t bytes = sml_element_bytes(tensor.spec.type);
	uint8_t *results = (uint8_t *)tensor.spec.recv + first * bytes;
	uint64_t left = tensor.spec.count - first;
	uint32_t untouched = 7;
	uint8_t kind;

	left = left < tensor.elements_per_chunk ? left : tensor.elements_per_chunk;
	assert_int_equal(lanes_of(index, &kind), 0);
	assert_int_equal(kind, SML_LANE_INT32);
	sml_tensor_fill(&tensor, SML_DATA, index, &untouched);
	assert_int_equal(untouched, 7);
	memset(results, 0x55, left * bytes);
	sml_tensor_take(&tensor, SML_DATA, index, NULL);
	for (uint64_t i = 0; i < left * bytes; i++)
		assert_int_equal(results[i], 0);
	if (tensor.recoverable)
		assert_true(sml_tensor_recover(&tensor, index, &untouched));
	assert_int_equal(untouched, 7);
	assert_int_equal(lanes_of(index, &kind), 0);
}

static const struct {
	enum sml_type type;
	enum sml_wire wire;
} float_wires[] = {
	{SML_FLOAT32, SML_WIRE_INT32}, {SML_FLOAT32, SML_WIRE_INT16}, {SML_FLOAT16, SML_WIRE_INT16},
	{SML_FLOAT32, SML_WIRE_INT8},  {SML_BFLOAT16, SML_WIRE_INT8}, {SML_FLOAT64, SML_WIRE_INT64},
	{SML_FLOAT64, SML_WIRE_INT32}, {SML_FLOAT64, SML_WIRE_INT16},
};

#define FLOATS 5000

/* Only one element is not zero, and it is in the middle. */
TEST(chunks_that_are_zero_on_all_ranks_are_headers_alone)
{
	static _Alignas(8) uint8_t elements[8 * FLOATS];

	for (unsigned w = 0; w < sizeof(float_wires) / sizeof(float_wires[0]); w++) {
		size_t bytes = sml_element_bytes(float_wires[w].type);
		uint32_t block, from, until, dense = 0;
		uint8_t kind;

		memset(elements, 0, sizeof(elements));
		/* A subnormal number is not zero, and a zero with a sign is. */
		elements[bytes * (FLOATS / 2)] = 1;
		elements[bytes * 3 - 1] = 0x80;
		make_floats(float_wires[w].type, float_wires[w].wire, false, elements, FLOATS);
		for (uint32_t index = 0; index < tensor.window[SML_DATA].count; index++)
			assert_in_range(lanes_of(index, &kind), 1, 352);
		exchange_exponents();
		block = sml_code_block(&tensor.code);
		from = FLOATS / 2 / block * block / tensor.elements_per_chunk;
		until = (FLOATS / 2 / block * block + block - 1) / tensor.elements_per_chunk;
		for (uint32_t index = 0; index < tensor.window[SML_DATA].count; index++) {
			if (index < from || index > until) {
				check_zero_chunk(index);
				continue;
			}
			assert_in_range(lanes_of(index, &kind), 1, 352);
			dense++;
		}
		assert_int_equal(dense, until - from + 1);
		assert_int_equal(tensor.left, dense);
	}
}

TEST(chunks_of_zeros_are_full_where_all_packets_are)
{
	static float elements[FLOATS];
	uint8_t kind;

	make_floats(SML_FLOAT32, SML_WIRE_INT32, true, elements, FLOATS);
	exchange_exponents();
	for (uint32_t index = 0; index < tensor.window[SML_DATA].count; index++)
		assert_int_equal(lanes_of(index, &kind), 352);
}

/* A rank that wants only some elements gets these, and nothing else is written. */
TEST(of_a_chunk_of_zeros_only_the_wanted_elements_are_written)
{
	static float elements[FLOATS], wanted[102];

	make_floats(SML_FLOAT32, SML_WIRE_INT32, false, elements, FLOATS);
	for (unsigned i = 0; i < 102; i++)
		wanted[i] = 5;
	tensor.spec.recv = wanted + 1;
	tensor.spec.recv_first = 352 + 50;
	tensor.spec.recv_count = 100;
	exchange_exponents();
	for (uint32_t index = 0; index < 3; index++)
		sml_tensor_take(&tensor, SML_DATA, index, NULL);
	assert_true(wanted[0] == 5 && wanted[101] == 5);
	for (unsigned i = 1; i < 101; i++)
		assert_true(wanted[i] == 0);
}

/* ---- digests ---- */

static uint32_t digest_of(const struct sml_tensor_spec *spec, uint32_t number,
			  enum sml_stream_id stream, uint32_t index)
{
	struct sml_sequence sequence = {.number = number};
	struct sml_contribution out;

	make(spec, &sequence);
	sml_tensor_describe_chunk(&tensor, stream, index, &out);
	return out.digest;
}

TEST(digests_differ_whenever_calls_do)
{
	const struct sml_tensor_spec base = spec_of(SML_FLOAT32, SML_SUM, 2000);
	uint32_t digest = digest_of(&base, 7, SML_HEAD, 0);
	struct sml_tensor_spec other;

	assert_int_equal(digest_of(&base, 7, SML_HEAD, 0), digest);
	assert_int_not_equal(digest_of(&base, 8, SML_HEAD, 0), digest);
	assert_int_not_equal(digest_of(&base, 7, SML_HEAD, 1), digest);
	assert_int_not_equal(digest_of(&base, 7, SML_DATA, 0), digest);
#define DIFFERS(change)                                                                            \
	do {                                                                                       \
		other = base;                                                                      \
		change;                                                                            \
		assert_int_not_equal(digest_of(&other, 7, SML_HEAD, 0), digest);                   \
	} while (0)
	DIFFERS(other.count = other.send_count = other.recv_count = 2001);
	DIFFERS(other.type = SML_BFLOAT16);
	DIFFERS(other.type = SML_INT32);
	DIFFERS(other.op = SML_AVG);
	DIFFERS(other.op = SML_MAX);
	DIFFERS(other.wire = SML_WIRE_INT16);
	DIFFERS(other.wire = SML_WIRE_EXACT);
	DIFFERS(other.collective = SML_REDUCE_SCATTER);
	DIFFERS(other.collective = SML_BROADCAST);
	DIFFERS(other.collective = SML_REDUCE);
	DIFFERS(other.root = 1);
	DIFFERS(other.name = 1);
#undef DIFFERS
}

/* Other ranks do not depend on the addresses of buffers and on this rank's part. */
TEST(digests_are_equal_where_calls_are)
{
	struct sml_tensor_spec spec = spec_of(SML_BYTE, SML_SUM, 300);
	uint32_t digest = digest_of(&spec, 3, SML_HEAD, 0);

	spec.send_first = 100;
	spec.send_count = 100;
	spec.send = &spec;
	spec.recv = &spec;
	assert_int_equal(digest_of(&spec, 3, SML_HEAD, 0), digest);
}

TEST(counts_beyond_32_bits_are_told_apart)
{
	struct sml_tensor_spec spec = spec_of(SML_INT32, SML_SUM, 1000);
	const struct sml_shape shape = {2208, 0, 1, false, false, false};
	struct sml_contribution out[2];
	struct sml_sequence sequence;

	for (int i = 0; i < 2; i++) {
		sequence = (struct sml_sequence){0};
		make_in(&spec, &shape, &sequence);
		sml_tensor_describe_chunk(&tensor, SML_HEAD, 0, &out[i]);
		spec.count += 1ull << 32;
	}
	assert_int_not_equal(out[0].digest, out[1].digest);
}

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
	const struct sml_shape shape = {LANES, 1, RANKS, true, false, false};
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
	const struct sml_shape shape = {LANES, 1, RANKS, true, true, false};
	_Alignas(2) uint8_t elements[2 * LANES + 2], sums[2 * LANES + 2];
	uint32_t lanes[LANES];

	for (unsigned t = 0; t < 4; t++) {
		struct sml_tensor_spec spec = spec_of(types[t], SML_SUM, LANES + 1);
		struct sml_sequence sequence = {0};
		size_t bytes = sml_element_bytes(types[t]) * (LANES + 1);

		for (size_t i = 0; i < bytes; i++)
			elements[i] = types[t] == SML_BOOL ? i % 3 == 0 : (uint8_t)(100 * i);
		memset(sums, 0xff, sizeof(sums));
		spec.send = elements;
		spec.recv = sums;
		make_in(&spec, &shape, &sequence);
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
	struct sml_sequence sequence = {0};
	struct sml_contribution out;

	make(&spec, &sequence);
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
		struct sml_sequence sequence = {0};

		for (uint32_t i = 0; i < sent; i++)
			send.bytes[i] = (uint8_t)gen_range(&gen, 1, 255);
		spec.send = send.bytes;
		spec.send_count = sent;
		spec.send_first = gen_below(&gen, count - sent + 1);
		spec.recv = recv.bytes;
		make(&spec, &sequence);
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
		sml_tensor_place(&tensor, stream, i, lanes);
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
		struct sml_sequence sequence = {0};

		memset(send.bytes, 1, sent);
		spec.send = send.bytes;
		spec.send_count = sent;
		spec.send_first = gen_below(&gen, count - sent + 1);
		make(&spec, &sequence);
		assert_true(sml_tensor_is_placed(&tensor));
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
		struct sml_sequence sequence = {0};

		for (uint32_t i = 0; i < count; i++)
			((uint32_t *)(void *)send.bytes)[i] = gen_below(&gen, UINT32_MAX);
		spec.send = send.bytes;
		spec.recv = recv.bytes;
		spec.recv_count = wanted;
		spec.recv_first = gen_below(&gen, count - wanted + 1);
		make(&spec, &sequence);
		loop_back();
		assert_memory_equal(recv.bytes, send.bytes + 4 * spec.recv_first,
				    4 * (size_t)wanted);
		assert_true(guard_give(&send));
		assert_true(guard_give(&recv));
	}
}

/* ---- progress ---- */

static void pass_head(uint32_t index)
{
	uint32_t lanes[SML_MAX_LANES];

	sml_tensor_fill(&tensor, SML_HEAD, index, lanes);
	assert_false(sml_tensor_take(&tensor, SML_HEAD, index, lanes));
}

TEST(data_wait_for_the_exponents_of_their_own_blocks)
{
	static float elements[HEAD_32 + 40];
	struct sml_tensor_spec spec = spec_of(SML_FLOAT32, SML_SUM, HEAD_32 + 40);
	struct sml_sequence sequence = {0};

	spec.send = spec.recv = elements;
	make(&spec, &sequence);
	assert_int_equal(tensor.window[SML_HEAD].count, 2);
	assert_false(sml_tensor_chunk_is_ready(&tensor, SML_DATA, 0));
	assert_false(sml_tensor_chunk_is_ready(&tensor, SML_DATA, HEAD_32 / LANES));
	pass_head(1);
	assert_true(sml_tensor_chunk_is_ready(&tensor, SML_DATA, HEAD_32 / LANES));
	assert_false(sml_tensor_chunk_is_ready(&tensor, SML_DATA, HEAD_32 / LANES - 1));
	assert_false(sml_tensor_chunk_is_ready(&tensor, SML_DATA, 0));
}

/* 10 doubles in a chunk of 32 lanes, and 64 in a block. */
TEST(a_chunk_with_blocks_of_two_head_chunks_waits_for_both)
{
	static double elements[HEAD_16 + 40];
	struct sml_tensor_spec spec = spec_of(SML_FLOAT64, SML_SUM, HEAD_16 + 40);
	const uint32_t both = HEAD_16 / 10;

	spec.wire = SML_WIRE_INT64;
	spec.send = spec.recv = elements;
	for (uint32_t earlier = 0; earlier < 2; earlier++) {
		struct sml_sequence sequence = {0};

		make(&spec, &sequence);
		assert_int_equal(tensor.window[SML_HEAD].count, 2);
		pass_head(earlier);
		assert_int_equal(sml_tensor_chunk_is_ready(&tensor, SML_DATA, both - 1), !earlier);
		assert_false(sml_tensor_chunk_is_ready(&tensor, SML_DATA, both));
		assert_int_equal(sml_tensor_chunk_is_ready(&tensor, SML_DATA, both + 1), earlier);
		pass_head(!earlier);
		assert_true(sml_tensor_chunk_is_ready(&tensor, SML_DATA, both));
	}
}

/* So are the elements of its blocks, unless they would leave the cache. */
TEST(a_head_chunk_s_packet_is_full_of_exponents)
{
	static const uint16_t counts[] = SML_LANE_COUNTS;

	for (unsigned i = 0; counts[i] != 0; i++)
		for (unsigned wide = 0; wide < 2; wide++)
			for (unsigned only_int32 = 0; only_int32 < 2; only_int32++) {
				const struct sml_shape shape = {
					.lanes = counts[i], .n_ranks = 1, .only_int32 = only_int32};
				struct sml_tensor_spec spec =
					spec_of(wide ? SML_FLOAT64 : SML_FLOAT32, SML_SUM, 1 << 18);
				struct sml_sequence sequence = {0};
				struct sml_contribution head;
				uint32_t exponents, block = wide ? 64 : 256;

				spec.wire = wide ? SML_WIRE_INT64 : SML_WIRE_INT32;
				make_in(&spec, &shape, &sequence);
				sml_tensor_describe_chunk(&tensor, SML_HEAD, 0, &head);
				assert_int_equal(head.op, SML_LANE_MAX);
				assert_int_equal(head.lane_kind,
						 only_int32 ? SML_LANE_INT32 : SML_LANE_INT16_PAIR);
				exponents = tensor.elements_per_head / block;
				assert_int_equal(head.lanes,
						 only_int32 ? exponents : exponents / 2);
				if (head.lanes < counts[i])
					assert_int_equal(tensor.elements_per_head << (2 + wide),
							 512 << 10);
			}
}

TEST(a_last_head_chunk_has_lanes_for_its_exponents_only)
{
	static float elements[256 * 64 + 256 * 17 + 1];
	struct sml_tensor_spec spec =
		spec_of(SML_FLOAT32, SML_SUM, sizeof(elements) / sizeof(elements[0]));
	struct sml_sequence sequence = {0};
	struct sml_contribution head;
	uint32_t lanes[LANES];

	for (size_t i = 0; i < spec.count; i++)
		elements[i] = 1;
	spec.send = spec.recv = elements;
	make(&spec, &sequence);
	sml_tensor_describe_chunk(&tensor, SML_HEAD, 0, &head);
	assert_int_equal(head.lanes, LANES);
	sml_tensor_describe_chunk(&tensor, SML_HEAD, 1, &head);
	assert_int_equal(head.lanes, 16); /* 18 exponents, rounded up */
	memset(lanes, 0xff, sizeof(lanes));
	sml_tensor_fill(&tensor, SML_HEAD, 1, lanes);
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(sml_be32(lanes[i]), i < 9 ? 0x00010001 : 0);
}

TEST(a_chunk_counts_once)
{
	static int32_t elements[3 * LANES];
	struct sml_tensor_spec spec = spec_of(SML_INT32, SML_SUM, 3 * LANES);
	struct sml_sequence sequence = {0};
	uint32_t lanes[LANES] = {0};

	spec.send = spec.recv = elements;
	make(&spec, &sequence);
	assert_false(sml_tensor_take(&tensor, SML_HEAD, 0, lanes));
	for (int i = 0; i < 5; i++)
		assert_false(sml_tensor_take(&tensor, SML_DATA, 1, lanes));
	assert_false(sml_tensor_take(&tensor, SML_DATA, 0, lanes));
	assert_false(sml_tensor_is_done(&tensor));
	lanes[0] = 0xffffffff;
	assert_false(sml_tensor_take(&tensor, SML_DATA, 1, lanes));
	assert_int_equal(elements[LANES], 0);
	assert_true(sml_tensor_take(&tensor, SML_DATA, 2, lanes));
	assert_true(sml_tensor_is_done(&tensor));
}

TEST(a_chunk_is_claimed_once_and_again_after_release)
{
	static int32_t elements[2 * LANES];
	struct sml_tensor_spec spec = spec_of(SML_INT32, SML_SUM, 2 * LANES);
	struct sml_sequence sequence = {0};
	uint32_t lanes[LANES] = {0};

	spec.send = spec.recv = elements;
	make(&spec, &sequence);
	assert_true(sml_tensor_claim(&tensor, SML_DATA, 0));
	assert_false(sml_tensor_claim(&tensor, SML_DATA, 0));
	assert_true(sml_tensor_claim(&tensor, SML_DATA, 1));
	sml_tensor_release(&tensor, SML_DATA, 0);
	assert_true(sml_tensor_claim(&tensor, SML_DATA, 0));
	sml_tensor_take(&tensor, SML_DATA, 0, lanes);
	sml_tensor_release(&tensor, SML_DATA, 0);
	assert_true(sml_tensor_chunk_is_done(&tensor, SML_DATA, 0));
	assert_false(sml_tensor_claim(&tensor, SML_DATA, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tensor_has_the_form_and_chunks_that_its_size_asks_for),
		cmocka_unit_test(stripes_share_a_window_whatever_their_number),
		cmocka_unit_test(digests_differ_whenever_calls_do),
		cmocka_unit_test(digests_are_equal_where_calls_are),
		cmocka_unit_test(counts_beyond_32_bits_are_told_apart),
		cmocka_unit_test(lanes_are_rounded_to_a_power_of_two_at_most_a_packet),
		cmocka_unit_test(only_a_tensor_s_last_chunk_is_shorter),
		cmocka_unit_test(where_only_full_packets_are_taken_every_chunk_has_all_lanes),
		cmocka_unit_test(where_only_int32_is_added_narrow_integers_take_whole_lanes),
		cmocka_unit_test(bytes_sent_in_part_are_zeros_elsewhere),
		cmocka_unit_test(placed_bytes_leave_all_others_alone),
		cmocka_unit_test(elements_wanted_in_part_are_taken_and_no_others),
		cmocka_unit_test(data_wait_for_the_exponents_of_their_own_blocks),
		cmocka_unit_test(a_chunk_with_blocks_of_two_head_chunks_waits_for_both),
		cmocka_unit_test(a_head_chunk_s_packet_is_full_of_exponents),
		cmocka_unit_test(a_last_head_chunk_has_lanes_for_its_exponents_only),
		cmocka_unit_test(a_chunk_counts_once),
		cmocka_unit_test(a_chunk_is_claimed_once_and_again_after_release),
	};

	return cmocka_run_group_tests(tests, NULL, end);
}
