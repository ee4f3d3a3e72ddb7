/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Convert runs of float16 to float32 and back, with the machine's instructions
 * if it has them (x86's F16C), and with element.h otherwise. The bits are the
 * same.
 */
#ifndef SML_CORE_FLOAT16_H
#define SML_CORE_FLOAT16_H

#include <stddef.h>
#include <stdint.h>

/* Exact. floats are the bits of float32. The two must not overlap. */
void sml_float16_widen_run(const void *halves, size_t count, uint32_t *floats);

/* To nearest, ties to even. Not for NaN. The two must not overlap. */
void sml_float16_narrow_run(const uint32_t *floats, size_t count, void *halves);

#endif
