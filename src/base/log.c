/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

void sml_stderr_write(const char *bytes, size_t n)
{
	const struct timespec no_time = {0};
	sigset_t broken_pipe, pending, before;

	sigemptyset(&broken_pipe);
	sigaddset(&broken_pipe, SIGPIPE);
	if (pthread_sigmask(SIG_BLOCK, &broken_pipe, &before) != 0)
		return;
	sigemptyset(&pending);
	(void)sigpending(&pending);
	/* If stderr is gone, the error cannot be reported anywhere. */
	if (write(STDERR_FILENO, bytes, n) < 0 && errno == EPIPE && !sigismember(&pending, SIGPIPE))
		while (sigtimedwait(&broken_pipe, NULL, &no_time) < 0 && errno == EINTR)
			;
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* One line to stderr. */
static void print(int rank, const char *text)
{
	char line[SML_TEXT_BYTES + 64];
	int n = snprintf(line, sizeof(line) - 1, "switchml[rank %d]: %s", rank, text);
	size_t length = n < 0 ? 0 : (size_t)n;

	if (length > sizeof(line) - 2)
		length = sizeof(line) - 2;
	line[length++] = '\n';
	sml_stderr_write(line, length);
}

void sml_log(const struct sml_log *log, enum sml_log_level level, const char *format, ...)
{
	char text[SML_TEXT_BYTES + 32];
	int saved_errno = errno;
	va_list arguments;

	if (level > log->level)
		return;
	va_start(arguments, format);
	if (vsnprintf(text, sizeof(text), format, arguments) < 0)
		text[0] = '\0';
	va_end(arguments);
	if (log->write)
		log->write(log->self, level, text);
	else
		print(log->rank, text);
	errno = saved_errno;
}
