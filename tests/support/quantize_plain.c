/* SPDX-License-Identifier: BSD-3-Clause */
/* See quantize_plain.h. */
#include "support/quantize_plain.h"

#define SML_NO_MULTIVERSION
#define sml_headroom_bits	plain_headroom_bits
#define sml_exponent_of		plain_exponent_of
#define sml_quantize_int32	plain_quantize_int32
#define sml_quantize_narrow	plain_quantize_narrow
#define sml_dequantize_int32	plain_dequantize_int32
#define sml_dequantize_narrow	plain_dequantize_narrow
#define sml_float16_to_int32	plain_float16_to_int32
#define sml_float16_to_narrow	plain_float16_to_narrow
#define sml_float16_from_int32	plain_float16_from_int32
#define sml_float16_from_narrow plain_float16_from_narrow
#define sml_order_encode	plain_order_encode
#define sml_order_decode	plain_order_decode
#define sml_int32_encode	plain_int32_encode
#define sml_int32_decode	plain_int32_decode

#include "core/quantize.c"

#include "core/float16.c"

#include "core/order.c"
