/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exact sums: see gather.h. All rounding uses integer arithmetic. Doubles are used only for
 * additions that are checked to be exact, and only for numbers that are not subnormal
 * doubles. So the CPU's rounding mode and its handling of subnormals do not matter.
 */
#include "core/gather.h"

#include "core/element.h"
#include "core/sum.h"
#include "core/wire.h"

/* Lanes are aligned to 4 bytes only. */
typedef uint64_t __attribute__((may_alias, aligned(4))) any_u64;

/* ---- parts ---- */

uint32_t sml_gather_lanes(enum sml_type type, uint32_t count)
{
	return (count * sml_format_of(type).bytes + 3) / 4;
}

uint32_t sml_gather_capacity(enum sml_type type, uint32_t lanes, unsigned n_ranks)
{
	sml_assert(n_ranks >= 1);
	return lanes / n_ranks * 4 / sml_format_of(type).bytes;
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
	unsigned bytes = sml_format_of(type).bytes;

	for (uint32_t i = 0; i < count; i++)
		store(bytes, lanes, i, swap(bytes, load(bytes, elements, i)));
	if (bytes == 2 && count % 2)
		store(bytes, lanes, count, 0);
}

/* ---- sums that a double holds ---- */

static bool is_subnormal(const struct sml_format *format, uint64_t bits)
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
static uint64_t round_double(const struct sml_format *format, double sum, unsigned divisor)
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
	return sml_format_round(format, negative, bits / divisor << lead, position + 63 - lead,
				bits % divisor != 0);
}

/* ---- both ---- */

/* One element of every rank; elements are `stride` bytes apart. */
struct column {
	enum sml_type type;
	struct sml_format format;
	const uint8_t *parts;
	size_t stride;
	unsigned n_ranks;
};

static uint64_t element_of(const struct column *column, unsigned rank, size_t i)
{
	unsigned bytes = column->format.bytes;

	return swap(bytes, load(bytes, column->parts + rank * column->stride, i));
}

/* An infinity, or NaN, if there is one. It is the sum; infinities of both signs have none. */
static bool find_special(const struct column *column, size_t i, uint64_t *special)
{
	const uint64_t nan = sml_format_nan(&column->format);
	bool found = false;

	*special = 0;
	for (unsigned rank = 0; rank < column->n_ranks; rank++) {
		uint64_t bits = element_of(column, rank, i);

		if (!sml_format_is_special(&column->format, bits))
			continue;
		if ((found && bits != *special) || bits << (64 - column->format.fraction_bits) != 0)
			bits = nan;
		*special = bits;
		found = true;
	}
	return found;
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
	struct sml_sum sum;

	sml_sum_clear(&sum);
	for (unsigned rank = 0; rank < column->n_ranks; rank++)
		sml_sum_add(&sum, &column->format, element_of(column, rank, i));
	return sml_sum_round(&sum, &column->format, divisor);
}

/* The only sum that is -0. */
static bool are_negative_zeros(const struct column *column, size_t i)
{
	const uint64_t zero = (uint64_t)1 << (8 * column->format.bytes - 1);
	unsigned rank = 0;

	while (rank < column->n_ranks && element_of(column, rank, i) == zero)
		rank++;
	return rank == column->n_ranks;
}

static uint64_t reduce(const struct column *column, size_t i, unsigned divisor)
{
	uint64_t result;
	double sum;

	if (find_special(column, i, &result))
		return result;
	if (sum_in_double(column, i, &sum))
		result = round_double(&column->format, sum, divisor);
	else
		result = sum_in_digits(column, i, divisor);
	if (result == 0 && are_negative_zeros(column, i))
		return (uint64_t)1 << (8 * column->format.bytes - 1);
	return result;
}

void sml_gather_reduce(enum sml_type type, const void *lanes, uint32_t count, unsigned n_ranks,
		       unsigned divisor, void *elements)
{
	struct column column = {
		.type = type,
		.format = sml_format_of(type),
		.parts = lanes,
		.stride = (size_t)4 * sml_gather_lanes(type, count),
		.n_ranks = n_ranks,
	};

	sml_assert(n_ranks >= 1 && n_ranks <= SML_MAX_WORLD);
	sml_assert(divisor >= 1 && divisor <= SML_MAX_WORLD);
	for (size_t i = 0; i < count; i++)
		store(column.format.bytes, elements, i, reduce(&column, i, divisor));
}
