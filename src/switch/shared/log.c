/* SPDX-License-Identifier: BSD-3-Clause */
#include "switch/shared/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static size_t (*form_of_lines)(char *line, size_t bytes, const struct sml_log_entry *entry);

void sml_switch_log_set_form(size_t (*form)(char *line, size_t bytes,
					    const struct sml_log_entry *entry))
{
	form_of_lines = form;
}

static int written = SML_LOG_TRACE; /* atomic */

void sml_switch_log_set_level(int level)
{
	__atomic_store_n(&written, level, __ATOMIC_RELAXED);
}

const char *sml_log_level_name(int level)
{
	switch ((enum sml_log_level)level) {
	case SML_LOG_ERROR:
		return "error";
	case SML_LOG_WARN:
		return "warn";
	case SML_LOG_INFO:
		return "info";
	case SML_LOG_TRACE:
		return "trace";
	}
	return "unknown";
}

static void write_time(char text[SML_LOG_TIME_BYTES])
{
	struct timespec now;
	struct tm utc;
	size_t n;

	clock_gettime(CLOCK_REALTIME, &now);
	n = gmtime_r(&now.tv_sec, &utc) != NULL
		    ? strftime(text, SML_LOG_TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &utc)
		    : 0;
	snprintf(text + n, SML_LOG_TIME_BYTES - n, ".%03ldZ", now.tv_nsec / 1000000);
}

size_t sml_switch_log_line(char line[SML_LOG_LINE_BYTES], int descriptor, enum sml_log_level level,
			   const char *text)
{
	const size_t most = SML_LOG_LINE_BYTES - 1; /* without the newline */
	struct sml_log_entry entry = {
		.level = sml_log_level_name(level), .text = text, .descriptor = descriptor};
	size_t n = 0;
	int whole;

	write_time(entry.time);
	if (form_of_lines != NULL)
		n = form_of_lines(line, most, &entry);
	if (n == 0) {
		whole = snprintf(line, most, "%s switchml switch: %s: %s", entry.time, entry.level,
				 text);
		n = whole > 0 ? (size_t)whole : 0;
	}
	if (n > most - 1)
		n = most - 1;
	line[n++] = '\n';
	return n;
}

void sml_switch_log(enum sml_log_level level, const char *format, ...)
{
	char line[SML_LOG_LINE_BYTES], text[SML_LOG_LINE_BYTES / 2];
	int saved_errno = errno;
	va_list arguments;

	if (level > SML_LOG_ERROR && __atomic_load_n(&written, __ATOMIC_RELAXED) < SML_LOG_WARN)
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	sml_stderr_write(line, sml_switch_log_line(line, STDERR_FILENO, level, text));
	errno = saved_errno;
}
