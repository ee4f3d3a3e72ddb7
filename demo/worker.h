/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of one rank: open, train, prove, close; rank 0 also reports. */
#ifndef SML_DEMO_WORKER_H
#define SML_DEMO_WORKER_H

#include "demo/options.h"

/*
 * What the demo's processes return. INTERRUPTED is what a shell expects of a
 * program that Ctrl-C ended.
 */
enum { DEMO_GOOD = 0, DEMO_FAILED = 1, DEMO_INTERRUPTED = 130 };

/*
 * Be the rank that config says. Returns one of the above; anything but
 * DEMO_GOOD has been explained on standard error. From the moment that the job
 * has formed, SIGINT and SIGTERM make all ranks stop after the same step; a
 * second one kills.
 */
int demo_worker(const struct demo_options *options, const struct sml_config *config);

#endif
