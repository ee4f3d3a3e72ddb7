/* SPDX-License-Identifier: BSD-3-Clause */
/* See float16.h. */
#include "core/float16.h"

#include "core/blocks.h"
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
F16C_INL __m256i integers_of(const void *halves, struct sml_scale scale)
{
	__m256 limit = _mm256_set1_ps(scale.limit);
	__m256 y = _mm256_cvtph_ps(_mm_loadu_si128(halves));

	y = _mm256_mul_ps(y, _mm256_set1_ps(scale.first));
	if (!scale.one)
		y = _mm256_mul_ps(y, _mm256_set1_ps(scale.second));
	y = _mm256_max_ps(_mm256_min_ps(y, limit), _mm256_set1_ps(-scale.limit));
	return _mm256_cvtps_epi32(y);
}

/* |y| < 2^15, or 2^7, in narrow lanes: packing changes no value. */
F16C_INL void eight_to_lanes(unsigned width, const void *halves, struct sml_scale scale,
			     void *lanes)
{
	__m256i y = integers_of(halves, scale);
	__m128i packed;

	if (width == 32) {
		_mm256_storeu_si256(lanes, swapped_32(y));
		return;
	}
	packed = _mm_packs_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
	if (width == 16)
		_mm_storeu_si128(lanes, swapped_16(packed));
	else
		_mm_storel_epi64(lanes, _mm_packs_epi16(packed, packed));
}

F16C_INL __m256i sums_of(unsigned width, const void *lanes)
{
	if (width == 32)
		return swapped_32(_mm256_loadu_si256(lanes));
	if (width == 16)
		return _mm256_cvtepi16_epi32(swapped_16(_mm_loadu_si128(lanes)));
	return _mm256_cvtepi8_epi32(_mm_loadl_epi64(lanes));
}

F16C_INL void eight_from_lanes(unsigned width, const void *lanes, struct sml_factor factor,
			       void *halves)
{
	__m256 y = _mm256_cvtepi32_ps(sums_of(width, lanes));

	y = _mm256_mul_ps(y, _mm256_set1_ps(factor.first));
	if (factor.steps != SML_STEPS_ONE)
		y = _mm256_mul_ps(y, _mm256_set1_ps(factor.second));
	_mm_storeu_si128(halves, _mm256_cvtps_ph(y, _MM_FROUND_TO_NEAREST_INT));
}

/* One block: its last elements, fewer than eight, pass through buffers. */
F16C_INL void part_to_lanes(unsigned width, const uint8_t *halves, size_t count,
			    struct sml_scale scale, uint8_t *lanes)
{
	size_t to = width / 8, i = 0;

	for (; i + 8 <= count; i += 8)
		eight_to_lanes(width, halves + 2 * i, scale, lanes + to * i);
	if (i < count) {
		uint8_t in[16] = {0}, out[32];

		__builtin_memcpy(in, halves + 2 * i, 2 * (count - i));
		eight_to_lanes(width, in, scale, out);
		__builtin_memcpy(lanes + to * i, out, to * (count - i));
	}
}

F16C_INL void part_from_lanes(unsigned width, const uint8_t *lanes, size_t count,
			      struct sml_factor factor, uint8_t *halves)
{
	size_t from = width / 8, i = 0;

	for (; i + 8 <= count; i += 8)
		eight_from_lanes(width, lanes + from * i, factor, halves + 2 * i);
	if (i < count) {
		uint8_t in[32] = {0}, out[16];

		__builtin_memcpy(in, lanes + from * i, from * (count - i));
		eight_from_lanes(width, in, factor, out);
		__builtin_memcpy(halves + 2 * i, out, 2 * (count - i));
	}
}

F16C_INL void run_to_lanes(unsigned width, const uint8_t *halves, size_t count,
			   const struct sml_blocks *blocks, int32_t bits, uint8_t *lanes)
{
	size_t to = width / 8;
	struct sml_part p;

	for (bool more = sml_first_part(blocks, count, &p); more;
	     more = sml_next_part(blocks, count, &p)) {
		struct sml_scale scale = sml_scale_of(width, bits, p.exponent);
		const uint8_t *part = halves + 2 * p.at;

		if (!sml_part_is_ordinary(&p))
			__builtin_memset(lanes + to * p.at, 0, to * p.count);
		else if (scale.one && p.count == SML_BLOCK_OF_NARROW)
			part_to_lanes(width, part, SML_BLOCK_OF_NARROW, scale, lanes + to * p.at);
		else
			part_to_lanes(width, part, p.count, scale, lanes + to * p.at);
	}
}

F16C_INL void run_from_lanes(unsigned width, const uint8_t *lanes, size_t count,
			     const struct sml_blocks *blocks, int32_t bits, unsigned divisor,
			     uint8_t *halves)
{
	size_t from = width / 8;
	struct sml_part p;

	for (bool more = sml_first_part(blocks, count, &p); more;
	     more = sml_next_part(blocks, count, &p)) {
		if (sml_part_is_ordinary(&p))
			part_from_lanes(
				width, lanes + from * p.at, p.count,
				sml_factor_of(SML_FLOAT16, p.exponent + p.shift - bits, divisor),
				halves + 2 * p.at);
		else
			sml_fill_part(SML_FLOAT16, &p, halves);
	}
}

/* The compiler then knows the width. */
F16C static void to_lanes(unsigned width, const void *halves, size_t count,
			  const struct sml_blocks *blocks, int32_t bits, void *lanes)
{
	if (width == 16)
		run_to_lanes(16, halves, count, blocks, bits, lanes);
	else if (width == 8)
		run_to_lanes(8, halves, count, blocks, bits, lanes);
	else
		run_to_lanes(32, halves, count, blocks, bits, lanes);
}

F16C static void from_lanes(unsigned width, const void *lanes, size_t count,
			    const struct sml_blocks *blocks, int32_t bits, unsigned divisor,
			    void *halves)
{
	if (width == 16)
		run_from_lanes(16, lanes, count, blocks, bits, divisor, halves);
	else if (width == 8)
		run_from_lanes(8, lanes, count, blocks, bits, divisor, halves);
	else
		run_from_lanes(32, lanes, count, blocks, bits, divisor, halves);
}

bool sml_float16_quantize(unsigned width, const void *halves, size_t count,
			  const struct sml_blocks *blocks, int32_t bits, void *lanes)
{
	if (!has_f16c())
		return false;
	to_lanes(width, halves, count, blocks, bits, lanes);
	return true;
}

bool sml_float16_dequantize(unsigned width, const void *lanes, size_t count,
			    const struct sml_blocks *blocks, int32_t bits, unsigned divisor,
			    void *halves)
{
	if (!has_f16c())
		return false;
	from_lanes(width, lanes, count, blocks, bits, divisor, halves);
	return true;
}

#else

/* quantize.c's loops do everything. */

bool sml_float16_quantize(unsigned width, const void *halves, size_t count,
			  const struct sml_blocks *blocks, int32_t bits, void *lanes)
{
	(void)width, (void)halves, (void)count, (void)blocks, (void)bits, (void)lanes;
	return false;
}

bool sml_float16_dequantize(unsigned width, const void *lanes, size_t count,
			    const struct sml_blocks *blocks, int32_t bits, unsigned divisor,
			    void *halves)
{
	(void)width, (void)lanes, (void)count, (void)blocks, (void)bits, (void)divisor,
		(void)halves;
	return false;
}

#endif
