/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long numbers: sums of any floats without an error, which are rounded once, to the nearest element
 * of a type, ties to even. All of it is integer arithmetic, so the machine's rounding mode and its
 * handling of subnormals do not matter. No infinities and NaN here.
 */
#ifndef SML_CORE_SUM_H
#define SML_CORE_SUM_H

#include "core/base.h"
#include "switchml.h"

/*
 * A type's finite elements are integer multiples of its smallest subnormal. The bit of the smallest
 * subnormal is at position 0. The last bit of an element whose exponent field is e > 0 is at
 * position e - 1.
 */
struct sml_format {
	unsigned bytes;
	unsigned fraction_bits; /* below the leading one */
	uint32_t last_field;	/* exponent field of infinities and NaN */
	int32_t lowest;		/* position 0 is 2^lowest */
};

struct sml_format sml_format_of(enum sml_type type);

/* The only NaN that we write. */
static inline uint64_t sml_format_nan(const struct sml_format *format)
{
	return (2 * (uint64_t)format->last_field + 1) << (format->fraction_bits - 1);
}

/* An infinity or NaN? */
static inline bool sml_format_is_special(const struct sml_format *format, uint64_t bits)
{
	return (bits >> format->fraction_bits & format->last_field) == format->last_field;
}

/*
 * Round a number whose leading one is bit 63 of `bits`, and is at `position` of the type. more:
 * there are ones below those 64 bits.
 */
uint64_t sml_format_round(const struct sml_format *format, bool negative, uint64_t bits,
			  int32_t position, bool more);

/* For float64, whose highest bit is at position 2097, and 4,096 ranks. Digit 0 is below position 0.
 */
#define SML_SUM_DIGITS 68

/* A long number in digits of 32 bits. Each digit has room for carries and signs. */
struct sml_sum {
	int64_t digits[SML_SUM_DIGITS];
	unsigned low, high; /* only digits in this range (both ends included) may be nonzero */
};

static inline void sml_sum_clear(struct sml_sum *sum)
{
	__builtin_memset(sum, 0, sizeof(*sum));
	sum->low = SML_SUM_DIGITS - 1;
}

/* Add an element. At most 2^30 of them, or as many stored sums. */
void sml_sum_add(struct sml_sum *sum, const struct sml_format *format, uint64_t bits);
/* Add a multiple of the type's smallest subnormal. */
void sml_sum_add_double(struct sml_sum *sum, const struct sml_format *format, double value);

/* The sum, divided and rounded once. It is +0 if it is zero. The sum is lost. */
uint64_t sml_sum_round(struct sml_sum *sum, const struct sml_format *format, unsigned divisor);

/* Sums of 32 bits and less, where they wait for more elements: 2^320 is above those of 2^12. */
#define SML_SUM_WORDS 10

/* Add a stored sum, and store one. */
void sml_sum_load(struct sml_sum *sum, const uint32_t words[SML_SUM_WORDS]);
void sml_sum_store(struct sml_sum *sum, uint32_t words[SML_SUM_WORDS]);

#endif
