/* SPDX-License-Identifier: BSD-3-Clause */
/* See quantize_plain.h. */
#include "support/quantize_plain.h"

#define SML_NO_MULTIVERSION
#define sml_headroom_bits      plain_headroom_bits
#define sml_exponent_of	       plain_exponent_of
#define sml_exponents_of       plain_exponents_of
#define sml_quantize	       plain_quantize_run
#define sml_add_residual       plain_add_residual
#define sml_dequantize	       plain_dequantize_run
#define sml_float16_quantize   plain_float16_quantize
#define sml_float16_dequantize plain_float16_dequantize
#define sml_order_encode       plain_order_encode
#define sml_order_decode       plain_order_decode
#define sml_int32_encode       plain_int32_encode
#define sml_int32_decode       plain_int32_decode

#include "core/quantize.c"

#include "core/float16.c"

#include "core/order.c"
