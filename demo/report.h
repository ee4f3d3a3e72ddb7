/* SPDX-License-Identifier: BSD-3-Clause */
/* What the user sees: a line that lives, a summary, a JSON file, an error. */
#ifndef SML_DEMO_REPORT_H
#define SML_DEMO_REPORT_H

#include "demo/options.h"
#include "demo/results.h"

/* Seconds of the monotonic clock. */
double demo_now(void);

/* "switchml-demo: rank 2: ...", in one write; rank -1 is left out. */
void demo_error(int rank, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Show where a run is. On a terminal the line is rewritten, ten times a second
 * at most; elsewhere a line every two seconds. `last` lines are always shown.
 */
void demo_progress(bool last, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * The numbers that went to the switch while all-reduces were under way, as a share of what a
 * link of options->link_mbit can carry of them in frames of 1500 bytes (14 more of Ethernet's are
 * counted, preamble and gap are not). A link that lets bursts pass can come out above 1.
 */
double demo_link_share(const struct demo_options *options, const struct demo_results *results);

void demo_summary(const struct demo_options *options, const struct demo_results *results);

/* Write the same as JSON. Returns 0, or a negative errno after an error line. */
int demo_json(const struct demo_options *options, const struct demo_results *results);

#endif
