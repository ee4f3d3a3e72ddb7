/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log has two summaries of a context: what runs when it has opened, and what it moved when it
 * closes. Of both, rank 0 logs a short line for people, and each rank logs the details at `info`.
 */
#ifndef SML_LIB_SUMMARY_H
#define SML_LIB_SUMMARY_H

#include "lib/context/context.h"

/*
 * Rank 0's line when the job begins: at most 120 columns on a terminal. To be called before a
 * failover can begin, as sml_log_choices().
 */
void sml_log_start(const struct sml_context *context);

/* Rank 0's line when it ends, well (0) or with an error. */
void sml_log_end(struct sml_context *context, int error);

/*
 * Where numbers are added, and as text: "the switch at tor1:28500 (udp)", "3 switches (udp), the
 * first at tor1:28500". kind: " (udp)", or "" where a failover may be changing it. Without a job,
 * the text is not written.
 */
enum sml_job_path sml_context_path(const struct sml_context *context, const char *kind, char *text,
				   size_t bytes);

/* When it has opened: the form, the stripes, and what was chosen for them. */
void sml_log_choices(const struct sml_context *context);

/* When it closes: the counters, and each stripe's where there are several. */
void sml_log_counters(const struct sml_context *context);

#endif
