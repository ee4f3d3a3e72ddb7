/* SPDX-License-Identifier: BSD-3-Clause */
/* Random tensors for tests of numbers. The seed comes from SML_TEST_SEED and is printed. */
#ifndef SML_TESTS_QUANTIZE_RANDOM_H
#define SML_TESTS_QUANTIZE_RANDOM_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/quantize_reference.h"

#define COUNT	  353 /* a usual chunk and one more */
#define MAX_RANKS 64  /* more need a tree, and have fewer bits each */

static const enum sml_type float_types[] = {SML_FLOAT32, SML_FLOAT16, SML_BFLOAT16};
static const unsigned rank_counts[] = {1, 2, 3, 5, 8, 17, 64};

#define FOR_EACH(index, array)                                                                     \
	for (size_t index = 0; index < sizeof(array) / sizeof((array)[0]); index++)

/* Randomness: splitmix64. */

static uint64_t random_state;

static inline uint64_t random_bits(void)
{
	uint64_t z = (random_state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static inline unsigned random_below(unsigned n)
{
	return (unsigned)(random_bits() % n);
}

/* Uniform in (-1, 1). */
static inline double random_unit(void)
{
	return ldexp((double)(random_bits() >> 11), -52) - 1;
}

static inline void seed_is_set(void)
{
	const char *text = getenv("SML_TEST_SEED");
	uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : 1;

	printf("SML_TEST_SEED=%" PRIu64 "\n", seed);
	random_state = seed;
}

enum kind {
	ORDINARY,  /* of one size, uniform */
	SPREAD,	   /* over many powers of two */
	PATTERNS,  /* every finite bit pattern equally likely */
	SUBNORMAL, /* the smallest */
	HUGE_ONES, /* near the largest */
	MOSTLY_ZERO /* zeros of both signs */,
	KINDS
};

static inline double largest_of_type(enum sml_type type)
{
	return type == SML_FLOAT64    ? 0x1.fffffffffffffp1023
	       : type == SML_FLOAT16  ? 65504
	       : type == SML_BFLOAT16 ? 0x1.fep127
				      : 0x1.fffffep127;
}

static inline void fill_random(enum sml_type type, enum kind kind, void *elements, size_t count)
{
	int smallest = type == SML_FLOAT64    ? -1074
		       : type == SML_FLOAT16  ? -24
		       : type == SML_BFLOAT16 ? -133
					      : -149;
	/* Sums of limbs are exact over few powers of two. */
	int lowest = type == SML_FLOAT64 && random_below(2) ? -100 : smallest;
	int range = lowest == -100 ? 200 : lowest == -1074 ? 2000 : type == SML_FLOAT16 ? 38 : 250;

	for (size_t i = 0; i < count; i++) {
		double value = random_unit();

		switch (kind) {
		case SPREAD:
			value = ldexp(value, lowest + (int)random_below((unsigned)range));
			break;
		case PATTERNS:
			do {
				uint64_t bits = random_bits();

				memcpy((char *)elements + ref_bytes(type) * i, &bits,
				       ref_bytes(type));
			} while (!isfinite(ref_load(type, elements, i)));
			continue;
		case SUBNORMAL:
			value = ldexp(value,
				      smallest + (type == SML_FLOAT64 ? (int)random_below(60) : 6));
			break;
		case HUGE_ONES:
			value = copysign(largest_of_type(type) * (1 - fabs(value) / 8), value);
			break;
		case MOSTLY_ZERO:
			value = random_below(8) == 0 ? value : copysign(0, value);
			break;
		case ORDINARY:
		case KINDS:
			break;
		}
		ref_store(type, elements, i, value);
	}
}

#endif
