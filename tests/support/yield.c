/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A preloaded library: who yields the processor sleeps. MPI's processes wait in loops that yield,
 * and take all cores from the tests beside them.
 */
#include <time.h>

int sched_yield(void);

int sched_yield(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
	return 0;
}
