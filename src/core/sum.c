/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/sum.h"

#define DIGIT_BITS  32
#define DIGIT_MASK  UINT32_MAX
#define MORE_DIGITS 3 /* bits of a quotient below those of the sum: a little over 64 are enough */

struct sml_format sml_format_of(enum sml_type type)
{
	switch (type) {
	case SML_FLOAT64:
		return (struct sml_format){8, 52, 2047, -1074};
	case SML_FLOAT16:
		return (struct sml_format){2, 10, 31, -24};
	case SML_BFLOAT16:
		return (struct sml_format){2, 7, 255, -133};
	default:
		return (struct sml_format){4, 23, 255, -149};
	}
}

/* ---- rounding ---- */

static uint64_t round_magnitude(const struct sml_format *format, uint64_t bits, int32_t position,
				bool more)
{
	int32_t last = position - (int32_t)format->fraction_bits;
	uint64_t infinity = (uint64_t)format->last_field << format->fraction_bits;
	uint64_t rounded = 0, half, below;
	int32_t drop;

	if (last < 0)
		last = 0; /* a subnormal */
	drop = 63 - position + last;
	if (drop > 64)
		return 0; /* less than half of the smallest subnormal */
	if (drop < 64)
		rounded = bits >> drop;
	half = bits >> (drop - 1) & 1;
	below = bits << (65 - drop);
	rounded += half & (uint64_t)(below != 0 || more || (rounded & 1));
	/* A carry out of the fraction goes into the exponent, which is correct. */
	rounded += (uint64_t)last << format->fraction_bits;
	return rounded < infinity ? rounded : infinity;
}

uint64_t sml_format_round(const struct sml_format *format, bool negative, uint64_t bits,
			  int32_t position, bool more)
{
	return round_magnitude(format, bits, position, more) | (uint64_t)negative
								       << (8 * format->bytes - 1);
}

/* ---- adding ---- */

/* mantissa has at most 53 bits, and its last one is at `position`. */
static void add(struct sml_sum *sum, bool negative, uint64_t mantissa, uint32_t position)
{
	unsigned first = position / DIGIT_BITS + 1, shift = position % DIGIT_BITS;
	int64_t sign = negative ? -1 : 1;

	if (mantissa == 0)
		return;
	sum->digits[first] += sign * (int64_t)((mantissa << shift) & DIGIT_MASK);
	mantissa >>= DIGIT_BITS - shift;
	sum->digits[first + 1] += sign * (int64_t)(mantissa & DIGIT_MASK);
	sum->digits[first + 2] += sign * (int64_t)(mantissa >> DIGIT_BITS);
	sum->low = first < sum->low ? first : sum->low;
	sum->high = first + 2 > sum->high ? first + 2 : sum->high;
}

void sml_sum_add(struct sml_sum *sum, const struct sml_format *format, uint64_t bits)
{
	uint32_t field = (uint32_t)(bits >> format->fraction_bits) & format->last_field;
	uint64_t one = (uint64_t)1 << format->fraction_bits, mantissa = bits & (one - 1);
	bool negative = bits >> (8 * format->bytes - 1);

	if (field > 0)
		add(sum, negative, mantissa | one, field - 1);
	else
		add(sum, negative, mantissa, 0);
}

void sml_sum_add_double(struct sml_sum *sum, const struct sml_format *format, double value)
{
	const struct sml_format wide = sml_format_of(SML_FLOAT64);
	uint64_t bits, mantissa;
	int32_t position;

	__builtin_memcpy(&bits, &value, sizeof(bits));
	mantissa = (bits & 0xfffffffffffffu) | (uint64_t)1 << wide.fraction_bits;
	position = (int32_t)(bits >> wide.fraction_bits & wide.last_field) - 1 + wide.lowest -
		   format->lowest;
	if (bits << 1 == 0)
		return;
	/* Only zeros are below the smallest subnormal. */
	if (position < 0)
		mantissa >>= -position;
	add(sum, bits >> 63, mantissa, position < 0 ? 0 : (uint32_t)position);
}

