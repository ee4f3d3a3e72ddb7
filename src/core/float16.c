/* SPDX-License-Identifier: BSD-3-Clause */
/* See float16.h. */
#include "core/float16.h"

#include "core/element.h"
#include "core/multiversion.h"

#if SML_HAS_MULTIVERSION

#include <immintrin.h>

#define F16C	 __attribute__((target("avx2,f16c")))
#define F16C_INL F16C __attribute__((always_inline)) static inline

static bool has_f16c(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
}

/* Big-endian lanes of 32 bits, or of 16. */
F16C_INL __m256i swapped_32(__m256i lanes)
{
	return _mm256_shuffle_epi8(
		lanes, _mm256_broadcastsi128_si256(_mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9,
								 8, 15, 14, 13, 12)));
}

F16C_INL __m128i swapped_16(__m128i lanes)
{
	return _mm_shuffle_epi8(
		lanes, _mm_setr_epi8(1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
}

/* The operands' order matters: NaN becomes limit. Rounds to nearest, ties to even. */
F16C_INL __m256i integers_of(const sml_any_u16 *halves, struct sml_scale scale)
{
	__m256 limit = _mm256_set1_ps(scale.limit);
	__m256 y = _mm256_cvtph_ps(_mm_loadu_si128((const void *)halves));

	y = _mm256_mul_ps(_mm256_mul_ps(y, _mm256_set1_ps(scale.first)),
			  _mm256_set1_ps(scale.second));
	y = _mm256_max_ps(_mm256_min_ps(y, limit), _mm256_set1_ps(-scale.limit));
	return _mm256_cvtps_epi32(y);
}

F16C_INL void store_products(__m256i sums, float first, float second, sml_any_u16 *halves)
{
	__m256 y = _mm256_mul_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sums), _mm256_set1_ps(first)),
				 _mm256_set1_ps(second));

	_mm_storeu_si128((void *)halves, _mm256_cvtps_ph(y, _MM_FROUND_TO_NEAREST_INT));
}

F16C static size_t to_int32(const sml_any_u16 *halves, size_t count, const struct sml_scale *by,
			    sml_any_u32 *lanes)
{
	const struct sml_scale scale = *by;
	size_t i = 0;

	for (; i + 8 <= count; i += 8)
		_mm256_storeu_si256((void *)(lanes + i),
				    swapped_32(integers_of(halves + i, scale)));
	return i;
}

/* |y| < 2^15, or 2^7: packing changes no value. */
F16C_INL size_t to_narrow(unsigned width, const sml_any_u16 *halves, size_t count,
			  const struct sml_scale *by, uint8_t *lanes)
{
	const struct sml_scale scale = *by;
	size_t i = 0;

	for (; i + 8 <= count; i += 8) {
		__m256i y = integers_of(halves + i, scale);
		__m128i packed =
			_mm_packs_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));

		if (width == 16)
			_mm_storeu_si128((void *)(lanes + 2 * i), swapped_16(packed));
		else
			_mm_storel_epi64((void *)(lanes + i), _mm_packs_epi16(packed, packed));
	}
	return i;
}

F16C static size_t to_int16(const void *halves, size_t count, const struct sml_scale *by,
			    void *lanes)
{
	return to_narrow(16, halves, count, by, lanes);
}

F16C static size_t to_int8(const void *halves, size_t count, const struct sml_scale *by,
			   void *lanes)
{
	return to_narrow(8, halves, count, by, lanes);
}

F16C static size_t from_int32(const sml_any_u32 *lanes, size_t count, float first, float second,
			      sml_any_u16 *halves)
{
	size_t i = 0;

	for (; i + 8 <= count; i += 8)
		store_products(swapped_32(_mm256_loadu_si256((const void *)(lanes + i))), first,
			       second, halves + i);
	return i;
}

F16C_INL __m256i widened(unsigned width, const uint8_t *lanes, size_t i)
{
	if (width == 16)
		return _mm256_cvtepi16_epi32(
			swapped_16(_mm_loadu_si128((const void *)(lanes + 2 * i))));
	return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(lanes + i)));
}

F16C_INL size_t from_narrow(unsigned width, const uint8_t *lanes, size_t count, float first,
			    float second, sml_any_u16 *halves)
{
	size_t i = 0;

	for (; i + 8 <= count; i += 8)
		store_products(widened(width, lanes, i), first, second, halves + i);
	return i;
}

F16C static size_t from_int16(const void *lanes, size_t count, float first, float second,
			      void *halves)
{
	return from_narrow(16, lanes, count, first, second, halves);
}

F16C static size_t from_int8(const void *lanes, size_t count, float first, float second,
			     void *halves)
{
	return from_narrow(8, lanes, count, first, second, halves);
}

#else

/* Nothing: quantize.c's loops do all elements. */
#define has_f16c() false
#define to_int32   to_nothing
#define to_int16   to_nothing
#define to_int8	   to_nothing
#define from_int32 from_nothing
#define from_int16 from_nothing
#define from_int8  from_nothing

static size_t to_nothing(const void *halves, size_t count, const struct sml_scale *scale,
			 void *lanes)
{
	(void)halves, (void)count, (void)scale, (void)lanes;
	return 0;
}

static size_t from_nothing(const void *lanes, size_t count, float first, float second, void *halves)
{
	(void)lanes, (void)count, (void)first, (void)second, (void)halves;
	return 0;
}

#endif

size_t sml_float16_to_int32(const void *halves, size_t count, const struct sml_scale *scale,
			    void *lanes)
{
	return has_f16c() ? to_int32(halves, count, scale, lanes) : 0;
}

size_t sml_float16_to_narrow(unsigned width, const void *halves, size_t count,
			     const struct sml_scale *scale, void *lanes)
{
	if (!has_f16c())
		return 0;
	return width == 16 ? to_int16(halves, count, scale, lanes)
			   : to_int8(halves, count, scale, lanes);
}

size_t sml_float16_from_int32(const void *lanes, size_t count, float first, float second,
			      void *halves)
{
	return has_f16c() ? from_int32(lanes, count, first, second, halves) : 0;
}

size_t sml_float16_from_narrow(unsigned width, const void *lanes, size_t count, float first,
			       float second, void *halves)
{
	if (!has_f16c())
		return 0;
	return width == 16 ? from_int16(lanes, count, first, second, halves)
			   : from_int8(lanes, count, first, second, halves);
}
