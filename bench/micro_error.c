/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares the error of sums on the int16 wire, rounded by one switch, with that of a ring that
 * rounds each partial sum to the elements' type, for float16 and bfloat16. Both get the same
 * inputs, and their errors are the distances from the exact sums of these inputs.
 *
 *	micro_error >TABLE.md
 *
 * Two errors, both relative to the RMS of the exact sums: the RMS, and the largest one. The data:
 * normal numbers; rows of 256 with a scale of their own each (lognormal, sigma 1.5); Student's t
 * with 3 degrees of freedom; a scale of its own for each element (lognormal, sigma 2). All ranks
 * have the same scales.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/coding.h"
#include "core/element.h"
#include "core/pool.h"
#include "core/quantize.h"

#define COUNT  (1u << 15) /* elements */
#define BLOCKS (COUNT / 64)
#define PIECE  4096u /* elements of a packet */

enum data { NORMAL, ROWS, STUDENT, EACH };

static const char *const data_names[] = {"normal", "rows lognormal", "Student, 3 degrees",
					 "each lognormal, 2"};

static uint64_t state;

static double uniform(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return ((double)(state >> 11) + 0.5) * 0x1p-53;
}

static double normal(void)
{
	return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

static double draw(enum data data, const double *scales, size_t i)
{
	double squares = 0;

	if (data != STUDENT)
		return normal() * scales[i];
	for (int k = 0; k < 3; k++)
		squares += pow(normal(), 2);
	return normal() / sqrt(squares / 3);
}

static void draw_scales(enum data data, double *scales)
{
	for (size_t i = 0; i < COUNT; i++)
		scales[i] = data == EACH   ? exp(2 * normal())
			    : data != ROWS ? 1
			    : i % 256 == 0 ? exp(1.5 * normal())
					   : scales[i - 1];
}

static double value_of(enum sml_type type, const uint16_t *elements, size_t i)
{
	return (double)sml_float_of(sml_element_load(type, elements, i));
}

static void store(enum sml_type type, uint16_t *elements, size_t i, double value)
{
	sml_element_store(type, elements, i, sml_bits_of((float)value));
}

struct sums {
	double exact[COUNT];
	uint16_t ring[COUNT], ours[COUNT];
};

/* The inputs of a rank, the same ones whenever `state` is the same. */
static void draw_inputs(enum sml_type type, enum data data, const double *scales, uint16_t *inputs)
{
	for (size_t i = 0; i < COUNT; i++)
		store(type, inputs, i, draw(data, scales, i) / 64);
}

static void add_exactly_and_in_a_ring(enum sml_type type, const uint16_t *inputs, bool first,
				      struct sums *sums)
{
	for (size_t i = 0; i < COUNT; i++) {
		double value = value_of(type, inputs, i);

		sums->exact[i] = first ? value : sums->exact[i] + value;
		store(type, sums->ring, i, first ? value : value_of(type, sums->ring, i) + value);
	}
}

static void join_exponents(const struct sml_code *code, const uint16_t *inputs, int16_t *exponents)
{
	for (size_t b = 0; b < BLOCKS; b++) {
		int32_t own = sml_code_exponent(code, inputs + 64 * b, 64);

		exponents[b] = own > exponents[b] ? (int16_t)own : exponents[b];
	}
}

static void sum_all(enum sml_type type, enum data data, unsigned n_ranks, struct sums *sums)
{
	static uint32_t lanes[PIECE], total[COUNT];
	static uint16_t inputs[COUNT];
	static double scales[COUNT];
	static int16_t exponents[BLOCKS];
	struct sml_code code = sml_code_with_rounding(
		sml_code_of(type, SML_SUM, SML_WIRE_INT16, (uint16_t)n_ranks));
	uint64_t before;

	state = 7 + n_ranks;
	draw_scales(data, scales);
	before = state;
	for (size_t b = 0; b < BLOCKS; b++)
		exponents[b] = SML_EXPONENT_ZERO;
	for (unsigned rank = 0; rank < n_ranks; rank++) {
		draw_inputs(type, data, scales, inputs);
		add_exactly_and_in_a_ring(type, inputs, rank == 0, sums);
		join_exponents(&code, inputs, exponents);
	}
	state = before;
	for (unsigned rank = 0; rank < n_ranks; rank++) {
		enum sml_lane_step step = rank == 0	       ? SML_LANES_FIRST
					  : rank + 1 < n_ranks ? SML_LANES_NEXT
							       : SML_LANES_LAST;

		draw_inputs(type, data, scales, inputs);
		for (uint32_t at = 0; at < COUNT; at += PIECE) {
			sml_code_encode(&code, exponents, at, inputs + at, PIECE, lanes);
			sml_lanes_combine(SML_LANE_SUM, SML_LANE_INT16_ROUNDED, step, total + at,
					  lanes, sml_code_lanes(&code, PIECE));
		}
	}
	for (uint32_t at = 0; at < COUNT; at += PIECE)
		sml_code_decode(&code, exponents, at, total + at, PIECE, sums->ours + at);
}

struct errors {
	double rms, largest;
};

static struct errors errors_of(enum sml_type type, const uint16_t *got, const double *exact)
{
	struct errors errors = {0, 0};
	double squares = 0;

	for (size_t i = 0; i < COUNT; i++) {
		double error = fabs(value_of(type, got, i) - exact[i]);

		errors.rms += error * error;
		squares += exact[i] * exact[i];
		errors.largest = error > errors.largest ? error : errors.largest;
	}
	errors.rms = sqrt(errors.rms / squares);
	errors.largest /= sqrt(squares / COUNT);
	return errors;
}

int main(void)
{
	static const enum sml_type types[] = {SML_BFLOAT16, SML_FLOAT16};
	static const char *const type_names[] = {"bfloat16", "float16"};
	static struct sums sums;

	printf("| type | data | ranks | RMS: ring | int16 | largest: ring | int16 |\n"
	       "|---|---|---:|---:|---:|---:|---:|\n");
	for (unsigned t = 0; t < 2; t++)
		for (enum data data = NORMAL; data <= EACH; data++)
			for (unsigned n = 2; n <= 64; n *= 2) {
				struct errors ring, ours;

				sum_all(types[t], data, n, &sums);
				ring = errors_of(types[t], sums.ring, sums.exact);
				ours = errors_of(types[t], sums.ours, sums.exact);
				printf("| %s | %s | %u | %.1e | %.1e | %.1e | %.1e |\n",
				       type_names[t], data_names[data], n, ring.rms, ours.rms,
				       ring.largest, ours.largest);
				fflush(stdout);
			}
	return 0;
}
