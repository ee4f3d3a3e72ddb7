/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers that look random and are the same on every machine: splitmix64.
 * Everything in the demo that is drawn comes from here, so that all ranks and
 * the single-process run draw the same.
 */
#ifndef SML_DEMO_RANDOM_H
#define SML_DEMO_RANDOM_H

#include <stdint.h>

struct demo_random {
	uint64_t state;
};

static inline uint64_t demo_random_next(struct demo_random *random)
{
	uint64_t z = random->state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* In [-1, 1), every value a multiple of 2^-23: exact in float32. */
static inline float demo_random_float(struct demo_random *random)
{
	return (float)((int32_t)(demo_random_next(random) >> 40) - (1 << 23)) * 0x1p-23f;
}

/* In [0, n). The bias of the remainder is n / 2^64. */
static inline int demo_random_below(struct demo_random *random, int n)
{
	return (int)(demo_random_next(random) % (uint64_t)n);
}

#endif
