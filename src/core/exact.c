/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/exact.h"

#include "core/element.h"
#include "core/modes.h"
#include "core/multiversion.h"

#define PORTION	 SML_EXACT_PORTION
#define NOINLINE __attribute__((noinline))

/* An element whose sum is in its words. No sum of elements has this NaN. */
#define IS_LONG 0x7ff8000000000001u

typedef double __attribute__((may_alias)) sum_t;

SML_INLINE uint64_t bits_of(double value)
{
	uint64_t bits;

	__builtin_memcpy(&bits, &value, sizeof(bits));
	return bits;
}

SML_INLINE double double_of(uint64_t bits)
{
	double value;

	__builtin_memcpy(&value, &bits, sizeof(value));
	return value;
}

static enum sml_type type_of(uint8_t lane_kind)
{
	return lane_kind == SML_LANE_FLOAT32   ? SML_FLOAT32
	       : lane_kind == SML_LANE_FLOAT16 ? SML_FLOAT16
					       : SML_BFLOAT16;
}

SML_INLINE size_t bytes_of(uint8_t lane_kind)
{
	return lane_kind == SML_LANE_FLOAT32 ? 4 : 2;
}

/* ---- one portion: kind is a constant in each loop ---- */

/* A loop must have all that happens to an element: compilers then keep it in vectors. */
SML_INLINE double element(uint8_t kind, const void *lanes, size_t i)
{
	const sml_any_u16 *halves = lanes;

	if (kind == SML_LANE_FLOAT16)
		return (double)sml_float_of(sml_float16_widen(sml_be16(halves[i])));
	if (kind == SML_LANE_BFLOAT16)
		return (double)sml_float_of((uint32_t)sml_be16(halves[i]) << 16);
	return (double)sml_float_of(sml_be32(((const sml_any_u32 *)lanes)[i]));
}

/*
 * Returns 0 if all sums are exact: then subtracting either summand leaves the other one, but for
 * the sign of a zero. If one is not exact, the difference to the larger summand shows it, because
 * that is exact itself. An infinity or NaN may show, too. Sums of float16 have 46 bits at most.
 */
SML_INLINE uint64_t add(uint8_t kind, const void *lanes, const sum_t *sums, double *restrict out)
{
	uint64_t wrong = 0;

	for (size_t i = 0; i < PORTION; i++) {
		double before = sums[i], value = element(kind, lanes, i);
		double sum = before + value;

		out[i] = sum;
		if (kind != SML_LANE_FLOAT16)
			wrong |= (bits_of(sum - before) ^ bits_of(value)) |
				 (bits_of(sum - value) ^ bits_of(before));
	}
	return wrong & SML_FLOAT64_REST;
}

/* The first lanes: -0 changes none of them, and +0 only -0. */
SML_INLINE void begin(uint8_t kind, const void *lanes, double zero, double *restrict out)
{
	for (size_t i = 0; i < PORTION; i++)
		out[i] = element(kind, lanes, i) + zero;
}

/*
 * Round to odd, to 13 bits, which is exact in a float32: rounded to the 11 or 8 bits of a half
 * type, this is what the sum itself is rounded to. A float32 below the ordinary ones has them, too,
 * where a bfloat16 is not zero.
 */
SML_INLINE uint32_t round_to_odd(double sum)
{
	const uint64_t last = ((uint64_t)1 << 40) - 1;
	uint64_t bits = bits_of(sum);

	return sml_bits_of((float)double_of((bits | ((bits & last) + last)) & ~last));
}

SML_INLINE uint32_t select_nan(uint32_t float32, uint32_t nan, uint32_t element)
{
	return sml_select((float32 & SML_FLOAT32_REST) > SML_FLOAT32_INFINITY, nan, element);
}

