/* SPDX-License-Identifier: BSD-3-Clause */
/* The output for the user: a progress line, a summary, a JSON file, an error. */
#ifndef SML_DEMO_REPORT_H
#define SML_DEMO_REPORT_H

#include "demo/options.h"
#include "demo/results.h"

/* Seconds of the monotonic clock. */
double demo_now(void);

/* Print "switchml-demo: rank 2: ..." in one write. Rank -1 is left out. */
void demo_error(int rank, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Show the progress of a run. A terminal shows one line, rewritten at most ten times per
 * second. Other outputs get a line every two seconds. `last` lines are always shown.
 */
void demo_progress(bool last, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * The numbers sent to the switch during all-reduces, as a share of what a link of
 * options->link_mbit can carry in frames of 1500 bytes (including 14 bytes of Ethernet
 * header, without preamble and gap). The result can exceed 1 on a link that lets bursts
 * pass.
 */
double demo_link_share(const struct demo_options *options, const struct demo_results *results);

void demo_summary(const struct demo_options *options, const struct demo_results *results);

/* Write the same numbers as JSON. Returns 0, or a negative errno after an error line. */
int demo_json(const struct demo_options *options, const struct demo_results *results);

#endif
