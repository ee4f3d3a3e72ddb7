/* SPDX-License-Identifier: BSD-3-Clause */
/* Lanes from decoded elements: they decode to the same bits, whatever lanes came. */
#include <string.h>

#include "core/quantize.h"
#include "core/recover.h"
#include "core/rounding.h"
#include "core/wire.h"
#include "support/quantize_random.h"
#include "support/test.h"

#define MOST 353
/* Lanes of as many: limbs, or whole blocks with their shifts. */
#define LANES (3 * MOST)

static const enum sml_op ops[] = {SML_SUM, SML_AVG};
static const enum sml_wire wires[] = {SML_WIRE_INT32, SML_WIRE_INT16};
static const unsigned counts[] = {1, 2, 63, 64, 65, MOST};
/* Ordinary ones of both precisions, those beyond, and the two without numbers. */
static const int16_t exponents[] = {-1073,
				    -1040,
				    -1000,
				    -500,
				    -149,
				    -148,
				    -140,
				    -126,
				    -100,
				    -24,
				    -14,
				    -1,
				    0,
				    1,
				    5,
				    16,
				    31,
				    100,
				    120,
				    127,
				    128,
				    129,
				    1000,
				    1023,
				    1024,
				    1025,
				    SML_EXPONENT_ZERO,
				    SML_EXPONENT_NONFINITE};
/* Where sums are rounded, or decoded to the largest and the smallest elements. */
static const uint32_t lanes_at_edges[] = {
	0,	    1,		0xffffffff, 0x7fffffff, 0x80000000, 0x80000001, 0x7fffffbf,
	0x7fffffc0, 0x00ffffff, 0x01000000, 0x01000001, 0x01000002, 0x01000003, 0xfeffffff,
	0x7fff8000, 0x80007fff, 0x00010001, 0xffff0000, 0x00008000, 0x00007fff};

static void draw_lanes(uint32_t *lanes, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint64_t bits = random_bits();
		uint32_t lane = (uint32_t)bits >> (bits >> 59);

		if (bits >> 58 & 1)
			lane = lanes_at_edges[bits % (sizeof(lanes_at_edges) / sizeof(uint32_t))];
		lanes[i] = sml_be32(bits >> 57 & 1 ? lane : 0u - lane);
	}
}

/* Of each rounded block. A sender that lies may send any. */
static void draw_shifts(const struct sml_code *code, uint32_t *lanes, uint32_t count)
{
	uint32_t blocks = sml_code_packet_blocks(code, count);
	uint8_t *shifts = (uint8_t *)lanes + blocks * SML_ROUNDED_BLOCK * code->width / 8;

	for (uint32_t b = 0; b < blocks; b++)
		shifts[b] =
			(uint8_t)random_below(random_below(9) ? SML_ROUNDED_SHIFT_MAX + 1 : 256);
}

/* A chunk that begins within a block: of its blocks, each second one has no numbers. */
static void check(const struct sml_code *code, int16_t exponent, uint32_t count)
{
	int16_t shared[] = {SML_EXPONENT_ZERO,	   exponent, SML_EXPONENT_NONFINITE, exponent,
			    SML_EXPONENT_ZERO,	   exponent, SML_EXPONENT_NONFINITE, exponent,
			    SML_EXPONENT_NONFINITE};
	uint32_t came[LANES], found[LANES];
	uint64_t decoded[MOST], again[MOST];
	size_t bytes = count * sml_element_bytes(code->type);
	uint64_t first = code->rounded ? 64 * random_below(2) : 1 + random_below(2 * 64 - 1);

	draw_lanes(came, sml_code_lanes(code, count));
	if (code->rounded)
		draw_shifts(code, came, count);
	memset(found, 0xa5, sizeof(found));
	sml_code_decode(code, shared, first, came, count, decoded);
	assert_true(sml_code_recover(code, shared, first, decoded, count, found));
	sml_code_decode(code, shared, first, found, count, again);
	assert_memory_equal(decoded, again, bytes);
	assert_int_equal(found[sml_code_lanes(code, count)], 0xa5a5a5a5);
}

