/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * core/wide.c a second time, compiled for the CPU's baseline only. The vector versions must equal
 * it bit for bit.
 */
#ifndef SML_TESTS_WIDE_PLAIN_H
#define SML_TESTS_WIDE_PLAIN_H

#include "core/base.h"

int32_t plain_double_exponent_of(const void *elements, size_t count);
void plain_double_to_limbs(const void *elements, size_t count, int32_t exponent, unsigned n_ranks,
			   void *lanes, size_t stride);
void plain_double_quantize_int32(const void *elements, size_t count, int32_t exponent,
				 unsigned n_ranks, void *lanes);
void plain_double_quantize_int16(const void *elements, size_t count, int32_t exponent,
				 unsigned n_ranks, void *lanes);
void plain_double_from_limbs(const void *lanes, size_t stride, size_t count, int32_t exponent,
			     unsigned n_ranks, unsigned divisor, void *elements);
void plain_double_dequantize_int32(const void *lanes, size_t count, int32_t exponent,
				   unsigned n_ranks, unsigned divisor, void *elements);
void plain_double_dequantize_int16(const void *lanes, size_t count, int32_t exponent,
				   unsigned n_ranks, unsigned divisor, void *elements);
void plain_int64_to_limbs(const void *elements, size_t count, unsigned n_ranks, void *lanes);
void plain_int64_from_limbs(const void *lanes, size_t count, unsigned n_ranks, unsigned divisor,
			    void *elements);

#endif
