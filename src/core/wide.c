/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * float64 and int64: see wide.h. The invariant is quantize.c's: for any elements, exponent and
 * lanes, no conversion leaves its range.
 *
 * On doubles, the code uses only additions, comparisons, products by powers of two, and conversions
 * to and from int32, because old vector units have these, too.
 */
#include "core/wide.h"

#include "core/element.h"
#include "core/multiversion.h"
#include "core/quantize.h"

#define EXPONENT_MIN (-1073) /* of 2^-1074, the smallest float64 */
#define EXPONENT_MAX 1024    /* of DBL_MAX */

/* Where limbs begin, in bits: see wide.h. The masks are those of a limb's own bits. */
struct limbs {
	int middle, high;
	uint32_t low_mask, middle_mask;
};

static const struct limbs wide_limbs = {22, 43, (1u << 22) - 1, (1u << 21) - 1};
static const struct limbs small_limbs = {20, 40, (1u << 20) - 1, (1u << 20) - 1};

typedef double __attribute__((may_alias)) any_double;

SML_INLINE double double_of(uint64_t bits)
{
	double value;

	__builtin_memcpy(&value, &bits, sizeof(value));
	return value;
}

SML_INLINE uint64_t bits_of(double value)
{
	uint64_t bits;

	__builtin_memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* 2^power of a normal double. */
static double double_power(int32_t power)
{
	return double_of((uint64_t)(1023 + power) << 52);
}

static bool is_ordinary(int32_t exponent)
{
	return exponent >= EXPONENT_MIN && exponent <= EXPONENT_MAX;
}

/* 2^power, and a sum or quotient times that, is far from the smallest and the largest double. */
static bool is_moderate(int32_t power)
{
	return power >= -900 && power <= 900;
}

static struct limbs limbs_of(unsigned n_ranks)
{
	return n_ranks <= SML_LIMB_WIDE_RANKS ? wide_limbs : small_limbs;
}

/* ---- exponents ---- */

SML_MULTIVERSION
static uint64_t largest_of(const sml_any_u64 *elements, size_t count)
{
	int64_t largest = 0;

	for (size_t i = 0; i < count; i++) {
		int64_t rest = (int64_t)(elements[i] & SML_FLOAT64_REST);

		largest = rest > largest ? rest : largest;
	}
	return (uint64_t)largest;
}

int32_t sml_double_exponent_of(const void *elements, size_t count)
{
	uint64_t largest = largest_of(elements, count);

	if (largest == 0)
		return SML_EXPONENT_ZERO;
	if (largest >= SML_FLOAT64_INFINITY)
		return SML_EXPONENT_NONFINITE;
	if (largest < (uint64_t)1 << 52) /* subnormal, largest * 2^-1074 */
		return 64 - __builtin_clzll(largest) - 1074;
	return (int32_t)(largest >> 52) - 1022;
}

/* ---- to integers ---- */

/*
 * y = x * 2^power by two factors, each a normal double: exact if power >= 0, and otherwise rounded
 * only if y becomes 0 anyway (see quantize.c). `limit` bounds NaN, and whatever a dishonest rank's
 * exponent makes of y.
 */
struct scale {
	double first, second, limit;
};

/* The second factor is 1 wherever one will do. */
static struct scale scale_of(int32_t power, double limit)
{
	int32_t half = is_moderate(power) ? power : power / 2;

	return (struct scale){double_power(half), double_power(power - half), limit};
}

SML_INLINE double limited(double y, struct scale scale)
{
	y = y < scale.limit ? y : scale.limit;
	return y > -scale.limit ? y : -scale.limit;
}

SML_INLINE double scaled(double x, struct scale scale)
{
	return limited(x * scale.first * scale.second, scale);
}

/*
 * The integer nearest to |z| < 2^51, ties to even: adding 1.5 * 2^52 leaves it in the last bits.
 * This needs neither a branch nor a conversion to 64 bits, so that old vector units can do it.
 */
SML_INLINE uint64_t nearest_integer(double z)
{
	return bits_of(z + 0x1.8p52) - bits_of(0x1.8p52);
}

/*
 * The integer nearest to |y| < 2^63, in limbs. `upper` is the nearest multiple of 2^high. What is
 * left is exact, because y has 53 bits, and at most 2^(high - 1), so it can be rounded in the same
 * way.
 */
SML_INLINE void split_loop(const any_double *restrict elements, size_t count, struct scale scale,
			   bool once, struct limbs limbs, sml_any_u32 *restrict low,
			   sml_any_u32 *restrict middle, sml_any_u32 *restrict high)
{
	const double down = double_power(-limbs.high), up = double_power(limbs.high);

	for (size_t i = 0; i < count; i++) {
		double x = elements[i] * scale.first;
		double y = limited(once ? x : x * scale.second, scale);
		double upper = (y * down + 0x1.8p52) - 0x1.8p52;
		uint64_t value =
			(nearest_integer(y * down) << limbs.high) + nearest_integer(y - upper * up);

		low[i] = sml_be32((uint32_t)value & limbs.low_mask);
		middle[i] = sml_be32((uint32_t)(value >> limbs.middle) & limbs.middle_mask);
		high[i] = sml_be32((uint32_t)((int32_t)(value >> 32) >> (limbs.high - 32)));
	}
}

/* The wider limbs are constants in their loops, because nearly all jobs use them. */
SML_MULTIVERSION
static void split(const any_double *elements, size_t count, struct scale scale, bool wide,
		  sml_any_u32 *lanes, size_t stride)
{
	sml_any_u32 *middle = lanes + stride, *high = lanes + 2 * stride;
	bool once = scale.second == 1;

	if (!wide)
		split_loop(elements, count, scale, false, small_limbs, lanes, middle, high);
	else if (once)
		split_loop(elements, count, scale, true, wide_limbs, lanes, middle, high);
	else
		split_loop(elements, count, scale, false, wide_limbs, lanes, middle, high);
}

#if SML_HAS_MULTIVERSION

#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl")))

static bool has_avx512(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
	       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

AVX512 static __mmask8 mask_of(size_t left)
{
	return left < 8 ? (__mmask8)((1u << left) - 1) : (__mmask8)0xff;
}

AVX512 static __m256i swapped(__m256i lanes)
{
	const __m256i order =
		_mm256_set_epi8(28, 29, 30, 31, 24, 25, 26, 27, 20, 21, 22, 23, 16, 17, 18, 19, 12,
				13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);

	return _mm256_shuffle_epi8(lanes, order);
}

AVX512 static void store(sml_any_u32 *lanes, __mmask8 mask, __m512i limbs)
{
	__m256i swap = swapped(_mm512_cvtepi64_epi32(limbs));

	/* A masked store costs several others. */
	if (mask == (__mmask8)0xff)
		_mm256_storeu_si256((void *)lanes, swap);
	else
		_mm256_mask_storeu_epi32(lanes, mask, swap);
}

/* As split(), of moderate powers: the conversion rounds to even, and limbs are bits. */
AVX512 static void split_avx512(const any_double *elements, size_t count, struct scale scale,
				struct limbs limbs, sml_any_u32 *lanes, size_t stride)
{
	const __m512d factor = _mm512_set1_pd(scale.first);
	const __m512d most = _mm512_set1_pd(scale.limit), least = _mm512_set1_pd(-scale.limit);
	const __m512i low = _mm512_set1_epi64(limbs.low_mask);
	const __m512i middle = _mm512_set1_epi64(limbs.middle_mask);
	const __m128i to_middle = _mm_cvtsi32_si128(limbs.middle);
	const __m128i to_high = _mm_cvtsi32_si128(limbs.high);

	for (size_t i = 0; i < count; i += 8) {
		__mmask8 mask = mask_of(count - i);
		__m512d y = _mm512_mul_pd(_mm512_maskz_loadu_pd(mask, (const void *)(elements + i)),
					  factor);
		__m512i v = _mm512_cvtpd_epi64(_mm512_max_pd(_mm512_min_pd(y, most), least));

		store(lanes + i, mask, _mm512_and_si512(v, low));
		store(lanes + stride + i, mask,
		      _mm512_and_si512(_mm512_srl_epi64(v, to_middle), middle));
		store(lanes + 2 * stride + i, mask, _mm512_sra_epi64(v, to_high));
	}
}

#else

#define has_avx512()						   false
#define split_avx512(elements, count, scale, limbs, lanes, stride) ((void)(limbs))

#endif

/* |x| < 2^E has 53 bits, so |y| <= 2^63 - 2^10 (or 2^59 - 2^6): limit changes nothing then. */
void sml_double_to_limbs(const void *elements, size_t count, int32_t exponent, unsigned n_ranks,
			 void *lanes, size_t stride)
{
	int32_t bits = sml_limb_bits(n_ranks);
	struct scale scale;

	if (!is_ordinary(exponent)) {
		for (size_t limb = 0; limb < SML_LIMBS; limb++)
			__builtin_memset((sml_any_u32 *)lanes + limb * stride, 0, 4 * count);
		return;
	}
	scale = scale_of(bits - exponent, double_power(bits) - double_power(bits - 53));
	if (scale.second == 1 && has_avx512())
		split_avx512(elements, count, scale, limbs_of(n_ranks), lanes, stride);
	else
		split(elements, count, scale, n_ranks <= SML_LIMB_WIDE_RANKS, lanes, stride);
}

/* |y| < 2^31: adding 1.5 * 2^52 rounds to an integer, and leaves it in the last bits. */
SML_INLINE uint32_t integer_of(double y)
{
	return (uint32_t)(int32_t)((y + 0x1.8p52) - 0x1.8p52);
}

SML_MULTIVERSION
static void to_int32(const any_double *restrict elements, size_t count, struct scale scale,
		     sml_any_u32 *restrict lanes)
{
	for (size_t i = 0; i < count; i++)
		lanes[i] = sml_be32(integer_of(scaled(elements[i], scale)));
}

SML_MULTIVERSION
static void to_int16(const any_double *restrict elements, size_t count, struct scale scale,
		     sml_any_u16 *restrict lanes)
{
	for (size_t i = 0; i < count; i++)
		lanes[i] = sml_be16((uint16_t)integer_of(scaled(elements[i], scale)));
}

/*
 * Rounding could reach 2^B, and the sum of n of them the lane's sign bit. So the limit is 2^B - 1;
 * the price is an error below 1, instead of 1/2, for these elements, as on the int16 wire of
 * float32.
 */
static struct scale narrow_scale(int32_t lane_bits, int32_t exponent, unsigned n_ranks)
{
	int32_t bits = lane_bits - 1 - (int32_t)sml_headroom_bits(n_ranks);

	return scale_of(bits - exponent, double_power(bits) - 1);
}

void sml_double_quantize_int32(const void *elements, size_t count, int32_t exponent,
			       unsigned n_ranks, void *lanes)
{
	if (is_ordinary(exponent))
		to_int32(elements, count, narrow_scale(32, exponent, n_ranks), lanes);
	else
		__builtin_memset(lanes, 0, 4 * count);
}

void sml_double_quantize_int16(const void *elements, size_t count, int32_t exponent,
			       unsigned n_ranks, void *lanes)
{
	if (!is_ordinary(exponent)) {
		__builtin_memset(lanes, 0, 4 * ((count + 1) / 2));
		return;
	}
	if (count % 2 != 0)
		((sml_any_u16 *)lanes)[count] = 0;
	to_int16(elements, count, narrow_scale(16, exponent, n_ranks), lanes);
}

/* ---- from integers ---- */

/*
 * The factor of a sum: 2^power / divisor. `before` is applied to both parts of a sum, in two steps,
 * and `after` to their rounded sum. Only the final division rounds: a part is an integer below
 * 2^53 or a multiple of 2^high, and power is never so low that a part has bits below the smallest
 * double, because the elements had none. `after` keeps sums just below the largest double from
 * becoming infinite in between.
 */
struct factor {
	double before, before_too, divisor, after;
};

static struct factor factor_of(int32_t power, unsigned divisor)
{
	const int32_t late = 16;

	sml_assert(divisor >= 1);
	if (power >= 0)
		return (struct factor){double_power(power - late), 1, divisor, double_power(late)};
	return (struct factor){double_power(power / 2), double_power(power - power / 2), divisor,
			       1};
}

SML_INLINE double multiplied(double large, double small, struct factor factor)
{
	double sum = large * factor.before * factor.before_too +
		     small * factor.before * factor.before_too;

	return sum / factor.divisor * factor.after;
}

/* Exact: vector units convert signed integers only. */
SML_INLINE double unsigned_double(uint32_t lane)
{
	return (double)(int32_t)(lane ^ 0x80000000u) + 0x1p31;
}

/*
 * Carry low's upper bits into middle, so that low is below 2^middle again. Middle and low together
 * are an integer below 2^53 (2^10 2^43, or 2^12 2^40), the upper part is a multiple of 2^high, both
 * are doubles, and their sum is rounded once.
 */
SML_MULTIVERSION
static void join(const sml_any_u32 *restrict low, const sml_any_u32 *restrict middle,
		 const sml_any_u32 *restrict high, size_t count, struct limbs limbs,
		 struct factor factor, any_double *restrict elements)
{
	const double middle_unit = double_power(limbs.middle), high_unit = double_power(limbs.high);

	for (size_t i = 0; i < count; i++) {
		uint32_t sum = sml_be32(low[i]);
		double a = (double)(int32_t)(sum & limbs.low_mask);
		double b = unsigned_double(sml_be32(middle[i])) +
			   (double)(int32_t)(sum >> limbs.middle);
		double c = (double)(int32_t)sml_be32(high[i]);

		/* + 0: a sum of zero is +0. */
		elements[i] = multiplied(c * high_unit, b * middle_unit + a, factor) + 0.0;
	}
}

/*
 * The same bits for moderate powers: the rounded sum times 2^power is exact. Without the carry,
 * middle and low together are still below 2^53: 2^10 (2^21 - 1) 2^22 + 2^10 (2^22 - 1), or
 * 2^12 (2^20 - 1) 2^20 + 2^12 (2^20 - 1).
 */
SML_INLINE void join_loop(const sml_any_u32 *restrict lanes, size_t stride, size_t count,
			  struct limbs limbs, double power, double divisor,
			  any_double *restrict elements)
{
	const sml_any_u32 *middle = lanes + stride, *high = middle + stride;
	const double middle_unit = double_power(limbs.middle), high_unit = double_power(limbs.high);

	for (size_t i = 0; i < count; i++) {
		double a = unsigned_double(sml_be32(lanes[i]));
		double b = unsigned_double(sml_be32(middle[i]));
		double c = (double)(int32_t)sml_be32(high[i]);
		double sum = (c * high_unit + (b * middle_unit + a)) * power;

		elements[i] = sum / divisor;
	}
}

SML_MULTIVERSION
static void join_moderate(const sml_any_u32 *lanes, size_t stride, size_t count, struct limbs limbs,
			  double power, unsigned divisor, any_double *elements)
{
	/* A divisor that is the constant 1 costs no division. */
	if (divisor == 1)
		join_loop(lanes, stride, count, limbs, power, 1, elements);
	else
		join_loop(lanes, stride, count, limbs, power, divisor, elements);
}

SML_MULTIVERSION
static void from_int32(const sml_any_u32 *restrict lanes, size_t count, struct factor factor,
		       any_double *restrict elements)
{
	for (size_t i = 0; i < count; i++)
		elements[i] = multiplied(0, (double)(int32_t)sml_be32(lanes[i]), factor);
}

SML_MULTIVERSION
static void from_int16(const sml_any_u16 *restrict lanes, size_t count, struct factor factor,
		       any_double *restrict elements)
{
	for (size_t i = 0; i < count; i++)
		elements[i] = multiplied(0, (double)(int16_t)sml_be16(lanes[i]), factor);
}

/* A block without numbers: all zeros or all NaN. */
static void fill(size_t count, int32_t exponent, void *elements)
{
	for (size_t i = 0; i < count; i++)
		((sml_any_u64 *)elements)[i] = exponent == SML_EXPONENT_ZERO ? 0 : SML_FLOAT64_NAN;
}

void sml_double_from_limbs(const void *lanes, size_t stride, size_t count, int32_t exponent,
			   unsigned n_ranks, unsigned divisor, void *elements)
{
	struct limbs limbs = limbs_of(n_ranks);
	const sml_any_u32 *lane = lanes;
	int32_t power;

	if (!is_ordinary(exponent)) {
		fill(count, exponent, elements);
		return;
	}
	power = exponent - sml_limb_bits(n_ranks);
	if (is_moderate(power))
		join_moderate(lane, stride, count, limbs, double_power(power), divisor, elements);
	else
		join(lane, lane + stride, lane + 2 * stride, count, limbs,
		     factor_of(power, divisor), elements);
}

void sml_double_dequantize_int32(const void *lanes, size_t count, int32_t exponent,
				 unsigned n_ranks, unsigned divisor, void *elements)
{
	int32_t bits = 31 - (int32_t)sml_headroom_bits(n_ranks);

	if (is_ordinary(exponent))
		from_int32(lanes, count, factor_of(exponent - bits, divisor), elements);
	else
		fill(count, exponent, elements);
}

void sml_double_dequantize_int16(const void *lanes, size_t count, int32_t exponent,
				 unsigned n_ranks, unsigned divisor, void *elements)
{
	int32_t bits = 15 - (int32_t)sml_headroom_bits(n_ranks);

	if (is_ordinary(exponent))
		from_int16(lanes, count, factor_of(exponent - bits, divisor), elements);
	else
		fill(count, exponent, elements);
}

/* ---- int64 ---- */

SML_MULTIVERSION
static void split_integers(const sml_any_u64 *restrict elements, size_t count, struct limbs limbs,
			   sml_any_u32 *restrict low, sml_any_u32 *restrict middle,
			   sml_any_u32 *restrict high)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t value = elements[i];

		low[i] = sml_be32((uint32_t)value & limbs.low_mask);
		middle[i] = sml_be32((uint32_t)(value >> limbs.middle) & limbs.middle_mask);
		high[i] = sml_be32((uint32_t)(value >> limbs.high));
	}
}

