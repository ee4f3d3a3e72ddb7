/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inputs of `switchml bench`, and their expected results. Every rank can compute every other
 * rank's input from seed, rank and index, so each rank checks its results independently, without
 * the code under test: integers exactly, floats in long double, against the bounds of
 * docs/internals/numbers.md.
 *
 * Float inputs are random in sign and mantissa and lie in +-[2^-8, 1): the shared exponent of
 * docs/internals/numbers.md is at most 0, which gives the bounds below.
 */
#include <math.h>
#include <string.h>

#include "cmd/bench/bench.h"
#include "core/element.h"
#include "core/names.h"
#include "core/wide.h"

/* Elements that are checked at a time: the sums of a block stay in the cache. */
#define BLOCK 2048

const char *bench_type_name(enum sml_type type)
{
	/* As nccl-tests has them. */
	if (type == SML_FLOAT64)
		return "double";
	return type == SML_FLOAT32 ? "float" : type == SML_FLOAT16 ? "half" : sml_type_name(type);
}

bool bench_type_has_op(enum sml_type type, enum sml_op op)
{
	return type != SML_BYTE && !(type == SML_BOOL && op == SML_AVG);
}

static bool is_float(enum sml_type type)
{
	return type == SML_FLOAT32 || type == SML_FLOAT16 || type == SML_BFLOAT16 ||
	       type == SML_FLOAT64;
}

/* murmur3's finalizer: a different number for each index, with all bits equally random. */
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
	return mix(mix(this->seed + 0x9e3779b9u) + (this->members ? this->members[rank] : rank));
}

/* Both halves are random; types of up to 32 bits look at the lower one. */
static inline uint64_t random_of(uint32_t key, size_t i, enum sml_type type)
{
	uint32_t low = mix((uint32_t)i + key);

	return type == SML_FLOAT64 || type == SML_INT64
		       ? (uint64_t)mix(low ^ 0x5bd1e995u) << 32 | low
		       : low;
}

/* An element's bits: for floats sign, one of eight exponents below 1, mantissa. */
static inline uint64_t element_bits(enum sml_type type, uint64_t random)
{
	uint64_t binade = random & 7;
	uint32_t half = (uint32_t)random, sign = half >> 31, mantissa = half >> 8;

	switch (type) {
	case SML_FLOAT32:
		return sign << 31 | (126 - (uint32_t)binade) << 23 | (mantissa & 0x7fffff);
	case SML_FLOAT16:
		return sign << 15 | (14 - (uint32_t)binade) << 10 | (mantissa & 0x3ff);
	case SML_BFLOAT16:
		return sign << 15 | (126 - (uint32_t)binade) << 7 | (mantissa & 0x7f);
	case SML_FLOAT64:
		return (random >> 63 << 63) | (1022 - binade) << 52 |
		       (random >> 8 & 0xfffffffffffffu);
	case SML_BOOL:
		return random >> 5 & 1;
	case SML_INT32:
	case SML_BYTE:
	case SML_INT64:
	case SML_UINT8:
	case SML_INT8:
	case SML_INT16:
		break;
	}
	return random;
}

/* For elements of this many bytes. */
static inline uint64_t load(size_t bytes, const void *elements, size_t i)
{
	switch (bytes) {
	case 8:
		return ((const sml_any_u64 *)elements)[i];
	case 4:
		return ((const sml_any_u32 *)elements)[i];
	case 2:
		return ((const sml_any_u16 *)elements)[i];
	default:
		return ((const uint8_t *)elements)[i];
	}
}

static inline void store(size_t bytes, void *elements, size_t i, uint64_t bits)
{
	switch (bytes) {
	case 8:
		((sml_any_u64 *)elements)[i] = bits;
		break;
	case 4:
		((sml_any_u32 *)elements)[i] = (uint32_t)bits;
		break;
	case 2:
		((sml_any_u16 *)elements)[i] = (uint16_t)bits;
		break;
	default:
		((uint8_t *)elements)[i] = (uint8_t)bits;
	}
}

static inline __attribute__((always_inline)) void fill(enum sml_type type, size_t bytes,
						       uint32_t key, size_t count, void *elements)
{
	for (size_t i = 0; i < count; i++)
		store(bytes, elements, i, element_bits(type, random_of(key, i, type)));
}

void bench_fill(const struct bench_case *this, unsigned rank, void *elements)
{
	uint32_t key = key_of(this, rank);

	/* With the usual type as a constant, no element asks for its type: half the instructions.
	 */
	if (this->type == SML_FLOAT32)
		fill(SML_FLOAT32, sizeof(float), key, this->count, elements);
	else
		fill(this->type, sml_type_size(this->type), key, this->count, elements);
}

/* ---- integers: exact ---- */

