/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that detects writes outside it. Under AddressSanitizer, it is an allocation of
 * exactly that size. Otherwise, it is between guard bytes.
 */
#ifndef SML_TESTS_GUARD_H
#define SML_TESTS_GUARD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define GUARD_BYTES 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GUARD_BYTES 0
#endif
#endif
#ifndef GUARD_BYTES
#define GUARD_BYTES 64
#endif
#define GUARD_VALUE 0x5a

struct guarded {
	uint8_t *bytes; /* 64-byte aligned */
	size_t n;
	void *block;
};

static inline struct guarded guard_take(size_t n)
{
	struct guarded memory = {.n = n};

	if (posix_memalign(&memory.block, 64, n + 2 * GUARD_BYTES + (GUARD_BYTES == 0 && n == 0)))
		abort();
	memset(memory.block, GUARD_VALUE, n + 2 * GUARD_BYTES);
	memory.bytes = (uint8_t *)memory.block + GUARD_BYTES;
	return memory;
}

static inline bool guard_is_whole(const struct guarded *memory)
{
	const uint8_t *before = memory->block, *behind;

	if (before == NULL)
		return true;
	behind = memory->bytes + memory->n;
	for (int i = 0; i != GUARD_BYTES; i++)
		if (before[i] != GUARD_VALUE || behind[i] != GUARD_VALUE)
			return false;
	return true;
}

/* False: something wrote outside it. */
static inline bool guard_give(struct guarded *memory)
{
	bool whole = guard_is_whole(memory);

	free(memory->block);
	*memory = (struct guarded){0};
	return whole;
}

#endif