SML_INLINE void store(uint8_t kind, const double *sums, void *restrict lanes)
{
	for (size_t i = 0; i < PORTION; i++) {
		uint32_t bits = kind == SML_LANE_FLOAT32 ? sml_bits_of((float)sums[i])
							 : round_to_odd(sums[i]);

		if (kind == SML_LANE_FLOAT32)
			((sml_any_u32 *)lanes)[i] =
				sml_be32(select_nan(bits, SML_FLOAT32_NAN, bits));
		else if (kind == SML_LANE_FLOAT16)
			((sml_any_u16 *)lanes)[i] = sml_be16(
				(uint16_t)select_nan(bits, 0x7e00, sml_float16_narrow(bits)));
		else
			((sml_any_u16 *)lanes)[i] = sml_be16(
				(uint16_t)select_nan(bits, 0x7fc0, sml_bfloat16_narrow(bits)));
	}
}

/*
 * A quotient of 53 bits that is half-way between two elements is exact: multiplied by the divisor,
 * it still has fewer bits than the sum, so if it differed from the sum, it would by more than the
 * quotient's rounding explains. So rounding twice is rounding once.
 */
SML_INLINE void round_sums(uint8_t kind, double divisor, const double *sums, void *restrict lanes)
{
	double quotients[PORTION];

	if (divisor == 1) {
		store(kind, sums, lanes);
		return;
	}
	for (size_t i = 0; i < PORTION; i++)
		quotients[i] = sums[i] / divisor;
	store(kind, quotients, lanes);
}

/* ---- sums that a double does not hold ---- */

static void add_to_words(const struct sml_format *format, uint32_t *words, double value)
{
	struct sml_sum sum;

	sml_sum_clear(&sum);
	sml_sum_load(&sum, words);
	sml_sum_add_double(&sum, format, value);
	sml_sum_store(&sum, words);
}

/* A double holds the sum of both, or it is not finite. */
static bool fits(double before, double value, double sum)
{
	return (sum - before == value && sum - value == before) ||
	       (bits_of(sum) & SML_FLOAT64_REST) >= SML_FLOAT64_INFINITY;
}

static double add_slowly_one(const struct sml_format *format, double before, uint32_t *words,
			     double value)
{
	double sum = before + value;

	if (bits_of(before) != IS_LONG) {
		if (fits(before, value, sum))
			return sum;
		__builtin_memset(words, 0, sizeof(*words) * SML_SUM_WORDS);
		add_to_words(format, words, before);
	} else if ((bits_of(value) & SML_FLOAT64_REST) >= SML_FLOAT64_INFINITY) {
		return value;
	}
	add_to_words(format, words, value);
	return double_of(IS_LONG);
}

NOINLINE static void add_slowly(uint8_t kind, const void *lanes, const sum_t *sums, uint32_t *words,
				double *out)
{
	const struct sml_format format = sml_format_of(type_of(kind));

	for (size_t i = 0; i < PORTION; i++)
		out[i] = add_slowly_one(&format, sums[i], words + SML_SUM_WORDS * i,
					element(kind, lanes, i));
}

static uint64_t round_words(const struct sml_format *format, unsigned divisor,
			    const uint32_t *words)
{
	struct sml_sum sum;

	sml_sum_clear(&sum);
	sml_sum_load(&sum, words);
	return sml_sum_round(&sum, format, divisor);
}

/* The others have been rounded. */
NOINLINE static void round_slowly(uint8_t kind, unsigned divisor, const double *sums,
				  const uint32_t *words, void *lanes)
{
	const struct sml_format format = sml_format_of(type_of(kind));

	for (size_t i = 0; i < PORTION; i++) {
		uint64_t bits;

		if (bits_of(sums[i]) != IS_LONG)
			continue;
		bits = round_words(&format, divisor, words + SML_SUM_WORDS * i);
		if (kind == SML_LANE_FLOAT32)
			((sml_any_u32 *)lanes)[i] = sml_be32((uint32_t)bits);
		else
			((sml_any_u16 *)lanes)[i] = sml_be16((uint16_t)bits);
	}
}

/* ---- one packet ---- */

