/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares the error of sums on the int16 wire, rounded by one switch, with that of a ring that
 * rounds each partial sum to the elements' type, for float16 and bfloat16. Both get the same
 * inputs, and their errors are the distances from the exact sums of these inputs.
 *
 *	micro_error >TABLE.md
 *	micro_error FILE ... >TABLE.md
 *
 * Two errors, both relative to the RMS of the exact sums: the RMS, and the largest one. The data:
 * normal numbers; rows of 256 with a scale of their own each (lognormal, sigma 1.5); Student's t
 * with 3 degrees of freedom; a scale of its own for each element (lognormal, sigma 2). All ranks
 * have the same scales.
 *
 * A file has recorded inputs instead (gradients.py): those of 64 ranks, one after the other, as
 * float32 in the machine's order.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/coding.h"
#include "core/element.h"
#include "core/pool.h"
#include "core/quantize.h"

#define COUNT	   (1u << 15) /* elements that are drawn */
#define MOST_COUNT (1u << 18) /* of a file */
#define BLOCK	   SML_ROUNDED_BLOCK
#define PIECE	   4096u /* elements of a packet */
#define MOST_RANKS 64u

enum kind { NORMAL, ROWS, STUDENT, EACH, RECORDED };

/* Where inputs come from. */
struct data {
	enum kind kind;
	const char *name;
	size_t count;	 /* elements of a rank: whole blocks */
	double *scales;	 /* of drawn elements */
	float *recorded; /* those of all ranks */
	size_t stride;	 /* of a rank there */
};

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

static double draw(const struct data *data, size_t i)
{
	double squares = 0;

	if (data->kind != STUDENT)
		return normal() * data->scales[i];
	for (int k = 0; k < 3; k++)
		squares += pow(normal(), 2);
	return normal() / sqrt(squares / 3);
}

static void draw_scales(const struct data *data)
{
	for (size_t i = 0; data->scales && i < data->count; i++)
		data->scales[i] = data->kind == EACH   ? exp(2 * normal())
				  : data->kind != ROWS ? 1
				  : i % 256 == 0       ? exp(1.5 * normal())
						       : data->scales[i - 1];
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
	double exact[MOST_COUNT];
	uint16_t ring[MOST_COUNT], ours[MOST_COUNT];
};

/* The inputs of a rank. Drawn ones are the same whenever `state` is the same. */
static void read_inputs(enum sml_type type, const struct data *data, unsigned rank,
			uint16_t *inputs)
{
	for (size_t i = 0; i < data->count; i++)
		store(type, inputs, i,
		      data->kind == RECORDED ? (double)data->recorded[rank * data->stride + i]
					     : draw(data, i) / 64);
}

static void add_exactly_and_in_a_ring(enum sml_type type, const uint16_t *inputs, size_t count,
				      bool first, struct sums *sums)
{
	for (size_t i = 0; i < count; i++) {
		double value = value_of(type, inputs, i);

		sums->exact[i] = first ? value : sums->exact[i] + value;
		store(type, sums->ring, i, first ? value : value_of(type, sums->ring, i) + value);
	}
}

static void join_exponents(const struct sml_code *code, const uint16_t *inputs, size_t count,
			   int16_t *exponents)
{
	for (size_t b = 0; b < count / BLOCK; b++) {
		int16_t own;

		sml_code_exponents(code, inputs + BLOCK * b, BLOCK, &own);
		exponents[b] = own > exponents[b] ? own : exponents[b];
	}
}

static uint32_t piece_at(const struct data *data, size_t at)
{
	return data->count - at < PIECE ? (uint32_t)(data->count - at) : PIECE;
}

static void sum_all(enum sml_type type, const struct data *data, unsigned n_ranks,
		    struct sums *sums)
{
	static uint32_t lanes[PIECE], total[MOST_COUNT];
	static uint16_t inputs[MOST_COUNT];
	static int16_t exponents[MOST_COUNT / BLOCK];
	struct sml_code code = sml_code_with_rounding(
		sml_code_of(type, SML_SUM, SML_WIRE_INT16, (uint16_t)n_ranks), 0);
	uint64_t before;

