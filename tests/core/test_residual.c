/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Error feedback: what a rank adds to its elements before they are rounded, and what is left of it
 * afterwards. tests/lib/test_forms.c has whole jobs.
 */
#include <math.h>

#include "core/element.h"
#include "support/one_tensor.h"
#include "support/quantize_plain.h"
#include "support/quantize_random.h"
#include "support/test.h"

#define BLOCK  64
#define RUN    (20 * BLOCK + 5)
#define BLOCKS 21

static const unsigned widths[] = {32, 16, 8};

struct run {
	unsigned char elements[4 * RUN];
	float residual[RUN], sums[RUN]; /* sums: as they are rounded */
	int16_t exponents[BLOCKS];
	struct sml_blocks blocks;
};

static void draw_run(struct run *run, enum sml_type type)
{
	int16_t plain[BLOCKS], of_sums[BLOCKS];

	fill_random(type, (enum kind)random_below(KINDS), run->elements, RUN);
	fill_random(SML_FLOAT32, (enum kind)random_below(KINDS), run->residual, RUN);
	for (size_t i = 0; i < RUN; i++)
		run->sums[i] = (float)ref_load(type, run->elements, i) + run->residual[i];
	run->blocks = (struct sml_blocks){.exponents = run->exponents, .size = BLOCK};
	sml_exponents_of(type, run->elements, run->residual, RUN, BLOCK, run->exponents);
	plain_exponents_of(type, run->elements, run->residual, RUN, BLOCK, plain);
	sml_exponents_of(SML_FLOAT32, run->sums, NULL, RUN, BLOCK, of_sums);
	assert_memory_equal(run->exponents, plain, sizeof(plain));
	assert_memory_equal(run->exponents, of_sums, sizeof(plain));
}

static int32_t lane_of(unsigned width, const void *lanes, size_t i)
{
	return width == 32 ? (int32_t)sml_be32(((const uint32_t *)lanes)[i])
			   : sml_narrow_load(width, lanes, i);
}

/* Element i is what its lane says, and what is left, exactly. `bits`: of a lane, without its sign.
 */
static void check_element(const struct run *run, size_t i, int bits, int32_t lane, float left)
{
	int16_t exponent = run->exponents[i / BLOCK];
	double unit = ldexp(1, exponent - bits), sent = lane * unit;

	if (exponent == SML_EXPONENT_ZERO || exponent == SML_EXPONENT_NONFINITE) {
		assert_int_equal(lane, 0);
		assert_true(left == 0);
		return;
	}
	assert_int_equal(lane & ((1 << run->blocks.spare) - 1), 0);
	assert_true(sent + (double)left == (double)run->sums[i]);
	assert_true(fabs((double)left) <= ldexp(unit, run->blocks.spare));
}

static void check_run(struct run *run, unsigned width, enum sml_type type, unsigned n_ranks)
{
	static uint32_t lanes[RUN + 1], plain[RUN + 1];
	static float left[RUN], plain_left[RUN];
	int bits = (int)width - 1 - (int)ref_headroom(n_ranks);
	struct sml_feedback feedback = {run->residual, left};

	run->blocks.feedback = &feedback;
	sml_quantize(width, type, run->elements, RUN, &run->blocks, n_ranks, lanes);
	feedback.lost = plain_left;
	plain_quantize_run(width, type, run->elements, RUN, &run->blocks, n_ranks, plain);
	assert_memory_equal(lanes, plain, RUN * width / 8);
	for (size_t i = 0; i < RUN; i++) {
		assert_true(left[i] == plain_left[i]);
		check_element(run, i, bits, lane_of(width, lanes, i), left[i]);
	}
}

TEST(what_a_lane_says_and_what_is_left_are_the_sum)
{
	static struct run run;

	FOR_EACH(t, float_types)
	FOR_EACH(w, widths)
	for (int round = 0; round < 200; round++) {
		draw_run(&run, float_types[t]);
		check_run(&run, widths[w], float_types[t], widths[w] == 8 ? 1 : 5);
		if (widths[w] != 16)
			continue;
		run.blocks.spare = 3;
		check_run(&run, 16, float_types[t], 1);
	}
}

