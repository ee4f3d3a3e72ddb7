/* SPDX-License-Identifier: BSD-3-Clause */
/* The library's only clocks, in nanoseconds: monotonic time, and the processor time of a thread. */
#ifndef SML_BASE_CLOCK_H
#define SML_BASE_CLOCK_H

#include <limits.h>
#include <stdint.h>
#include <time.h>

#define SML_NS_PER_MS  1000000ull
#define SML_NS_PER_SEC 1000000000ull

static inline uint64_t sml_clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * SML_NS_PER_SEC + (uint64_t)now.tv_nsec;
}

static inline uint64_t sml_now_ns(void)
{
	return sml_clock_ns(CLOCK_MONOTONIC);
}

/* For poll(): until then, rounded up, because a time is never early. */
static inline int sml_left_ms(uint64_t until_ns)
{
	uint64_t now_ns = sml_now_ns(), left_ms;

	if (until_ns <= now_ns)
		return 0;
	left_ms = (until_ns - now_ns - 1) / SML_NS_PER_MS + 1;
	return left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

/* What this thread has used: other load on the machine does not count. */
static inline uint64_t sml_cpu_ns(void)
{
	return sml_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static inline struct timespec sml_timespec(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / SML_NS_PER_SEC),
				 .tv_nsec = (long)(ns % SML_NS_PER_SEC)};
}

#endif