	state = 7 + n_ranks;
	draw_scales(data);
	before = state;
	for (size_t b = 0; b < data->count / BLOCK; b++)
		exponents[b] = SML_EXPONENT_ZERO;
	for (unsigned rank = 0; rank < n_ranks; rank++) {
		read_inputs(type, data, rank, inputs);
		add_exactly_and_in_a_ring(type, inputs, data->count, rank == 0, sums);
		join_exponents(&code, inputs, data->count, exponents);
	}
	state = before;
	for (unsigned rank = 0; rank < n_ranks; rank++) {
		enum sml_lane_step step = rank == 0	       ? SML_LANES_FIRST
					  : rank + 1 < n_ranks ? SML_LANES_NEXT
							       : SML_LANES_LAST;

		read_inputs(type, data, rank, inputs);
		for (size_t at = 0; at < data->count; at += PIECE) {
			uint32_t n = piece_at(data, at);

			sml_code_encode(&code, exponents, at, inputs + at, n, lanes);
			sml_lanes_combine(SML_LANE_SUM, SML_LANE_INT16_ROUNDED, step, total + at,
					  lanes, sml_code_lanes(&code, n));
		}
	}
	for (size_t at = 0; at < data->count; at += PIECE)
		sml_code_decode(&code, exponents, at, total + at, piece_at(data, at),
				sums->ours + at);
}

struct errors {
	double rms, largest;
};

static struct errors errors_of(enum sml_type type, const uint16_t *got, const double *exact,
			       size_t count)
{
	struct errors errors = {0, 0};
	double squares = 0;

	for (size_t i = 0; i < count; i++) {
		double error = fabs(value_of(type, got, i) - exact[i]);

		errors.rms += error * error;
		squares += exact[i] * exact[i];
		errors.largest = error > errors.largest ? error : errors.largest;
	}
	errors.rms = sqrt(errors.rms / squares);
	errors.largest /= sqrt(squares / (double)count);
	return errors;
}

/* As 1.8e-3: printf()'s exponents have two digits. */
static void print_error(double error)
{
	char text[32], *exponent;

	snprintf(text, sizeof(text), "%.1e", error);
	exponent = strchr(text, 'e');
	if (exponent)
		printf(" %.*se%d |", (int)(exponent - text), text, atoi(exponent + 1));
	else
		printf(" %s |", text);
}

static void print_rows(const struct data *data)
{
	static const enum sml_type types[] = {SML_BFLOAT16, SML_FLOAT16};
	static struct sums sums;

	for (unsigned n = 2; n <= MOST_RANKS; n *= 2) {
		printf("| %u | %s |", n, data->name);
		for (unsigned t = 0; t < 2; t++) {
			struct errors ring, ours;

			sum_all(types[t], data, n, &sums);
			ring = errors_of(types[t], sums.ring, sums.exact, data->count);
			ours = errors_of(types[t], sums.ours, sums.exact, data->count);
			print_error(ring.rms);
			print_error(ours.rms);
			print_error(ring.largest);
			print_error(ours.largest);
		}
		printf("\n");
		fflush(stdout);
	}
}

static void print_drawn(void)
{
	static const char *const names[] = {"normal", "rows lognormal", "Student, 3 degrees",
					    "each lognormal, 2"};
	static double scales[COUNT];

	for (enum kind kind = NORMAL; kind <= EACH; kind++)
		print_rows(&(struct data){
			.kind = kind, .name = names[kind], .count = COUNT, .scales = scales});
}

static void give_up(const char *path, const char *why)
{
	fprintf(stderr, "micro_error: %s: %s\n", path, why);
	exit(2);
}

/* The name of a file's rows is that of the file. Elements after the last whole block are left out.
 */
static void print_recorded(const char *path)
{
	static float recorded[MOST_RANKS * MOST_COUNT];
	const char *slash = strrchr(path, '/');
	FILE *file = fopen(path, "rb");
	struct data data = {.kind = RECORDED, .name = slash ? slash + 1 : path};
	size_t n;

	if (file == NULL)
		give_up(path, "cannot be read");
	n = fread(recorded, sizeof(recorded[0]), MOST_RANKS * (size_t)MOST_COUNT, file);
	if (n == 0 || n % MOST_RANKS || fgetc(file) != EOF)
		give_up(path, "is not of 64 ranks with at most 262,144 elements each");
	fclose(file);
	data.recorded = recorded;
	data.stride = n / MOST_RANKS;
	data.count = data.stride / BLOCK * BLOCK;
	if (data.count == 0)
		give_up(path, "has no whole block");
	print_rows(&data);
}

int main(int argc, char **argv)
{
	printf("| ranks | data | bfloat16: ring | int16 | largest: ring | int16 "
	       "| float16: ring | int16 | largest: ring | int16 |\n"
	       "|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|\n");
	if (argc == 1)
		print_drawn();
	for (int i = 1; i < argc; i++)
		print_recorded(argv[i]);
	return 0;
}
