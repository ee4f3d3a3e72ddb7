/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"

/* One line to stderr. If it is gone, the error cannot be reported anywhere. */
static void print(int rank, const char *text)
{
	char line[SML_TEXT_BYTES + 64];
	int n = snprintf(line, sizeof(line) - 1, "switchml[rank %d]: %s", rank, text);
	size_t length = n < 0 ? 0 : (size_t)n;

	if (length > sizeof(line) - 2)
		length = sizeof(line) - 2;
	line[length++] = '\n';
	if (write(STDERR_FILENO, line, length) < 0)
		return;
}

void sml_log(const struct sml_log *log, enum sml_log_level level, const char *format, ...)
{
	char text[SML_TEXT_BYTES + 32];
	int saved_errno = errno;
	va_list arguments;

	if ((int)level > log->level)
		return;
	va_start(arguments, format);
	if (vsnprintf(text, sizeof(text), format, arguments) < 0)
		text[0] = '\0';
	va_end(arguments);
	if (log->write)
		log->write(log->self, (int)level, text);
	else
		print(log->rank, text);
	errno = saved_errno;
}
