/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `switchml switch --metrics`: the switch's status over HTTP, for Prometheus. A separate thread
 * serves it, and asks the control thread for the status at most four times a second, however many
 * clients ask. What a client does or fails to do costs only this thread, and is bounded.
 */
#ifndef SML_CMD_SWITCH_METRICS_H
#define SML_CMD_SWITCH_METRICS_H

#include <stdbool.h>
#include <stddef.h>

#include "control.pb-c.h"

struct sml_metrics;
struct sml_switch;

/*
 * Listen on "ADDR", "ADDR:PORT", "[V6]:PORT" or ":PORT"; without an address on the loopback. Before
 * the process gives up its privileges. 0, or a negative errno: sml_error_last() says why.
 */
int sml_metrics_open(struct sml_metrics **opened, const char *listen);

/* Serve, with the status of this switch, until it is closed. Before system calls are restricted. */
int sml_metrics_start(struct sml_metrics *metrics, struct sml_switch *source);

/* "http://127.0.0.1:28501/metrics" */
void sml_metrics_where(const struct sml_metrics *metrics, char *text, size_t bytes);

/* Call this before the switch is closed. NULL is allowed. */
void sml_metrics_close(struct sml_metrics *metrics);

/*
 * ---- a status as text (metrics_text.c) ----
 *
 * At most SML_METRICS_JOBS jobs and SML_METRICS_RANKS ranks have series at a time, so strangers'
 * job names cannot fill a database at once.
 */

#define SML_METRICS_JOBS  64
#define SML_METRICS_RANKS 1024

/*
 * open_metrics: OpenMetrics 1.0; or the text format 0.0.4. The caller frees it; NULL if there is no
 * memory.
 */
char *sml_metrics_text(const SmlControl__Status *status, bool open_metrics, size_t *bytes);

#endif
