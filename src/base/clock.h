/* SPDX-License-Identifier: BSD-3-Clause */
/* The library's only clocks, in nanoseconds: monotonic time, and the processor time of a thread. */
#ifndef SML_BASE_CLOCK_H
#define SML_BASE_CLOCK_H

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
