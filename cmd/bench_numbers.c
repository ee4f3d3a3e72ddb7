/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inputs of `switchml bench`, and what their all-reduce has to be. Every rank
 * can make every other rank's input from seed, rank and index, so each checks
 * its results by itself, in double precision, without the code under test.
 *
 * Float inputs are random in sign and mantissa and lie in +-[2^-8, 1): the
 * shared exponent of docs/numbers.md is at most 0, which gives the bound below.
 */
#include <math.h>
#include <string.h>

#include "cmd/bench.h"

/* Elements that are checked at a time: the sums of a block stay in the cache. */
#define BLOCK 2048

const char *bench_type_name(enum sml_type type)
{
	static const char *const names[] = {"float", "half", "bfloat16", "int32", "byte"};

	return names[type];
}

const char *bench_op_name(enum sml_op op)
{
	static const char *const names[] = {"sum", "avg", "max", "min"};

	return names[op];
}

/* murmur3's finalizer: a different number for each index, all bits alike. */
static inline uint32_t mix(uint32_t x)
{
	x ^= x >> 16;
	x *= 0x85ebca6bu;
	x ^= x >> 13;
	x *= 0xc2b2ae35u;
	return x ^ (x >> 16);
}

static uint32_t key_of(const struct bench_case *this, unsigned rank)
{
	return mix(mix(this->seed + 0x9e3779b9u) + rank);
}

/* An element's bits: for floats sign, one of eight exponents below 1, mantissa. */
static inline uint32_t element_bits(enum sml_type type, uint32_t random)
{
	uint32_t sign = random >> 31, binade = random & 7, mantissa = random >> 8;

	switch (type) {
	case SML_FLOAT32:
		return sign << 31 | (126 - binade) << 23 | (mantissa & 0x7fffff);
	case SML_FLOAT16:
		return sign << 15 | (14 - binade) << 10 | (mantissa & 0x3ff);
	case SML_BFLOAT16:
		return sign << 15 | (126 - binade) << 7 | (mantissa & 0x7f);
	case SML_INT32:
	case SML_BYTE:
		break;
	}
	return random;
}

static double float32_value(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return (double)value;
}

static double float16_value(uint32_t bits)
{
	int exponent = bits >> 10 & 31;
	double mantissa = bits & 0x3ff;
	double value;

	if (exponent == 31)
		value = mantissa > 0 ? (double)NAN : (double)INFINITY;
	else if (exponent == 0)
		value = ldexp(mantissa, -24);
	else
		value = ldexp(mantissa + 1024, exponent - 25);
	return bits >> 15 & 1 ? -value : value;
}

static double value_of(enum sml_type type, uint32_t bits)
{
	switch (type) {
	case SML_FLOAT32:
		return float32_value(bits);
	case SML_FLOAT16:
		return float16_value(bits);
	case SML_BFLOAT16:
		return float32_value(bits << 16);
	case SML_INT32:
	case SML_BYTE:
		break;
	}
	return (double)(int32_t)bits;
}

static uint32_t load(enum sml_type type, const void *elements, size_t i)
{
	if (sml_type_size(type) == 4)
		return ((const uint32_t *)elements)[i];
	return ((const uint16_t *)elements)[i];
}

void bench_fill(const struct bench_case *this, unsigned rank, void *elements)
{
	enum sml_type type = this->type;
	uint32_t key = key_of(this, rank);
	uint32_t *words = elements;
	uint16_t *halves = elements;

	if (sml_type_size(type) == 4) {
		for (size_t i = 0; i < this->count; i++)
			words[i] = element_bits(type, mix((uint32_t)i + key));
	} else {
		for (size_t i = 0; i < this->count; i++)
			halves[i] = (uint16_t)element_bits(type, mix((uint32_t)i + key));
	}
}

/* expected[i] = the combination over all ranks of element first + i, before rounding. */
static void combine(const struct bench_case *this, size_t first, size_t n, double *expected)
{
	for (unsigned rank = 0; rank < this->n_ranks; rank++) {
		uint32_t key = key_of(this, rank);

		for (size_t i = 0; i < n; i++) {
			uint32_t random = mix((uint32_t)(first + i) + key);
			double value = value_of(this->type, element_bits(this->type, random));

			if (rank == 0)
				expected[i] = value;
			else if (this->op == SML_MAX)
				expected[i] = value > expected[i] ? value : expected[i];
			else if (this->op == SML_MIN)
				expected[i] = value < expected[i] ? value : expected[i];
			else
				expected[i] += value;
		}
	}
}

/* Sums of int32 are exact in a double (64 of them need 37 bits), and then wrap. */
static double finish(const struct bench_case *this, double sum)
{
	if (this->op == SML_MAX || this->op == SML_MIN)
		return sum;
	if (this->type == SML_INT32)
		sum = (double)(int32_t)(uint32_t)(int64_t)sum;
	if (this->op == SML_AVG)
		sum /= this->n_ranks;
	return this->type == SML_INT32 ? trunc(sum) : sum;
}

/* Half a unit in the last place of a value near 1: what rounding to a type costs. */
static double rounding_of(enum sml_type type)
{
	if (type == SML_FLOAT16)
		return 0x1p-11;
	return type == SML_BFLOAT16 ? 0x1p-8 : 0x1p-24;
}

/*
 * docs/numbers.md: each rank's element is rounded to a multiple of 2^(E - B), so
 * the sum of n is off by at most n 2^(E - B - 1), here with E = 0. With int16,
 * what would round up to 2^E stays one unit below, so an element may be off by a
 * whole unit. Then the sum is rounded to float32, and to the tensor's type.
 */
static double bound_of(const struct bench_case *this)
{
	int headroom = (int)ceil(log2(this->n_ranks));
	bool narrow = this->wire == SML_WIRE_INT16;
	int bits = (narrow ? 15 : 31) - headroom;

	if (this->type == SML_INT32 || this->op == SML_MAX || this->op == SML_MIN)
		return 0;
	/* Sums stay below n, and each of n - 1 additions rounds to 24 bits. */
	if (this->float_sums)
		return (this->n_ranks - 1) * this->n_ranks * 0x1p-24;
	return ldexp(this->op == SML_AVG ? 1 : this->n_ranks, narrow ? -bits : -bits - 1);
}

static bool is_wrong(const struct bench_case *this, double expected, double got, double bound)
{
	double allowed;

	if (bound == 0)
		return got != expected;
	allowed = bound + (fabs(expected) + bound) * (rounding_of(this->type) + 0x1p-23);
	if (this->type == SML_FLOAT16)
		allowed += 0x1p-25; /* subnormal results */
	return !(fabs(got - expected) <= allowed);
}

uint64_t bench_count_wrong(const struct bench_case *this, const void *result)
{
	static double expected[BLOCK];
	double bound = bound_of(this);
	uint64_t wrong = 0;

	for (size_t first = 0; first < this->count; first += BLOCK) {
		size_t n = this->count - first < BLOCK ? this->count - first : BLOCK;

		combine(this, first, n, expected);
		for (size_t i = 0; i < n; i++) {
			double got = value_of(this->type, load(this->type, result, first + i));

			wrong += is_wrong(this, finish(this, expected[i]), got, bound);
		}
	}
	return wrong;
}

uint64_t bench_hash(const struct bench_case *this, const void *result)
{
	uint64_t hash = this->count;

	for (size_t i = 0; i < this->count; i++)
		hash += mix(load(this->type, result, i) ^ mix((uint32_t)i));
	return hash;
}
