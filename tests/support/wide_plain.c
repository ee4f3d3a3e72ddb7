/* SPDX-License-Identifier: BSD-3-Clause */
/* See wide_plain.h. */
#include "support/wide_plain.h"

#define SML_NO_MULTIVERSION
#define sml_double_exponent_of	    plain_double_exponent_of
#define sml_double_to_limbs	    plain_double_to_limbs
#define sml_double_quantize_int32   plain_double_quantize_int32
#define sml_double_quantize_int16   plain_double_quantize_int16
#define sml_double_from_limbs	    plain_double_from_limbs
#define sml_double_dequantize_int32 plain_double_dequantize_int32
#define sml_double_dequantize_int16 plain_double_dequantize_int16
#define sml_int64_to_limbs	    plain_int64_to_limbs
#define sml_int64_from_limbs	    plain_int64_from_limbs

#include "core/wide.c"