/* The value of the type, widened. */
static int64_t integer_of(enum sml_type type, uint64_t bits)
{
	switch (type) {
	case SML_INT64:
		return (int64_t)bits;
	case SML_INT16:
		return (int16_t)bits;
	case SML_INT8:
		return (int8_t)bits;
	case SML_UINT8:
		return (uint8_t)bits;
	case SML_BOOL:
		return bits != 0;
	default:
		return (int32_t)bits;
	}
}

/* Rank 0's element, and then each other rank's; sums wrap at 64 bits. */
static int64_t join_integers(enum sml_op op, int64_t a, int64_t b)
{
	if (op == SML_MAX)
		return a > b ? a : b;
	if (op == SML_MIN)
		return a < b ? a : b;
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* int32 and int64 are divided after they have wrapped; the others' sums do not wrap before. */
static int64_t finish_integer(const struct bench_case *this, int64_t sum)
{
	if (this->type == SML_INT32)
		sum = (int32_t)sum;
	if (this->op == SML_AVG && this->n_ranks > 1)
		sum /= (int64_t)this->n_ranks;
	return integer_of(this->type, (uint64_t)sum);
}

static uint64_t count_wrong_integers(const struct bench_case *this, size_t first, size_t n,
				     const void *result)
{
	static int64_t expected[BLOCK];
	size_t bytes = sml_type_size(this->type);
	uint64_t wrong = 0;

	for (unsigned rank = 0; rank < this->n_ranks; rank++) {
		uint32_t key = key_of(this, rank);

		for (size_t i = 0; i < n; i++) {
			uint64_t random = random_of(key, this->first + first + i, this->type);
			int64_t value = integer_of(this->type, element_bits(this->type, random));

			expected[i] =
				rank == 0 ? value : join_integers(this->op, expected[i], value);
		}
	}
	for (size_t i = 0; i < n; i++)
		wrong += integer_of(this->type, load(bytes, result, first + i)) !=
			 finish_integer(this, expected[i]);
	return wrong;
}

/* ---- floats: within a bound ---- */

static long double float16_value(uint32_t bits)
{
	int exponent = bits >> 10 & 31;
	long double mantissa = bits & 0x3ff;
	long double value;

	if (exponent == 31)
		value = mantissa > 0 ? (long double)NAN : (long double)INFINITY;
	else if (exponent == 0)
		value = ldexpl(mantissa, -24);
	else
		value = ldexpl(mantissa + 1024, exponent - 25);
	return bits >> 15 & 1 ? -value : value;
}

static long double value_of(enum sml_type type, uint64_t bits)
{
	uint32_t word = (uint32_t)bits;
	float single;
	double wide;

	if (type == SML_FLOAT64) {
		memcpy(&wide, &bits, sizeof(wide));
		return (long double)wide;
	}
	if (type == SML_FLOAT16)
		return float16_value(word);
	if (type == SML_BFLOAT16)
		word <<= 16;
	memcpy(&single, &word, sizeof(single));
	return (long double)single;
}

/* expected[i] = the combination over all ranks of element first + i, before rounding. */
static void combine_floats(const struct bench_case *this, size_t first, size_t n,
			   long double *expected)
{
	for (unsigned rank = 0; rank < this->n_ranks; rank++) {
		uint32_t key = key_of(this, rank);

		for (size_t i = 0; i < n; i++) {
			uint64_t random = random_of(key, this->first + first + i, this->type);
			long double value = value_of(this->type, element_bits(this->type, random));

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

/* Half a unit in the last place of a value near 1: the error of rounding to a type. */
static long double rounding_of(enum sml_type type)
{
	if (type == SML_FLOAT16)
		return 0x1p-11L;
	if (type == SML_FLOAT64)
		return 0x1p-53L;
	return type == SML_BFLOAT16 ? 0x1p-8L : 0x1p-24L;
}

/*
 * On the exact wire, only what is expected has an error, n 2^-64 where a long double has 64 bits.
 * But leaves and hosts of several ranks round floats of up to 32 bits on their way up, at most
 * three times, and together at most n.
 */
static long double exact_bound_of(const struct bench_case *this)
{
	long double n = this->n_ranks, partial = 3 * rounding_of(this->type);

	if (this->type == SML_FLOAT64)
		partial = 0;
	return n * n * 0x1p-64L + (this->op == SML_AVG ? 1 : n) * partial;
}

/*
 * docs/internals/numbers.md: each rank's element is rounded to a multiple of 2^(E - B), so the sum
 * of n is off by at most n 2^(E - B - 1), here with E = 0. If B is small for the type, a value that
 * would round up to 2^E stays one unit below, so an element may be off by a whole unit. Then the
 * sum is rounded to float32, and to the tensor's type.
 *
 * On the int16 wire, B is 15 where switches round. The ranks' errors are at most n units then. The
 * switches of each level, and the hosts, round their sums by at most twice as many together. There
 * are at most three levels. Where switches do not round, B is 15 less log2 n. On the int8 wire, B
 * is 7, and all switches round.
 *
 * Elements of float64 on its own wire are exact multiples of 2^-63 here, so their sum is exact
 * where its limbs have 63 bits.
 */
static long double integer_bound_of(const struct bench_case *this)
{
	int headroom = (int)ceil(log2(this->n_ranks));
	long double n = this->n_ranks;
	bool int8 = this->wire == SML_WIRE_INT8;
	bool narrow = int8 || this->wire == SML_WIRE_INT16 ||
		      ((this->type == SML_BFLOAT16 || this->type == SML_FLOAT16) &&
		       this->wire == SML_WIRE_DEFAULT);
	bool limbs = this->type == SML_FLOAT64 && this->wire == SML_WIRE_DEFAULT;
	int bits = limbs ? sml_limb_bits(this->n_ranks) : (narrow ? 15 : 31) - headroom;
	bool units = narrow || this->type == SML_FLOAT64;

	if (limbs && bits == 63)
		return exact_bound_of(this);
	if (int8 || (narrow && headroom < 4))
		return ldexpl(this->op == SML_AVG ? 9 : 9 * n, int8 ? -7 : -15);
	return ldexpl(this->op == SML_AVG ? 1 : n, units ? -bits : -bits - 1);
}

/* Which wire is the default is the switches' affair: the larger bound. */
static long double bound_of(const struct bench_case *this)
{
	long double n = this->n_ranks, exact = exact_bound_of(this), integer;

	if (this->op == SML_MAX || this->op == SML_MIN)
		return 0;
	if (this->float_sums)
		return (n - 1) * n * rounding_of(this->type);
	if (this->wire == SML_WIRE_EXACT)
		return exact;
	integer = integer_bound_of(this);
	return this->wire == SML_WIRE_DEFAULT && exact > integer ? exact : integer;
}

static bool is_wrong(const struct bench_case *this, long double expected, long double got,
		     long double bound)
{
	long double again = this->type == SML_FLOAT64 ? 0x1p-53L : 0x1p-23L;
	long double allowed;

	if (bound == 0)
		return got != expected;
	/* SUM of float64 is rounded once, and so is all on the exact wire; else once more. */
	if ((this->type == SML_FLOAT64 && this->op == SML_SUM) || this->wire == SML_WIRE_EXACT)
		again = 0;
	allowed = bound + (fabsl(expected) + bound) * (rounding_of(this->type) + again);
	if (this->type == SML_FLOAT16)
		allowed += 0x1p-25L; /* subnormal results */
	return !(fabsl(got - expected) <= allowed);
}

static uint64_t count_wrong_floats(const struct bench_case *this, size_t first, size_t n,
				   const void *result)
{
	static long double expected[BLOCK];
	long double bound = bound_of(this);
	size_t bytes = sml_type_size(this->type);
	uint64_t wrong = 0;

	combine_floats(this, first, n, expected);
	for (size_t i = 0; i < n; i++) {
		long double got = value_of(this->type, load(bytes, result, first + i));

		wrong += is_wrong(this,
				  this->op == SML_AVG ? expected[i] / this->n_ranks : expected[i],
				  got, bound);
	}
	return wrong;
}

uint64_t bench_count_wrong(const struct bench_case *this, const void *result)
{
	uint64_t wrong = 0;

	for (size_t first = 0; first < this->count; first += BLOCK) {
		size_t n = this->count - first < BLOCK ? this->count - first : BLOCK;

		wrong += (is_float(this->type) ? count_wrong_floats
					       : count_wrong_integers)(this, first, n, result);
	}
	return wrong;
}

uint64_t bench_count_unlike(const struct bench_case *this, unsigned rank, const void *elements)
{
	size_t bytes = sml_type_size(this->type);
	uint64_t mask = bytes == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * bytes) - 1, wrong = 0;
	uint32_t key = key_of(this, rank);

	for (size_t i = 0; i < this->count; i++) {
		uint64_t expected = element_bits(this->type, random_of(key, i, this->type));

		wrong += load(bytes, elements, i) != (expected & mask);
	}
	return wrong;
}

uint64_t bench_hash(const struct bench_case *this, const void *result)
{
	size_t bytes = sml_type_size(this->type);
	uint64_t hash = this->count;

	for (size_t i = 0; i < this->count; i++) {
		uint64_t bits = load(bytes, result, i);

		hash += mix((uint32_t)bits ^ mix((uint32_t)(bits >> 32) ^ mix((uint32_t)i)));
	}
	return hash;
}