static void check_code(struct sml_code code)
{
	assert_true(sml_code_is_recoverable(&code));
	FOR_EACH(e, exponents)
	FOR_EACH(c, counts)
	check(&code, exponents[e], counts[c]);
}

static void check_all(enum sml_type type, enum sml_op op, enum sml_wire wire, unsigned n_ranks)
{
	check_code(sml_code_of(type, op, wire, (uint16_t)n_ranks));
}

/* In packets of the blocks that have elements, and in full ones. */
static void check_rounded(enum sml_type type, enum sml_op op, enum sml_wire wire)
{
	const struct sml_code code = sml_code_of(type, op, wire, 3);

	assert_true(sml_code_with_rounding(code, 0).rounded);
	check_code(sml_code_with_rounding(code, 0));
	check_code(sml_code_with_rounding(code, 352));
}

TEST(decoded_floats_give_lanes_that_decode_to_the_same_bits)
{
	static const enum sml_type types[] = {SML_FLOAT32, SML_FLOAT16, SML_BFLOAT16, SML_FLOAT64};

	FOR_EACH(t, types)
	FOR_EACH(w, wires)
	FOR_EACH(o, ops)
	FOR_EACH(n, rank_counts)
	check_all(types[t], ops[o], wires[w], rank_counts[n]);
}

/* With the number of ranks as the divisor only. */
TEST(so_do_floats_that_were_rounded)
{
	static const enum sml_type types[] = {SML_FLOAT32, SML_FLOAT16, SML_BFLOAT16, SML_FLOAT64};

	FOR_EACH(t, types)
	FOR_EACH(o, ops)
	{
		check_rounded(types[t], ops[o], SML_WIRE_INT16);
		if (types[t] != SML_FLOAT64)
			check_rounded(types[t], ops[o], SML_WIRE_INT8);
	}
}

TEST(so_do_integers_and_bytes)
{
	const struct sml_code bytes = sml_code_of(SML_BYTE, SML_SUM, SML_WIRE_INT32, 4);
	uint8_t elements[7] = {1, 2, 3, 4, 5, 6, 0xff};
	uint32_t lanes[2] = {0};

	FOR_EACH(o, ops)
	FOR_EACH(n, rank_counts)
	check_all(SML_INT32, ops[o], SML_WIRE_INT32, rank_counts[n]);
	assert_true(sml_code_is_recoverable(&bytes));
	assert_true(sml_code_recover(&bytes, NULL, 0, elements, 7, lanes));
	assert_memory_equal(lanes, elements, 7);
}

/* Several lanes decode to one element, or it depends on other lanes. */
TEST(other_codings_are_not_recoverable)
{
	static const struct {
		enum sml_type type;
		enum sml_op op;
		enum sml_wire wire;
	} others[] = {
		{SML_INT8, SML_SUM, SML_WIRE_INT32},	{SML_INT16, SML_AVG, SML_WIRE_INT32},
		{SML_INT64, SML_SUM, SML_WIRE_INT32},	{SML_INT64, SML_MAX, SML_WIRE_INT32},
		{SML_FLOAT64, SML_SUM, SML_WIRE_INT64}, {SML_FLOAT32, SML_MAX, SML_WIRE_INT32}};

	FOR_EACH(i, others)
	{
		struct sml_code code = sml_code_of(others[i].type, others[i].op, others[i].wire, 4);

		assert_false(sml_code_is_recoverable(&code));
	}
}

TEST(elements_that_nothing_decodes_to_are_refused)
{
	const struct sml_code code = sml_code_of(SML_FLOAT32, SML_SUM, SML_WIRE_INT32, 4);
	const float wrong[] = {(float)NAN, INFINITY, 3e38f, 0x1p-100f, -0.0f};
	float elements[70] = {0};
	uint32_t lanes[70];
	int16_t exponent = 0;

	FOR_EACH(i, wrong)
	{
		elements[66] = wrong[i];
		assert_false(sml_code_recover(&code, &exponent, 0, elements, 70, lanes));
	}
	elements[66] = 0.5f;
	assert_true(sml_code_recover(&code, &exponent, 0, elements, 70, lanes));
}

TESTS_BETWEEN(seed_is_set, NULL)
