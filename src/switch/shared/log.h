/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The switch's log, on standard error:
 *
 *	2026-11-22T16:26:03.125Z switchml switch: warn: the connection of 10.0.0.7 was refused
 *
 * Each line is one write. Never used for single packets.
 */
#ifndef SML_SWITCH_SHARED_LOG_H
#define SML_SWITCH_SHARED_LOG_H

#include <stddef.h>

#include "base/log.h"

#define SML_LOG_TIME_BYTES 32
#define SML_LOG_LINE_BYTES 2048

struct sml_log_entry {
	char time[SML_LOG_TIME_BYTES]; /* UTC, RFC 3339 with milliseconds */
	const char *level;	       /* "error", "warn", "info", "trace" */
	const char *text;
	int descriptor; /* where the line is written: standard output or error */
};

/* Any thread. */
__attribute__((format(printf, 2, 3))) void sml_switch_log(enum sml_log_level level,
							  const char *format, ...);

/*
 * The line for a text, with its newline, as the log would have it now on this descriptor. Returns
 * its length.
 */
size_t sml_switch_log_line(char line[SML_LOG_LINE_BYTES], int descriptor, enum sml_log_level level,
			   const char *text);

/* From now on: at SML_LOG_ERROR, only errors are written. Any thread. */
void sml_switch_log_set_level(int level);

/* "error", "warn", "info" or "trace". */
const char *sml_log_level_name(int level);

/*
 * From now on, this function makes the lines: it returns a line's length without a newline, or 0,
 * and then the line has the usual form. Called before the switch has threads.
 */
void sml_switch_log_set_form(size_t (*form)(char *line, size_t bytes,
					    const struct sml_log_entry *entry));

#endif
