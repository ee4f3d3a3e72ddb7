/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures how fast elements become lanes and lanes become elements, on one core, compared
 * with memcpy over the same bytes. Buffers are large and processed chunk by chunk, nearly as in the
 * worker: first the exponents of a chunk's blocks, then its lanes.
 *
 *	micro_quantize [lanes a chunk, default 352]
 *
 * GB/s counts bytes of elements: memcpy of 1 GB of elements, quantization of 1 GB of
 * elements. The result is the best of several rounds, because other load only slows. The last
 * column is the time there and back with a residual, divided by that without one.
 */
#include <stdio.h>

#include "bench/micro.h"
#include "core/coding.h"
#include "core/wide.h"

#define COUNT	(16u << 20) /* elements; 64 MiB of float32, 128 MiB of float64 */
#define ROUNDS	7
#define N_RANKS 8

struct bench {
	struct sml_code code;
	size_t element_bytes;
	uint32_t chunk;
	unsigned char *elements;
	unsigned char *lanes;
	unsigned char *again; /* elements converted back */
	int16_t *exponents;
	float *residual, *lost; /* NULL: there is no feedback */
};

static void copy(struct bench *bench)
{
	memcpy(bench->again, bench->elements, COUNT * bench->element_bytes);
}

static const struct sml_feedback *feedback_at(const struct bench *bench, uint32_t at,
					      struct sml_feedback *feedback)
{
	if (bench->residual == NULL)
		return NULL;
	*feedback = (struct sml_feedback){bench->residual + at, bench->lost + at};
	return feedback;
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static void to_lanes(struct bench *bench)
{
	uint32_t block = sml_code_block(&bench->code), measured = 0;
	size_t lane_bytes = 4u * sml_code_lanes(&bench->code, bench->chunk);

	for (uint32_t at = 0, i = 0; at < COUNT; at += bench->chunk, i++) {
		struct sml_feedback feedback;
		uint32_t count = least(COUNT - at, bench->chunk);

		/* Whole blocks. */
		if (bench->code.exponents && measured < at + count) {
			uint32_t more = (at + count - measured + block - 1) / block * block;

			sml_code_exponents(
				&bench->code, bench->elements + measured * bench->element_bytes,
				bench->residual ? bench->residual + measured : NULL,
				least(COUNT - measured, more), bench->exponents + measured / block);
			measured += more;
		}
		sml_code_encode(&bench->code, bench->exponents, at,
				bench->elements + at * bench->element_bytes,
				feedback_at(bench, at, &feedback), count,
				bench->lanes + i * lane_bytes);
	}
}

static void from_lanes(struct bench *bench, uint16_t divisor)
{
	size_t lane_bytes = 4u * sml_code_lanes(&bench->code, bench->chunk);

	bench->code.divisor = divisor;
	for (uint32_t at = 0, i = 0; at < COUNT; at += bench->chunk, i++)
		sml_code_decode(&bench->code, bench->exponents, at, bench->lanes + i * lane_bytes,
				least(COUNT - at, bench->chunk),
				bench->again + at * bench->element_bytes);
	if (bench->residual)
		memcpy(bench->residual, bench->lost, COUNT * sizeof(float));
}

static void sum_from_lanes(struct bench *bench)
{
	from_lanes(bench, 1);
}

static void average_from_lanes(struct bench *bench)
{
	from_lanes(bench, 7);
}

static double gigabytes_per_second(struct bench *bench, void (*work)(struct bench *))
{
	double best = 1e30;

	work(bench);
	for (int round = 0; round < ROUNDS; round++) {
		double begin = seconds();
		double took;

		work(bench);
		took = seconds() - begin;
		best = took < best ? took : best;
	}
	return 1e-9 * (double)(COUNT * bench->element_bytes) / best;
}

/* Numbers like gradients: both signs, different by a few powers of two. */
static void fill(struct bench *bench)
{
	uint32_t state = 1;

	for (size_t i = 0; i < COUNT; i++) {
		uint32_t bits;

		state = state * 1664525u + 1013904223u;
		bits = (state & 0x807fffffu) | ((110u + (state >> 24) % 8) << 23);
		if (bench->code.type == SML_FLOAT64)
			memcpy(bench->elements + 8 * i,
			       (uint64_t[]){(uint64_t)(state & 0x800fffffu) << 32 |
					    (uint64_t)(1000 + (state >> 24) % 8) << 52 | ~state},
			       8);
		else if (bench->code.type == SML_FLOAT32)
			memcpy(bench->elements + 4 * i, &bits, 4);
		else if (bench->code.type == SML_BFLOAT16)
			memcpy(bench->elements + 2 * i, (uint16_t[]){(uint16_t)(bits >> 16)}, 2);
		else
			memcpy(bench->elements + 2 * i,
			       (uint16_t[]){(uint16_t)((state >> 16) & 0xbfffu)}, 2);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		enum sml_type type;
		enum sml_wire wire;
		const char *name, *wire_name;
	} rows[] = {
		{SML_FLOAT32, SML_WIRE_INT32, "float32", "int32"},
		{SML_FLOAT32, SML_WIRE_INT16, "float32", "int16"},
		{SML_FLOAT16, SML_WIRE_INT32, "float16", "int32"},
		{SML_FLOAT16, SML_WIRE_INT16, "float16", "int16"},
		{SML_BFLOAT16, SML_WIRE_INT32, "bfloat16", "int32"},
		{SML_BFLOAT16, SML_WIRE_INT16, "bfloat16", "int16"},
		{SML_FLOAT32, SML_WIRE_INT8, "float32", "int8"},
		{SML_FLOAT16, SML_WIRE_INT8, "float16", "int8"},
		{SML_BFLOAT16, SML_WIRE_INT8, "bfloat16", "int8"},
		{SML_FLOAT64, SML_WIRE_INT64, "float64", "int64"},
		{SML_FLOAT32, SML_WIRE_EXACT, "float32", "exact"},
		{SML_FLOAT16, SML_WIRE_EXACT, "float16", "exact"},
		{SML_BFLOAT16, SML_WIRE_EXACT, "bfloat16", "exact"},
	};
	size_t lanes = argc > 1 ? strtoul(argv[1], NULL, 10) : 352;
	struct bench bench = {0};
	float *residual = memory_of(sizeof(float) * COUNT, 1);

	if (lanes < SML_LIMBS || lanes > COUNT) {
		fprintf(stderr, "micro_quantize: lanes a chunk: %d to %u\n", SML_LIMBS, COUNT);
		return 2;
	}
	bench.elements = memory_of(8 * (size_t)COUNT, 1);
	bench.again = memory_of(8 * (size_t)COUNT, 1);
	bench.lanes = memory_of(4 * SML_LIMBS * ((size_t)COUNT + 2 * lanes), 1);
	bench.exponents = memory_of(sizeof(int16_t) * (COUNT / 64 + 1), 1);
	bench.lost = memory_of(sizeof(float) * COUNT, 1);

	printf("%zu lanes a chunk, %u elements; GB/s of elements (and of memcpy)\n", lanes, COUNT);
	printf("%-9s %-6s %8s %16s %16s %16s %9s\n", "type", "wire", "memcpy", "to lanes",
	       "sum back", "average back", "residual");
	for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
		double speed[6] = {0};

		bench.code = sml_code_of(rows[r].type, SML_SUM, rows[r].wire, N_RANKS);
		if (rows[r].wire == SML_WIRE_INT8)
			bench.code = sml_code_with_rounding(bench.code, 0);
		if (rows[r].wire == SML_WIRE_EXACT)
			bench.code = sml_code_with_floats(bench.code);
		bench.element_bytes = sml_element_bytes(rows[r].type);
		bench.chunk = sml_code_elements(&bench.code, (uint32_t)lanes);
		fill(&bench);
		speed[0] = gigabytes_per_second(&bench, copy);
		speed[1] = gigabytes_per_second(&bench, to_lanes);
		speed[2] = gigabytes_per_second(&bench, sum_from_lanes);
		speed[3] = gigabytes_per_second(&bench, average_from_lanes);
		memset(residual, 0, sizeof(float) * COUNT);
		bench.residual = rows[r].type == SML_FLOAT64 ? NULL : residual;
		speed[4] = gigabytes_per_second(&bench, to_lanes);
		speed[5] = gigabytes_per_second(&bench, sum_from_lanes);
		bench.residual = NULL;
		printf("%-9s %-6s %8.2f", rows[r].name, rows[r].wire_name, speed[0]);
		for (int i = 1; i < 4; i++)
			printf(" %9.2f (%3.0f%%)", speed[i], 100 * speed[i] / speed[0]);
		printf(" %8.2fx\n", (1 / speed[4] + 1 / speed[5]) / (1 / speed[1] + 1 / speed[2]));
	}
	free(bench.elements);
	free(bench.again);
	free(bench.lanes);
	free(bench.exponents);
	free(residual);
	free(bench.lost);
	return 0;
}