/* The last portion of a packet may have fewer elements: zeros are behind them. */
struct portion {
	uint8_t lanes[4 * PORTION] __attribute__((aligned(64)));
};

/* bytes: of the portion's lanes, at least. Results replace sums that have been read. */
SML_INLINE void finish(uint8_t kind, unsigned divisor, const double *sums, const uint32_t *words,
		       bool slow, void *result, size_t bytes)
{
	const size_t full = PORTION * bytes_of(kind);
	struct portion copy;
	void *lanes = bytes < full ? (void *)&copy : result;

	round_sums(kind, divisor, sums, lanes);
	if (slow)
		round_slowly(kind, divisor, sums, words, lanes);
	if (lanes != result)
		__builtin_memcpy(result, lanes, bytes);
}

/* Not inlined: a compiler that knows these zeros treats the first element of a loop apart. */
NOINLINE static const void *pad(const uint8_t *lanes, size_t bytes, struct portion *copy)
{
	__builtin_memset(copy, 0, sizeof(*copy));
	if (lanes != NULL)
		__builtin_memcpy(copy, lanes, bytes);
	return copy;
}

/* Zeros if lanes is NULL, and after the last element of a packet. */
SML_INLINE const void *whole(uint8_t kind, const uint8_t *lanes, size_t bytes, struct portion *copy)
{
	bool is_whole = lanes != NULL && bytes == PORTION * bytes_of(kind);

	return is_whole ? lanes : pad(lanes, bytes, copy);
}

SML_INLINE void combine(uint8_t kind, enum sml_lane_step step, unsigned divisor,
			const struct sml_exact_sums *place, const uint8_t *arrived, size_t bytes)
{
	const size_t full = PORTION * bytes_of(kind);
	uint32_t *words = place->words;
	uint8_t *result = place->doubles;
	sum_t *sums = place->doubles;

	for (size_t at = 0; at < bytes; at += full) {
		size_t left = bytes - at < full ? bytes - at : full;
		struct portion copy;
		const void *lanes = whole(kind, arrived == NULL ? NULL : arrived + at, left, &copy);
		double out[PORTION] __attribute__((aligned(64)));
		bool slow = false;

		if (step == SML_LANES_FIRST || step == SML_LANES_ONLY)
			begin(kind, lanes, place->after_zeros ? 0.0 : -0.0, out);
		else
			slow = add(kind, lanes, sums, out) != 0;
		if (slow)
			add_slowly(kind, lanes, sums, words, out);
		if (step == SML_LANES_FIRST || step == SML_LANES_NEXT)
			__builtin_memcpy(sums, out, sizeof(out));
		else
			finish(kind, divisor, out, words, slow, result + at, left);
		sums += PORTION;
		words += SML_SUM_WORDS * PORTION;
	}
}

/* Rows by portions, whose sums stay in the first-level cache. */
SML_INLINE void reduce(uint8_t kind, unsigned divisor, const uint8_t *rows, size_t stride,
		       unsigned n_rows, size_t bytes, uint8_t *result)
{
	const size_t full = PORTION * bytes_of(kind);

	for (size_t at = 0; at < bytes; at += full) {
		size_t left = bytes - at < full ? bytes - at : full;
		uint32_t words[PORTION * SML_SUM_WORDS];
		double sums[2][PORTION] __attribute__((aligned(64)));
		struct portion copy;
		bool slow = false;

		begin(kind, whole(kind, rows + at, left, &copy), -0.0, sums[0]);
		for (unsigned row = 1; row < n_rows; row++) {
			const double *before = sums[(row - 1) & 1];
			const void *lanes = whole(kind, rows + row * stride + at, left, &copy);

			if (add(kind, lanes, before, sums[row & 1]) != 0) {
				add_slowly(kind, lanes, before, words, sums[row & 1]);
				slow = true;
			}
		}
		finish(kind, divisor, sums[(n_rows - 1) & 1], words, slow, result + at, left);
	}
}

