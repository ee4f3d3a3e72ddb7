/* SPDX-License-Identifier: BSD-3-Clause */
/* The HTTP header Accept (RFC 9110, 12.5.1), as far as the metrics need it. */
#ifndef SML_CMD_SWITCH_ACCEPT_H
#define SML_CMD_SWITCH_ACCEPT_H

#include <stdbool.h>

#define SML_ACCEPT_OPEN_METRICS "application/openmetrics-text"
#define SML_ACCEPT_TEXT		"text/plain"

/*
 * Should the client get OpenMetrics? Only one that names it, or that takes no plain text. accept:
 * the header, or NULL if there is none.
 */
bool sml_accept_open_metrics(const char *accept);

#endif
