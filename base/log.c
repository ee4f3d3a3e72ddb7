/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"

void sml_log(const struct sml_log *log, enum sml_log_level level, const char *format, ...)
{
	char line[SML_TEXT_BYTES + 64];
	int saved_errno = errno;
	va_list arguments;
	size_t length;
	int n;

	if ((int)level > log->level)
		return;
	length = (size_t)snprintf(line, sizeof(line), "switchml[rank %d]: ", log->rank);
	va_start(arguments, format);
	n = vsnprintf(line + length, sizeof(line) - length - 1, format, arguments);
	va_end(arguments);
	if (n > 0)
		length += (size_t)n;
	if (length > sizeof(line) - 2)
		length = sizeof(line) - 2;
	line[length++] = '\n';
	/* If stderr is gone, the error cannot be reported anywhere. */
	if (write(STDERR_FILENO, line, length) < 0)
		errno = saved_errno;
	errno = saved_errno;
}
