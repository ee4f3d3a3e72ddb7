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
void plain_quantize_int32(enum sml_type type, const void *elements, size_t count, int32_t exponent,
			  unsigned n_ranks, void *lanes);
void plain_quantize_narrow(unsigned width, enum sml_type type, const void *elements, size_t count,
			   int32_t exponent, unsigned n_ranks, void *lanes);
void plain_dequantize_int32(enum sml_type type, const void *lanes, size_t count, int32_t exponent,
			    unsigned n_ranks, unsigned divisor, void *elements);
void plain_dequantize_narrow(unsigned width, enum sml_type type, const void *lanes, size_t count,
			     int32_t exponent, unsigned n_ranks, unsigned divisor, void *elements);
void plain_order_encode(enum sml_type type, const void *elements, size_t count, bool minimum,
			void *lanes);
void plain_order_decode(enum sml_type type, const void *lanes, size_t count, bool minimum,
			void *elements);
void plain_int32_encode(const void *elements, size_t count, void *lanes);
void plain_int32_decode(const void *lanes, size_t count, unsigned divisor, void *elements);

#endif
