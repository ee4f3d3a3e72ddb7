/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exact sums: see gather.h. All rounding uses integer arithmetic. Doubles are used only for
 * additions that are checked to be exact, and only for numbers that are not subnormal
 * doubles. So the CPU's rounding mode and its handling of subnormals do not matter.
 */
#include "core/gather.h"

#include "core/element.h"
#include "core/wire.h"

/* Lanes are aligned to 4 bytes only. */
typedef uint64_t __attribute__((may_alias, aligned(4))) any_u64;

/*
 * A type's finite elements are integer multiples of its smallest subnormal. The bit of the
 * smallest subnormal is at position 0. The last bit of an element whose exponent field is e
 * > 0 is at position e - 1.
 */
struct format {
	unsigned bytes;
	unsigned fraction_bits; /* below the leading one */
	uint32_t last_field;	/* exponent field of infinities and NaN */
	int32_t lowest;		/* position 0 is 2^lowest */
};

static struct format format_of(enum sml_type type)
{
	switch (type) {
	case SML_FLOAT64:
		return (struct format){8, 52, 2047, -1074};
	case SML_FLOAT16:
		return (struct format){2, 10, 31, -24};
	case SML_BFLOAT16:
		return (struct format){2, 7, 255, -133};
	default:
		return (struct format){4, 23, 255, -149};
	}
}

/* ---- parts ---- */

uint32_t sml_gather_lanes(enum sml_type type, uint32_t count)
{
	return (count * format_of(type).bytes + 3) / 4;
}

uint32_t sml_gather_capacity(enum sml_type type, uint32_t lanes, unsigned n_ranks)
{
	sml_assert(n_ranks >= 1);
	return lanes / n_ranks * 4 / format_of(type).bytes;
}

static uint64_t load(unsigned bytes, const void *elements, size_t i)
{
	if (bytes == 8)
		return ((const any_u64 *)elements)[i];
	if (bytes == 4)
		return ((const sml_any_u32 *)elements)[i];
	return ((const sml_any_u16 *)elements)[i];
}

static void store(unsigned bytes, void *elements, size_t i, uint64_t bits)
{
	if (bytes == 8)
		((any_u64 *)elements)[i] = bits;
	else if (bytes == 4)
		((sml_any_u32 *)elements)[i] = (uint32_t)bits;
	else
		((sml_any_u16 *)elements)[i] = (uint16_t)bits;
}

/* Convert to big-endian order and back. */
static uint64_t swap(unsigned bytes, uint64_t bits)
{
	if (bytes == 8)
		return sml_be64(bits);
	return bytes == 4 ? sml_be32((uint32_t)bits) : sml_be16((uint16_t)bits);
}

void sml_gather_encode(enum sml_type type, const void *elements, uint32_t count, void *lanes)
{
	unsigned bytes = format_of(type).bytes;

	for (uint32_t i = 0; i < count; i++)
		store(bytes, lanes, i, swap(bytes, load(bytes, elements, i)));
	if (bytes == 2 && count % 2)
		store(bytes, lanes, count, 0);
}

/* ---- rounding ---- */

/*
 * Round to the nearest element of the type, ties to even. The number's leading one is bit 63
 * of `bits`, and it is at `position` of the type. more: there are ones below those 64 bits.
 */
static uint64_t round_once(const struct format *format, uint64_t bits, int32_t position, bool more)
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

/* Zero is +0, even if the number was rounded to zero. */
static uint64_t signed_bits(const struct format *format, bool negative, uint64_t bits)
{
	return bits ? bits | (uint64_t)negative << (8 * format->bytes - 1) : 0;
}

/* ---- sums of any elements ---- */

/* For float64, whose highest bit is at position 2097, and 4,096 ranks. Digit 0 is below position 0.
 */
#define DIGITS	    68
#define DIGIT_BITS  32
#define DIGIT_MASK  UINT32_MAX
#define MORE_DIGITS 3 /* bits of a quotient below those of the sum: a little over 64 are enough */

/* A long number in digits of 32 bits. Each digit has room for carries and signs. */
struct sum {
	int64_t digits[DIGITS];
	unsigned low, high; /* only digits in this range (both ends included) may be nonzero */
};

static void add(struct sum *sum, const struct format *format, uint64_t bits)
{
	uint32_t field = (uint32_t)(bits >> format->fraction_bits) & format->last_field;
	uint64_t mantissa = bits & (((uint64_t)1 << format->fraction_bits) - 1);
	int64_t sign = bits >> (8 * format->bytes - 1) ? -1 : 1;
	unsigned first, shift;

	if (field > 0)
		mantissa |= (uint64_t)1 << format->fraction_bits;
	else if (mantissa == 0)
		return;
	field = (field > 0 ? field - 1 : 0) + DIGIT_BITS;
	first = field / DIGIT_BITS;
	shift = field % DIGIT_BITS;
	sum->digits[first] += sign * (int64_t)((mantissa << shift) & DIGIT_MASK);
	mantissa >>= DIGIT_BITS - shift;
	sum->digits[first + 1] += sign * (int64_t)(mantissa & DIGIT_MASK);
	sum->digits[first + 2] += sign * (int64_t)(mantissa >> DIGIT_BITS);
	sum->low = first < sum->low ? first : sum->low;
	sum->high = first + 2 > sum->high ? first + 2 : sum->high;
}