/* Bring all digits into [0, 2^32). Returns what is above them, which is negative if the sum is. */
static int64_t carry_digits(struct sml_sum *sum)
{
	int64_t carry = 0;

	for (unsigned i = sum->low; i <= sum->high; i++) {
		carry += sum->digits[i];
		sum->digits[i] = carry & DIGIT_MASK;
		carry >>= DIGIT_BITS;
	}
	return carry;
}

/* As above, of the absolute value. True: the sum was negative. */
static bool normalize(struct sml_sum *sum)
{
	bool negative = carry_digits(sum) < 0;
	int64_t carry = 1;

	for (unsigned i = sum->low; negative && i <= sum->high; i++) {
		carry += ~sum->digits[i] & DIGIT_MASK;
		sum->digits[i] = carry & DIGIT_MASK;
		carry >>= DIGIT_BITS;
	}
	return negative;
}

/* Returns true if there is a remainder. */
static bool divide(struct sml_sum *sum, unsigned divisor)
{
	uint64_t rest = 0;

	sum->low = sum->low > MORE_DIGITS ? sum->low - MORE_DIGITS : 0;
	for (unsigned i = sum->high + 1; i-- > sum->low;) {
		rest = rest << DIGIT_BITS | (uint64_t)sum->digits[i];
		sum->digits[i] = (int64_t)(rest / divisor);
		rest %= divisor;
	}
	return rest != 0;
}

/* digits[i], or 0 below the first digit. */
static uint64_t digit(const struct sml_sum *sum, unsigned i)
{
	return i < SML_SUM_DIGITS ? (uint64_t)sum->digits[i] : 0;
}

static uint64_t round_digits(const struct sml_sum *sum, const struct sml_format *format,
			     bool negative, bool more)
{
	unsigned top = sum->high;
	unsigned lead;
	uint64_t bits;

	while (top > sum->low && sum->digits[top] == 0)
		top--;
	if (sum->digits[top] == 0)
		return 0;
	lead = (unsigned)__builtin_clzll((uint64_t)sum->digits[top]) - DIGIT_BITS;
	bits = digit(sum, top) << DIGIT_BITS | digit(sum, top - 1);
	bits = bits << lead | digit(sum, top - 2) >> (DIGIT_BITS - lead);
	more = more || (digit(sum, top - 2) << lead & DIGIT_MASK);
	for (unsigned i = sum->low; i + 2 < top; i++)
		more = more || sum->digits[i] != 0;
	return sml_format_round(format, negative, bits,
				(int32_t)(DIGIT_BITS * top + DIGIT_BITS - 1 - lead - DIGIT_BITS),
				more);
}

uint64_t sml_sum_round(struct sml_sum *sum, const struct sml_format *format, unsigned divisor)
{
	bool negative = normalize(sum), more = false;

	if (divisor > 1)
		more = divide(sum, divisor);
	return round_digits(sum, format, negative, more);
}

/* ---- storing ---- */

/* Digit 0 stays free, as everywhere. The last word has the sign. */
void sml_sum_load(struct sml_sum *sum, const uint32_t words[SML_SUM_WORDS])
{
	for (unsigned i = 0; i < SML_SUM_WORDS; i++)
		sum->digits[1 + i] += words[i];
	sum->digits[SML_SUM_WORDS] -= (int64_t)(words[SML_SUM_WORDS - 1] >> 31) << DIGIT_BITS;
	sum->low = 1;
	sum->high = sum->high > SML_SUM_WORDS ? sum->high : SML_SUM_WORDS;
}

void sml_sum_store(struct sml_sum *sum, uint32_t words[SML_SUM_WORDS])
{
	sum->low = 1;
	sum->high = sum->high > SML_SUM_WORDS ? sum->high : SML_SUM_WORDS;
	(void)carry_digits(sum);
	for (unsigned i = 0; i < SML_SUM_WORDS; i++)
		words[i] = (uint32_t)sum->digits[1 + i];
}