void sml_int64_to_limbs(const void *elements, size_t count, unsigned n_ranks, void *lanes)
{
	sml_any_u32 *lane = lanes;

	split_integers(elements, count, limbs_of(n_ranks), lane, lane + count, lane + 2 * count);
}

SML_MULTIVERSION
static void join_integers(const sml_any_u32 *restrict low, const sml_any_u32 *restrict middle,
			  const sml_any_u32 *restrict high, size_t count, struct limbs limbs,
			  sml_any_u64 *restrict elements)
{
	for (size_t i = 0; i < count; i++)
		elements[i] = ((uint64_t)sml_be32(high[i]) << limbs.high) +
			      ((uint64_t)sml_be32(middle[i]) << limbs.middle) + sml_be32(low[i]);
}

void sml_int64_from_limbs(const void *lanes, size_t count, unsigned n_ranks, unsigned divisor,
			  void *elements)
{
	const sml_any_u32 *lane = lanes;
	sml_any_u64 *value = elements;

	sml_assert(divisor >= 1);
	join_integers(lane, lane + count, lane + 2 * count, count, limbs_of(n_ranks), elements);
	/* No quotient overflows: division by 1 is skipped, and divisors are positive. */
	for (size_t i = 0; divisor != 1 && i < count; i++)
		value[i] = (uint64_t)((int64_t)value[i] / (int64_t)divisor);
}
