/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one source of random choices for all tests: a seed (many runs), an enumeration of all
 * choices (small worlds), or a fuzzer's bytes. A property is written once against
 * gen_below(), and all three drive it.
 */
#ifndef SML_SIM_GEN_H
#define SML_SIM_GEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GEN_MAX_DEPTH 4096

struct gen {
	enum { GEN_SEED, GEN_BYTES, GEN_ALL } mode;
	uint64_t state;	      /* GEN_SEED */
	const uint8_t *bytes; /* GEN_BYTES: after the last byte, every choice is 0 */
	size_t n_bytes;
	/* GEN_ALL: the current path of choices, and the number of choices at each step. */
	uint32_t depth, length;
	uint32_t choice[GEN_MAX_DEPTH], limit[GEN_MAX_DEPTH];
};

static inline void gen_from_seed(struct gen *gen, uint64_t seed)
{
	gen->mode = GEN_SEED;
	gen->state = seed;
}

static inline void gen_from_bytes(struct gen *gen, const uint8_t *bytes, size_t n_bytes)
{
	gen->mode = GEN_BYTES;
	gen->bytes = bytes;
	gen->n_bytes = n_bytes;
}

static inline void gen_from_all(struct gen *gen)
{
	gen->mode = GEN_ALL;
	gen->depth = 0;
	gen->length = 0;
}

/* GEN_ALL: step to the next path. False: all paths are done. */
static inline bool gen_next_path(struct gen *gen)
{
	gen->length = gen->depth;
	while (gen->length > 0 && gen->choice[gen->length - 1] + 1 >= gen->limit[gen->length - 1])
		gen->length--;
	if (gen->length == 0)
		return false;
	gen->choice[gen->length - 1]++;
	gen->depth = 0;
	return true;
}

/* SplitMix64 (Steele, Lea, Flood 2014). */
static inline uint64_t gen_u64(struct gen *gen)
{
	uint64_t z = gen->state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* A choice among 0 … n - 1. Requires n >= 1. */
static inline uint32_t gen_below(struct gen *gen, uint32_t n)
{
	uint32_t value = 0;

	if (n <= 1)
		return 0;
	switch (gen->mode) {
	case GEN_SEED:
		return (uint32_t)((gen_u64(gen) >> 32) * n >> 32);
	case GEN_BYTES:
		for (uint32_t span = n - 1; span > 0 && gen->n_bytes > 0; span >>= 8) {
			value = value << 8 | *gen->bytes++;
			gen->n_bytes--;
		}
		return value % n;
	case GEN_ALL:
		if (gen->depth == gen->length && gen->length < GEN_MAX_DEPTH) {
			gen->choice[gen->length] = 0;
			gen->limit[gen->length++] = n;
		}
		if (gen->depth >= gen->length)
			return 0;
		return gen->choice[gen->depth++];
	}
	return 0;
}

/* lowest … highest, both included. */
static inline uint32_t gen_range(struct gen *gen, uint32_t lowest, uint32_t highest)
{
	return lowest + gen_below(gen, highest - lowest + 1);
}

/* True n times out of `of`. */
static inline bool gen_chance(struct gen *gen, uint32_t n, uint32_t of)
{
	return gen_below(gen, of) < n;
}

#endif