TEST(elements_that_travel_as_they_are_lose_what_their_type_loses)
{
	static struct run run;
	static uint32_t sums[RUN], plain[RUN];
	static float left[RUN];
	const struct sml_feedback feedback = {run.residual, left};

	FOR_EACH(t, float_types)
	for (int round = 0; round < 200; round++) {
		enum sml_type type = float_types[t];

		draw_run(&run, type);
		plain_add_residual(type, run.elements, &feedback, RUN, plain);
		sml_add_residual(type, run.elements, &feedback, RUN, sums);
		assert_memory_equal(sums, plain, RUN * ref_bytes(type));
		for (size_t i = 0; i < RUN; i++) {
			double sum = ref_load(type, sums, i);

			if (isnan(run.sums[i]))
				assert_true(isnan(sum) && left[i] == 0);
			else if (isinf(sum))
				assert_true(left[i] == 0 && fabs((double)run.sums[i]) >= 65520);
			else
				assert_true(sum + (double)left[i] == (double)run.sums[i]);
		}
	}
}

/* ---- tensors ---- */

#define ELEMENTS 5000

static float send[ELEMENTS], residual[ELEMENTS], before[ELEMENTS];

/* An in-place call of one of three ranks. Two blocks are zero only with the residual. */
static void make_sum(enum sml_wire wire, bool floats, uint32_t count)
{
	const struct sml_shape shape = {352, 1, RANKS, false, false, true, floats};
	struct sml_tensor_spec spec = spec_of(SML_FLOAT32, SML_SUM, count);

	for (uint32_t i = 0; i < count; i++) {
		send[i] = (float)random_below(1000) / 7;
		residual[i] = (float)random_below(1000) / 7000;
		if (i >= 512 && i < 640)
			residual[i] = -send[i];
	}
	memcpy(before, residual, sizeof(before));
	spec.wire = wire;
	spec.send = spec.recv = send;
	spec.residual = residual;
	make_in(&spec, &shape, NULL);
}

/* The chunk is sent three times, and its result, here the rank's own part, comes once. */
static void pass_chunk(enum sml_stream_id stream, uint32_t index)
{
	uint32_t sent[2][352] = {{0}, {0}};

	sml_tensor_fill(&tensor, stream, index, sent[0]);
	for (int again = 0; again < 2; again++) {
		sml_tensor_release(&tensor, stream, index);
		assert_true(sml_tensor_claim(&tensor, stream, index));
		sml_tensor_fill(&tensor, stream, index, sent[1]);
		assert_memory_equal(sent[0], sent[1], sizeof(sent[0]));
	}
	sml_tensor_take(&tensor, stream, index, sent[0]);
}

static void pass_all(void)
{
	for (uint32_t i = 0; i < tensor.window[SML_HEAD].count; i++)
		pass_chunk(SML_HEAD, i);
	for (uint32_t i = 0; i < tensor.window[SML_DATA].count; i++)
		pass_chunk(SML_DATA, i);
	assert_true(sml_tensor_is_done(&tensor));
}

TEST(a_residual_changes_when_the_call_has_succeeded_and_not_before)
{
	static const struct {
		enum sml_wire wire;
		bool floats;
		uint32_t count;
		enum sml_form form;
		double lost; /* at most, of elements below 144 */
	} rows[] = {
		{SML_WIRE_INT8, false, ELEMENTS, SML_FORM_EXPONENT, 1},
		{SML_WIRE_INT16, false, ELEMENTS, SML_FORM_EXPONENT, 0x1p-6},
		{SML_WIRE_INT32, false, ELEMENTS, SML_FORM_EXPONENT, 0x1p-21},
		{SML_WIRE_INT8, false, 300, SML_FORM_GATHER, 0},
		{SML_WIRE_EXACT, true, ELEMENTS, SML_FORM_PLAIN, 0},
		{SML_WIRE_EXACT, true, 300, SML_FORM_SMALL, 0},
	};

	FOR_EACH(r, rows)
	{
		double most = 0;

		make_sum(rows[r].wire, rows[r].floats, rows[r].count);
		assert_int_equal(tensor.form, rows[r].form);
		pass_all();
		assert_memory_equal(residual, before, sizeof(before));
		sml_tensor_keep(&tensor);
		for (uint32_t i = 0; i < rows[r].count; i++) {
			most = fmax(most, fabs((double)residual[i]));
			if (i >= 512 && i < 640)
				assert_true(residual[i] == 0);
		}
		assert_true(most <= rows[r].lost);
		assert_true((most > 0) == (rows[r].lost > 0));
	}
}

TESTS_BETWEEN(seed_is_set, end)
