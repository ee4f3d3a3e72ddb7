/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log lines, to the application's function or to stderr: "switchml[rank 2]: ...". On stderr, each
 * line is one write, so that the lines of several ranks on one terminal do not mix. Never used on
 * the data path.
 */
#ifndef SML_BASE_LOG_H
#define SML_BASE_LOG_H

#include <stddef.h>

#include "switchml.h"

struct sml_log {
	enum sml_log_level level; /* higher levels are not written */
	int rank;
	/* NULL for stderr. Any thread, perhaps with locks held: see include/switchml.h. */
	void (*write)(void *self, enum sml_log_level level, const char *text);
	void *self;
};

__attribute__((format(printf, 3, 4))) void
sml_log(const struct sml_log *log, enum sml_log_level level, const char *format, ...);

/*
 * To standard error, if it still exists. To a pipe without a reader, write() raises SIGPIPE in this
 * thread, which may be the application's, and would end the process. So the signal that this
 * write raises is taken back; one that was pending before stays.
 */
void sml_stderr_write(const char *bytes, size_t n);

#endif
