/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls as chunks: forms, windows, digests, and which chunks are ready, done and claimed. */
#include <stdbool.h>
#include <string.h>

#include "support/one_tensor.h"
#include "support/test.h"

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
		{SML_FLOAT32, SML_SUM, SML_WIRE_EXACT, 100000, SML_FORM_GATHER, 10000, 0},
		{SML_FLOAT64, SML_SUM, SML_WIRE_EXACT, 100001, SML_FORM_GATHER, 20001, 0},
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
	DIFFERS(other.named_type = SML_INT32);
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
	const struct sml_shape shape = {2208, 0, 1, false, false, false, false};
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

	spec.send = spec.recv = elements;
	make(&spec, NULL);
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

		make(&spec, NULL);
		assert_int_equal(tensor.window[SML_HEAD].count, 2);
		pass_head(earlier);
		assert_int_equal(sml_tensor_chunk_is_ready(&tensor, SML_DATA, both - 1), !earlier);
		assert_false(sml_tensor_chunk_is_ready(&tensor, SML_DATA, both));
		assert_int_equal(sml_tensor_chunk_is_ready(&tensor, SML_DATA, both + 1), earlier);
		pass_head(!earlier);
		assert_true(sml_tensor_chunk_is_ready(&tensor, SML_DATA, both));
	}
}

/* The elements of its blocks must stay in the cache, so it may have fewer than fit. */
TEST(a_head_chunk_has_as_many_exponents_as_fit_into_all_lanes)
{
	static const uint16_t counts[] = SML_LANE_COUNTS;

	for (unsigned i = 0; counts[i] != 0; i++)
		for (unsigned wide = 0; wide < 2; wide++)
			for (unsigned only_int32 = 0; only_int32 < 2; only_int32++) {
				const struct sml_shape shape = {
					.lanes = counts[i], .n_ranks = 1, .only_int32 = only_int32};
				struct sml_tensor_spec spec =
					spec_of(wide ? SML_FLOAT64 : SML_FLOAT32, SML_SUM, 1 << 18);
				struct sml_contribution head;
				uint32_t exponents, block = wide ? 64 : 256;

				spec.wire = wide ? SML_WIRE_INT64 : SML_WIRE_INT32;
				make_in(&spec, &shape, NULL);
				sml_tensor_describe_chunk(&tensor, SML_HEAD, 0, &head);
				assert_int_equal(head.op, SML_LANE_MAX);
				assert_int_equal(head.lane_kind,
						 only_int32 ? SML_LANE_INT32 : SML_LANE_INT16_PAIR);
				exponents = tensor.elements_per_head / block;
				assert_int_equal(head.lanes, counts[i]);
				if (exponents < (only_int32 ? 1u : 2u) * counts[i])
					assert_int_equal(tensor.elements_per_head << (2 + wide),
							 512 << 10);
			}
}

/* So that a batch with packets of both streams is one run of equally long packets. */
TEST(full_packets_of_exponents_and_of_elements_are_equally_long)
{
	static const enum sml_wire wires[] = {SML_WIRE_INT32, SML_WIRE_INT16, SML_WIRE_INT8};

	for (unsigned i = 0; i < 3; i++)
		for (unsigned rounds = 0; rounds < 2; rounds++) {
			const struct sml_shape shape = {
				.lanes = 352, .n_ranks = 1, .rounds = rounds};
			struct sml_tensor_spec spec = spec_of(SML_FLOAT32, SML_SUM, 1 << 18);
			struct sml_contribution head, data;

			if (wires[i] == SML_WIRE_INT8 && !rounds)
				continue;
			spec.wire = wires[i];
			make_in(&spec, &shape, NULL);
			sml_tensor_describe_chunk(&tensor, SML_HEAD, 0, &head);
			sml_tensor_describe_chunk(&tensor, SML_DATA, 0, &data);
			assert_int_equal(head.lanes, data.lanes);
		}
}

TEST(a_last_head_chunk_has_lanes_for_its_exponents_only)
{
	static float elements[256 * 64 + 256 * 17 + 1];
	struct sml_tensor_spec spec =
		spec_of(SML_FLOAT32, SML_SUM, sizeof(elements) / sizeof(elements[0]));
	struct sml_contribution head;
	uint32_t lanes[LANES];

	for (size_t i = 0; i < spec.count; i++)
		elements[i] = 1;
	spec.send = spec.recv = elements;
	make(&spec, NULL);
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
	uint32_t lanes[LANES] = {0};

	spec.send = spec.recv = elements;
	make(&spec, NULL);
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
	uint32_t lanes[LANES] = {0};

	spec.send = spec.recv = elements;
	make(&spec, NULL);
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

TESTS_BETWEEN(NULL, end)
