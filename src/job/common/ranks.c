/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/common/ranks.h"

#include <stdio.h>
#include <string.h>

#include "base/plural.h"

unsigned sml_ranks_next(const struct sml_ranks *ranks, unsigned from)
{
	uint64_t rest;

	for (unsigned word = from / 64; word < SML_RANKS_WORDS; word++) {
		rest = ranks->words[word];
		if (word == from / 64)
			rest &= ~(uint64_t)0 << from % 64;
		if (rest != 0)
			return word * 64 + (unsigned)__builtin_ctzll(rest);
	}
	return SML_MAX_WORLD;
}

unsigned sml_ranks_count(const struct sml_ranks *ranks)
{
	unsigned n = 0;

	for (unsigned i = 0; i < SML_RANKS_WORDS; i++)
		n += (unsigned)__builtin_popcountll(ranks->words[i]);
	return n;
}

bool sml_ranks_is_empty(const struct sml_ranks *ranks)
{
	return sml_ranks_next(ranks, 0) == SML_MAX_WORLD;
}

bool sml_ranks_are_equal(const struct sml_ranks *a, const struct sml_ranks *b)
{
	return memcmp(a->words, b->words, sizeof(a->words)) == 0;
}

void sml_ranks_unite(struct sml_ranks *ranks, const struct sml_ranks *those)
{
	for (unsigned i = 0; i < SML_RANKS_WORDS; i++)
		ranks->words[i] |= those->words[i];
}

void sml_ranks_intersect(struct sml_ranks *ranks, const struct sml_ranks *those)
{
	for (unsigned i = 0; i < SML_RANKS_WORDS; i++)
		ranks->words[i] &= those->words[i];
}

void sml_ranks_subtract(struct sml_ranks *ranks, const struct sml_ranks *those)
{
	for (unsigned i = 0; i < SML_RANKS_WORDS; i++)
		ranks->words[i] &= ~those->words[i];
}

/* ---- as text ---- */

void sml_ranks_text(const struct sml_ranks *ranks, unsigned more, char *text, size_t bytes)
{
	unsigned n = sml_ranks_count(ranks), rank = sml_ranks_next(ranks, 0);
	/* A number is as short as "1 other". */
	unsigned named = n + more <= SML_RANKS_NAMED + 1 ? n : SML_RANKS_NAMED;
	unsigned others = n > named ? n - named + more : more;
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < named && i < n && used < bytes; i++) {
		used += (size_t)snprintf(text + used, bytes - used, "%s%u",
					 i == 0				 ? ""
					 : i + 1 == named && others == 0 ? " and "
									 : ", ",
					 rank);
		rank = sml_ranks_next(ranks, rank + 1);
	}
	if (others > 0 && used < bytes)
		snprintf(text + used, bytes - used, "%s%u other%s", used ? " and " : "", others,
			 sml_plural(others));
}

/* ---- as bytes ---- */

size_t sml_ranks_pack(const struct sml_ranks *ranks, uint8_t bytes[SML_RANKS_BYTES])
{
	size_t n = 0;

	for (size_t i = 0; i < SML_RANKS_BYTES; i++) {
		bytes[i] = (uint8_t)(ranks->words[i / 8] >> 8 * (i % 8));
		if (bytes[i] != 0)
			n = i + 1;
	}
	return n;
}

bool sml_ranks_unpack(struct sml_ranks *ranks, const uint8_t *bytes, size_t n, unsigned n_ranks)
{
	*ranks = (struct sml_ranks){{0}};
	if (n_ranks > SML_MAX_WORLD || n > (n_ranks + 7u) / 8)
		return false;
	for (size_t i = 0; i < n; i++)
		ranks->words[i / 8] |= (uint64_t)bytes[i] << 8 * (i % 8);
	return n_ranks == SML_MAX_WORLD || sml_ranks_next(ranks, n_ranks) == SML_MAX_WORLD;
}
