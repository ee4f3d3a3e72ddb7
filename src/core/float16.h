/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * float16 to lanes and back with the machine's own conversion (x86's F16C, with AVX2): widening,
 * scaling, rounding and the order of bytes in one pass. The bits are those of quantize.c's loops,
 * which convert the remaining elements.
 *
 * Each function returns how many of the first elements it has converted, which is 0 on machines
 * without these instructions. Elements and lanes must not overlap.
 */
#ifndef SML_CORE_FLOAT16_H
#define SML_CORE_FLOAT16_H

#include <stddef.h>

/* How the elements of one block become integers: see quantize.c. */
struct sml_scale {
	float first, second;
	float limit; /* of |y|, an integer */
};

size_t sml_float16_to_int32(const void *halves, size_t count, const struct sml_scale *scale,
			    void *lanes);
/* Lanes of 16 or 8 bits. */
size_t sml_float16_to_narrow(unsigned width, const void *halves, size_t count,
			     const struct sml_scale *scale, void *lanes);

/* The product of a sum and the two factors becomes an element. */
size_t sml_float16_from_int32(const void *lanes, size_t count, float first, float second,
			      void *halves);
size_t sml_float16_from_narrow(unsigned width, const void *lanes, size_t count, float first,
			       float second, void *halves);

#endif
