/* SPDX-License-Identifier: BSD-3-Clause */
/* The smaller and the larger of two numbers, and the earlier and the later of two times of one
 * clock. */
#ifndef SML_BASE_LEAST_H
#define SML_BASE_LEAST_H

#include <stdint.h>

static inline uint32_t sml_least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static inline uint32_t sml_most(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static inline uint64_t sml_earlier(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns < b_ns ? a_ns : b_ns;
}

static inline uint64_t sml_later(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns > b_ns ? a_ns : b_ns;
}

#endif
