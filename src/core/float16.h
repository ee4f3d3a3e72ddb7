/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * float16 to lanes and back with the machine's own conversion (x86's F16C, with AVX2): widening,
 * scaling, rounding and the order of bytes in one pass. The bits are those of quantize.c's loops.
 *
 * Each function returns false, and has done nothing, on machines without these instructions.
 * Elements and lanes must not overlap.
 */
#ifndef SML_CORE_FLOAT16_H
#define SML_CORE_FLOAT16_H

#include "core/quantize.h"

/* As sml_quantize() and sml_dequantize(); a sum's unit is 2^(E - bits) before it is rounded. */
bool sml_float16_quantize(unsigned width, const void *halves, size_t count,
			  const struct sml_blocks *blocks, int32_t bits, void *lanes);
bool sml_float16_dequantize(unsigned width, const void *lanes, size_t count,
			    const struct sml_blocks *blocks, int32_t bits, unsigned divisor,
			    void *halves);

#endif
