/* SPDX-License-Identifier: BSD-3-Clause */
/* See float16.h. */
#include "core/float16.h"

#include "core/element.h"
#include "core/multiversion.h"

SML_MULTIVERSION
static void widen(const sml_any_u16 *restrict halves, size_t count, sml_any_u32 *restrict floats)
{
	for (size_t i = 0; i < count; i++)
		floats[i] = sml_float16_widen(halves[i]);
}

SML_MULTIVERSION
static void narrow(const sml_any_u32 *restrict floats, size_t count, sml_any_u16 *restrict halves)
{
	for (size_t i = 0; i < count; i++)
		halves[i] = (uint16_t)sml_float16_narrow(floats[i]);
}

#if SML_HAS_MULTIVERSION

#include <immintrin.h>

#define F16C __attribute__((target("avx,f16c")))

static bool has_f16c(void)
{
	return __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c");
}

/* Both return the number of elements converted: all but the last few. */
F16C static size_t widen_f16c(const sml_any_u16 *halves, size_t count, sml_any_u32 *floats)
{
	size_t i = 0;

	for (; i + 8 <= count; i += 8)
		_mm256_storeu_si256((__m256i *)(floats + i),
				    _mm256_castps_si256(_mm256_cvtph_ps(
					    _mm_loadu_si128((const __m128i *)(halves + i)))));
	return i;
}

F16C static size_t narrow_f16c(const sml_any_u32 *floats, size_t count, sml_any_u16 *halves)
{
	size_t i = 0;

	for (; i + 8 <= count; i += 8)
		_mm_storeu_si128((__m128i *)(halves + i),
				 _mm256_cvtps_ph(_mm256_castsi256_ps(_mm256_loadu_si256(
							 (const __m256i *)(floats + i))),
						 _MM_FROUND_TO_NEAREST_INT));
	return i;
}

#else

/* With only the loops above. */
#define has_f16c()			   false
#define widen_f16c(halves, count, floats)  ((size_t)0)
#define narrow_f16c(floats, count, halves) ((size_t)0)

#endif

void sml_float16_widen_run(const void *halves, size_t count, uint32_t *floats)
{
	size_t done = has_f16c() ? widen_f16c(halves, count, floats) : 0;

	widen((const sml_any_u16 *)halves + done, count - done, floats + done);
}

void sml_float16_narrow_run(const uint32_t *floats, size_t count, void *halves)
{
	size_t done = has_f16c() ? narrow_f16c(floats, count, halves) : 0;

	narrow(floats + done, count - done, (sml_any_u16 *)halves + done);
}
