/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of one rank: open, train, prove, close. Rank 0 also reports. */
#ifndef SML_DEMO_WORKER_H
#define SML_DEMO_WORKER_H

#include "demo/options.h"

/*
 * Exit statuses of the demo's processes. INTERRUPTED is what a shell expects from a program
 * that Ctrl-C ended.
 */
enum { DEMO_GOOD = 0, DEMO_FAILED = 1, DEMO_INTERRUPTED = 130 };

/*
 * Run as the rank given in config. Returns one of the above. Any status but DEMO_GOOD has
 * been explained on standard error. After the job has formed, the first SIGINT or SIGTERM
 * makes all ranks stop after the same step, and a second one kills.
 */
int demo_worker(const struct demo_options *options, const struct sml_config *config);

#endif
