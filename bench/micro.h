/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs that measure single parts share. */
#ifndef SML_BENCH_MICRO_H
#define SML_BENCH_MICRO_H

#include <err.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The CPU time of this thread, so that other load on the machine does not count. */
static inline double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Its pages are touched before the clock runs. */
static inline void *memory_of(size_t bytes, int byte)
{
	void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);

	if (memory == NULL)
		err(1, "%zu bytes", bytes);
	memset(memory, byte, bytes);
	return memory;
}

/* Argument i, or the usual value if there is none. */
static inline uint32_t number(int argc, char **argv, int i, uint32_t usual, uint32_t most)
{
	unsigned long value;
	char *end;

	if (i >= argc)
		return usual;
	value = strtoul(argv[i], &end, 10);
	if (*end || value < 1 || value > most)
		errx(2, "'%s': a number from 1 to %u", argv[i], most);
	return (uint32_t)value;
}

#endif
