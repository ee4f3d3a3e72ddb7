/* SPDX-License-Identifier: BSD-3-Clause */
/* Chunks whose elements are zero on all ranks: their packets are headers alone. */
#include <stdbool.h>
#include <string.h>

#include "core/element.h"
#include "support/one_tensor.h"
#include "support/test.h"

/* A sum of floats in several packets of 352 lanes, of which this rank is one of three. */
static void make_floats(enum sml_type type, enum sml_wire wire, bool only_full, void *elements,
			uint32_t count)
{
	const struct sml_shape shape = {352, 1, RANKS, only_full, false, !only_full, false};
	struct sml_tensor_spec spec = spec_of(type, SML_SUM, count);

	spec.wire = wire;
	spec.send = spec.recv = elements;
	make_in(&spec, &shape, NULL);
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

TESTS_BETWEEN(NULL, end)