#define DEFINE_FOR_KIND(name, kind)                                                                \
	NOINLINE SML_MULTIVERSION static void combine_##name(                                      \
		enum sml_lane_step step, unsigned divisor, const struct sml_exact_sums *place,     \
		const uint8_t *arrived, size_t bytes)                                              \
	{                                                                                          \
		if (step == SML_LANES_FIRST)                                                       \
			combine(kind, SML_LANES_FIRST, divisor, place, arrived, bytes);            \
		else if (step == SML_LANES_NEXT)                                                   \
			combine(kind, SML_LANES_NEXT, divisor, place, arrived, bytes);             \
		else if (step == SML_LANES_LAST)                                                   \
			combine(kind, SML_LANES_LAST, divisor, place, arrived, bytes);             \
		else                                                                               \
			combine(kind, SML_LANES_ONLY, divisor, place, arrived, bytes);             \
	}                                                                                          \
	NOINLINE SML_MULTIVERSION static void reduce_##name(unsigned divisor, const uint8_t *rows, \
							    size_t stride, unsigned n_rows,        \
							    size_t bytes, uint8_t *result)         \
	{                                                                                          \
		reduce(kind, divisor, rows, stride, n_rows, bytes, result);                        \
	}

DEFINE_FOR_KIND(float32, SML_LANE_FLOAT32)
DEFINE_FOR_KIND(float16, SML_LANE_FLOAT16)
DEFINE_FOR_KIND(bfloat16, SML_LANE_BFLOAT16)

void sml_exact_combine(uint8_t lane_kind, enum sml_lane_step step, unsigned divisor,
		       struct sml_exact_sums sums, const void *arrived, uint32_t n)
{
	uint64_t modes = sml_modes_enter();

	if (lane_kind == SML_LANE_FLOAT32)
		combine_float32(step, divisor, &sums, arrived, 4 * (size_t)n);
	else if (lane_kind == SML_LANE_FLOAT16)
		combine_float16(step, divisor, &sums, arrived, 4 * (size_t)n);
	else
		combine_bfloat16(step, divisor, &sums, arrived, 4 * (size_t)n);
	sml_modes_leave(modes);
}

void sml_exact_reduce(uint8_t lane_kind, unsigned divisor, const void *rows, size_t stride,
		      unsigned n_rows, uint32_t n, void *result)
{
	uint64_t modes = sml_modes_enter();

	if (lane_kind == SML_LANE_FLOAT32)
		reduce_float32(divisor, rows, stride, n_rows, 4 * (size_t)n, result);
	else if (lane_kind == SML_LANE_FLOAT16)
		reduce_float16(divisor, rows, stride, n_rows, 4 * (size_t)n, result);
	else
		reduce_bfloat16(divisor, rows, stride, n_rows, 4 * (size_t)n, result);
	sml_modes_leave(modes);
}

/* ---- floats as doubles ---- */

static NOINLINE void widen(enum sml_type type, const void *elements, size_t count, double *doubles)
{
	for (size_t i = 0; i < count; i++)
		doubles[i] = (double)sml_float_of(sml_element_load(type, elements, i));
}

static NOINLINE void narrow(enum sml_type type, const double *doubles, size_t count, void *elements)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t bits = type == SML_FLOAT32 ? sml_bits_of((float)doubles[i])
						    : round_to_odd(doubles[i]);

		if ((bits & SML_FLOAT32_REST) > SML_FLOAT32_INFINITY)
			sml_element_store_nan(type, elements, i);
		else
			sml_element_store(type, elements, i, bits);
	}
}

void sml_exact_widen(enum sml_type type, const void *elements, size_t count, double *doubles)
{
	uint64_t modes = sml_modes_enter();

	widen(type, elements, count, doubles);
	sml_modes_leave(modes);
}

void sml_exact_narrow(enum sml_type type, const double *doubles, size_t count, void *elements)
{
	uint64_t modes = sml_modes_enter();

	narrow(type, doubles, count, elements);
	sml_modes_leave(modes);
}
