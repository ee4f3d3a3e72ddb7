/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * core/quantize.c and core/order.c a second time, compiled for the CPU's baseline only. The
 * vector versions must equal them bit for bit.
 */
#ifndef SML_TESTS_QUANTIZE_PLAIN_H
#define SML_TESTS_QUANTIZE_PLAIN_H

#include "core/quantize.h"

unsigned plain_headroom_bits(unsigned n_ranks);
int32_t plain_exponent_of(enum sml_type type, const void *elements, size_t count);
void plain_exponents_of(enum sml_type type, const void *elements, const float *residual,
			size_t count, size_t block, int16_t *exponents);
void plain_add_residual(enum sml_type type, const void *elements,
			const struct sml_feedback *feedback, size_t count, uint32_t *sums);
void plain_quantize_run(unsigned width, enum sml_type type, const void *elements, size_t count,
			const struct sml_blocks *blocks, unsigned n_ranks, void *lanes);
void plain_dequantize_run(unsigned width, enum sml_type type, const void *lanes, size_t count,
			  const struct sml_blocks *blocks, unsigned n_ranks, unsigned divisor,
			  void *elements);

/* One block of any length. */
static inline void plain_quantize(int width, enum sml_type type, const void *elements, size_t count,
				  int32_t exponent, unsigned n_ranks, void *lanes)
{
	const int16_t exponents = (int16_t)exponent;
	const struct sml_blocks blocks = {.exponents = &exponents, .size = UINT32_MAX};

	plain_quantize_run((unsigned)width, type, elements, count, &blocks, n_ranks, lanes);
}

static inline void plain_dequantize(int width, enum sml_type type, const void *lanes, size_t count,
				    int32_t exponent, unsigned n_ranks, unsigned divisor,
				    void *elements)
{
	const int16_t exponents = (int16_t)exponent;
	const struct sml_blocks blocks = {.exponents = &exponents, .size = UINT32_MAX};

	plain_dequantize_run((unsigned)width, type, lanes, count, &blocks, n_ranks, divisor,
			     elements);
}

void plain_order_encode(enum sml_type type, const void *elements, size_t count, bool minimum,
			void *lanes);
void plain_order_decode(enum sml_type type, const void *lanes, size_t count, bool minimum,
			void *elements);
void plain_int32_encode(const void *elements, size_t count, void *lanes);
void plain_int32_decode(const void *lanes, size_t count, unsigned divisor, void *elements);

#endif
