/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log has two summaries of a context: what runs when it has opened, and what it moved when it
 * closes.
 */
#ifndef SML_LIB_SUMMARY_H
#define SML_LIB_SUMMARY_H

#include "lib/context/context.h"

/* When it has opened: the form, the stripes, and what was chosen for them. */
void sml_log_choices(const struct sml_context *context);

/* When it closes: the counters, and each stripe's where there are several. */
void sml_log_counters(const struct sml_context *context);

#endif
