/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A set of ranks of one job, of at most SML_MAX_WORLD. Every rank that is passed must be below
 * that: numbers from the network are checked first.
 */
#ifndef SML_JOB_COMMON_RANKS_H
#define SML_JOB_COMMON_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base.h"
#include "core/wire.h"

#define SML_RANKS_WORDS (SML_MAX_WORLD / 64)
#define SML_RANKS_BYTES (SML_MAX_WORLD / 8)

struct sml_ranks {
	uint64_t words[SML_RANKS_WORDS]; /* bit r % 64 of word r / 64: rank r */
};

static inline void sml_ranks_add(struct sml_ranks *ranks, unsigned rank)
{
	sml_assert(rank < SML_MAX_WORLD);
	ranks->words[rank / 64] |= (uint64_t)1 << rank % 64;
}

static inline void sml_ranks_remove(struct sml_ranks *ranks, unsigned rank)
{
	sml_assert(rank < SML_MAX_WORLD);
	ranks->words[rank / 64] &= ~((uint64_t)1 << rank % 64);
}

static inline bool sml_ranks_has(const struct sml_ranks *ranks, unsigned rank)
{
	sml_assert(rank < SML_MAX_WORLD);
	return ranks->words[rank / 64] >> rank % 64 & 1;
}

/* The lowest that is not below `from`; SML_MAX_WORLD: there is none. */
unsigned sml_ranks_next(const struct sml_ranks *ranks, unsigned from);

unsigned sml_ranks_count(const struct sml_ranks *ranks);
bool sml_ranks_is_empty(const struct sml_ranks *ranks);
bool sml_ranks_are_equal(const struct sml_ranks *a, const struct sml_ranks *b);

/* Add all of those; leave only those; take those away. */
void sml_ranks_unite(struct sml_ranks *ranks, const struct sml_ranks *those);
void sml_ranks_intersect(struct sml_ranks *ranks, const struct sml_ranks *those);
void sml_ranks_subtract(struct sml_ranks *ranks, const struct sml_ranks *those);

/* Ranks that a sentence names; it only counts the others. */
#define SML_RANKS_NAMED 16
/* Room for them. */
#define SML_RANKS_TEXT_BYTES 120

/*
 * "3", "3 and 7", "3, 7 and 58 others": at most SML_RANKS_NAMED of them, and the number of the
 * others. more: how many ranks to count in addition to the set. "": there is no rank.
 */
void sml_ranks_text(const struct sml_ranks *ranks, unsigned more, char *text, size_t bytes);

/* As bytes, the lowest ranks first, without zeros at the end. Returns their number. */
size_t sml_ranks_pack(const struct sml_ranks *ranks, uint8_t bytes[SML_RANKS_BYTES]);

/* False if a rank is not below n_ranks, or there are more bytes than n_ranks ranks need. */
bool sml_ranks_unpack(struct sml_ranks *ranks, const uint8_t *bytes, size_t n, unsigned n_ranks);

#endif