/* Bring all digits into [0, 2^32). True: the sum was negative; its absolute value is stored. */
static bool normalize(struct sum *sum)
{
	int64_t carry = 0;
	bool negative;

	for (unsigned i = sum->low; i <= sum->high; i++) {
		carry += sum->digits[i];
		sum->digits[i] = carry & DIGIT_MASK;
		carry >>= DIGIT_BITS;
	}
	negative = carry < 0;
	carry = 1;
	for (unsigned i = sum->low; negative && i <= sum->high; i++) {
		carry += ~sum->digits[i] & DIGIT_MASK;
		sum->digits[i] = carry & DIGIT_MASK;
		carry >>= DIGIT_BITS;
	}
	return negative;
}

/* Returns true if there is a remainder. */
static bool divide(struct sum *sum, unsigned divisor)
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
static uint64_t digit(const struct sum *sum, unsigned i)
{
	return i < DIGITS ? (uint64_t)sum->digits[i] : 0;
}

static uint64_t round_digits(const struct sum *sum, const struct format *format, bool more)
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
	return round_once(format, bits,
			  (int32_t)(DIGIT_BITS * top + DIGIT_BITS - 1 - lead - DIGIT_BITS), more);
}

/* ---- sums that a double holds ---- */

static bool is_special(const struct format *format, uint64_t bits)
{
	return (bits >> format->fraction_bits & format->last_field) == format->last_field;
}

static bool is_subnormal(const struct format *format, uint64_t bits)
{
	return (bits >> format->fraction_bits & format->last_field) == 0 &&
	       bits << (65 - 8 * format->bytes) != 0;
}

static double widen(enum sml_type type, uint64_t bits)
{
	uint32_t word = (uint32_t)bits;

	if (type == SML_FLOAT16)
		word = sml_float16_widen(word);
	else if (type == SML_BFLOAT16)
		word <<= 16;
	return (double)sml_float_of(word);
}

/* Round an exact sum. */
static uint64_t round_double(const struct format *format, double sum, unsigned divisor)
{
	int32_t position;
	bool negative;
	uint64_t bits;
	int lead;

	__builtin_memcpy(&bits, &sum, sizeof(bits));
	negative = bits >> 63;
	if (bits << 1 == 0)
		return 0;
	/*
	 * The last of 53 bits is worth 2^(field - 1075). A quotient needs no more than ten more
	 * bits.
	 */
	position = (int32_t)(bits >> 52 & 2047) - 1075 - format->lowest - 10;
	bits = ((bits & 0xfffffffffffffu) | (uint64_t)1 << 52) << 10;
	lead = __builtin_clzll(bits / divisor);
	return signed_bits(format, negative,
			   round_once(format, bits / divisor << lead, position + 63 - lead,
				      bits % divisor != 0));
}

/* ---- both ---- */

/* One element of every rank; elements are `stride` bytes apart. */
struct column {
	enum sml_type type;
	struct format format;
	const uint8_t *parts;
	size_t stride;
	unsigned n_ranks;
};

static uint64_t element_of(const struct column *column, unsigned rank, size_t i)
{
	unsigned bytes = column->format.bytes;

	return swap(bytes, load(bytes, column->parts + rank * column->stride, i));
}

static bool has_special(const struct column *column, size_t i)
{
	bool special = false;

	for (unsigned rank = 0; rank < column->n_ranks; rank++)
		special |= is_special(&column->format, element_of(column, rank, i));
	return special;
}

/*
 * Compute the sum and check that every addition is exact: subtracting either summand must
 * leave the other one. If an addition is not exact, one of these differences shows it in any
 * rounding mode, because the difference to the larger summand is always exact.
 */
static bool sum_in_double(const struct column *column, size_t i, double *result)
{
	bool exact = column->type != SML_FLOAT64;
	double sum = 0;

	for (unsigned rank = 0; exact && rank < column->n_ranks; rank++) {
		uint64_t bits = element_of(column, rank, i);
		double value = widen(column->type, bits), before = sum;

		sum = before + value;
		exact = !is_subnormal(&column->format, bits) && sum - before == value &&
			sum - value == before;
	}
	*result = sum;
	return exact;
}

static uint64_t sum_in_digits(const struct column *column, size_t i, unsigned divisor)
{
	struct sum sum = {.low = DIGITS - 1};
	bool negative, more = false;

	for (unsigned rank = 0; rank < column->n_ranks; rank++)
		add(&sum, &column->format, element_of(column, rank, i));
	negative = normalize(&sum);
	if (divisor > 1)
		more = divide(&sum, divisor);
	return signed_bits(&column->format, negative, round_digits(&sum, &column->format, more));
}

static uint64_t not_a_number(const struct format *format)
{
	return (2 * (uint64_t)format->last_field + 1) << (format->fraction_bits - 1);
}

void sml_gather_reduce(enum sml_type type, const void *lanes, uint32_t count, unsigned n_ranks,
		       unsigned divisor, void *elements)
{
	struct column column = {
		.type = type,
		.format = format_of(type),
		.parts = lanes,
		.stride = (size_t)4 * sml_gather_lanes(type, count),
		.n_ranks = n_ranks,
	};

	sml_assert(n_ranks >= 1 && n_ranks <= SML_MAX_WORLD);
	sml_assert(divisor >= 1 && divisor <= n_ranks);
	for (size_t i = 0; i < count; i++) {
		uint64_t result;
		double sum;

		if (has_special(&column, i))
			result = not_a_number(&column.format);
		else if (sum_in_double(&column, i, &sum))
			result = round_double(&column.format, sum, divisor);
		else
			result = sum_in_digits(&column, i, divisor);
		store(column.format.bytes, elements, i, result);
	}
}
