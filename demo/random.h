/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pseudorandom numbers that are the same on every machine: splitmix64. The demo draws all
 * its numbers here, so that all ranks and the single-process run draw the same numbers.
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

/* In [-1, 1). Every value is a multiple of 2^-23, which float32 holds exactly. */
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
