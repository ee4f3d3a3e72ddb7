/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank of a job, set up by the environment. It sums numbers of every type, op and wire, and
 * prints a hash of the bits of each result. Ranks on machines of different architectures, and jobs
 * with other such machines, must print the same lines. Needs nothing but switchml.h.
 *
 *	rank-of-bits [WIRE [MOST]]	int8: on that wire, too, which not all switches take;
 *					int32: on no other. MOST: the elements of the longest
 *
 * The inputs come from integers alone: no function of libm could make a difference.
 */
#include <err.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <switchml.h>

#define MOST 5003u /* elements: several blocks, and an end that fills no packet */
/* Zero on all ranks: some chunks of each wire, which travel as headers alone. */
#define ZEROS_FROM 1300u
#define N_ZEROS	   2800u

static const struct {
	enum sml_type type;
	const char *name;
	unsigned bytes, fraction_bits; /* 0: an integer */
	unsigned bias;
} types[] = {
	{SML_FLOAT32, "float32", 4, 23, 127}, {SML_FLOAT64, "float64", 8, 52, 1023},
	{SML_FLOAT16, "float16", 2, 10, 15},  {SML_BFLOAT16, "bfloat16", 2, 7, 127},
	{SML_INT32, "int32", 4, 0, 0},	      {SML_INT64, "int64", 8, 0, 0},
	{SML_INT16, "int16", 2, 0, 0},	      {SML_INT8, "int8", 1, 0, 0},
	{SML_UINT8, "uint8", 1, 0, 0},	      {SML_BOOL, "bool", 1, 0, 0},
};

static uint64_t mix(uint64_t part, uint64_t i)
{
	uint64_t x = part * 0x9e3779b97f4a7c15 + i * 0xd1b54a32d192ed03 + 1;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* A float of either sign and of the sizes 2^-8 to 2^7, sometimes zero; or any integer. */
static uint64_t element(unsigned t, unsigned rank, size_t i)
{
	uint64_t x = mix(rank + 1, i), sign = x >> 63;
	unsigned fraction = types[t].fraction_bits;

	if (types[t].type == SML_BOOL)
		return x % 3 == 0;
	if (fraction == 0)
		return x;
	if (x % 61 == 0 || (i >= ZEROS_FROM && i - ZEROS_FROM < N_ZEROS))
		return 0;
	return sign << (8 * types[t].bytes - 1) | (types[t].bias - 8 + (x >> 56 & 15)) << fraction |
	       (x & (((uint64_t)1 << fraction) - 1));
}

static uint64_t hash_of(const unsigned char *bytes, size_t n)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3;
	return hash;
}

/* residual: of these elements, or NULL. */
static void sum(struct sml_context *job, unsigned t, enum sml_op op, enum sml_wire wire,
		float *residual, size_t count)
{
	static unsigned char data[8 * MOST];
	struct sml_options options = SML_OPTIONS_INIT;
	struct sml_info info = SML_INFO_INIT;

	sml_get_info(job, &info);
	options.wire = wire;
	options.residual = residual;
	for (size_t i = 0; i < count; i++) {
		uint64_t bits = element(t, (unsigned)info.rank, i);

		/* Both machines are little-endian: the low bytes come first. */
		memcpy(data + i * types[t].bytes, &bits, types[t].bytes);
	}
	if (sml_allreduce(job, data, data, count, types[t].type, op, &options, NULL) < 0)
		errx(1, "%s: %s", types[t].name, sml_error_text(job));
	printf("%s op %d wire %d of %zu: %016llx\n", types[t].name, (int)op, (int)wire, count,
	       (unsigned long long)hash_of(data, count * types[t].bytes));
}

static bool may_be_rounded(unsigned t, enum sml_op op)
{
	return types[t].fraction_bits && types[t].type != SML_FLOAT64 && op <= SML_AVG;
}

/* Then also twice with a residual, which all ranks have: it is added by the second call. */
static void sum_rounded(struct sml_context *job, unsigned t, enum sml_op op, enum sml_wire wire,
			size_t count)
{
	static float residual[MOST];

	sum(job, t, op, wire, NULL, count);
	if (!may_be_rounded(t, op))
		return;
	memset(residual, 0, sizeof(residual));
	for (unsigned step = 0; step < 2; step++)
		sum(job, t, op, wire, residual, count);
}

int main(int argc, char **argv)
{
	const bool with_int8 = argc > 1 && strcmp(argv[1], "int8") == 0;
	const bool with_int16 = argc <= 1 || strcmp(argv[1], "int32") != 0;
	const size_t most = argc > 2 ? strtoul(argv[2], NULL, 10) : MOST;

	static const enum sml_op ops[] = {SML_SUM, SML_AVG, SML_MAX, SML_MIN};
	static const size_t counts[] = {1, 100, MOST};
	struct sml_context *job;

	if (sml_open(&job, NULL) < 0)
		errx(1, "%s", sml_error_text(NULL));
	for (unsigned t = 0; t < sizeof(types) / sizeof(types[0]); t++)
		for (unsigned o = 0; o < sizeof(ops) / sizeof(ops[0]); o++)
			for (unsigned c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
				if ((types[t].type == SML_BOOL && ops[o] == SML_AVG) ||
				    counts[c] > most)
					continue;
				sum_rounded(job, t, ops[o], SML_WIRE_INT32, counts[c]);
				if (with_int16 && types[t].fraction_bits)
					sum_rounded(job, t, ops[o], SML_WIRE_INT16, counts[c]);
				if (with_int8 && may_be_rounded(t, ops[o]))
					sum_rounded(job, t, ops[o], SML_WIRE_INT8, counts[c]);
			}
	if (sml_close(job) < 0)
		errx(1, "the job could not be left in order");
	return 0;
}
