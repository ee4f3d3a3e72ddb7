/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A status as text for Prometheus. At most SML_METRICS_JOBS jobs and SML_METRICS_RANKS ranks have
 * series at a time, so strangers' job names cannot fill a database at once.
 */
#ifndef SML_CMD_SWITCH_METRICS_TEXT_H
#define SML_CMD_SWITCH_METRICS_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "control.pb-c.h"

#define SML_METRICS_JOBS  64
#define SML_METRICS_RANKS 1024

/*
 * open_metrics: OpenMetrics 1.0; or the text format 0.0.4. The caller frees it; NULL if there is no
 * memory.
 */
char *sml_metrics_text(const SmlControl__Status *status, bool open_metrics, size_t *bytes);

#endif
