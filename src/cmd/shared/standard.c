/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/shared/standard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void sml_standard_hold(void)
{
	/* Opened in the wrong direction, /dev/null fails like a closed descriptor. */
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			(void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int sml_standard_finish(const char *command, int status)
{
	if (status != 0 || (fflush(stdout) == 0 && !ferror(stdout)))
		return status;
	fprintf(stderr, "switchml %s: standard output cannot be written: %s\n", command,
		strerror(errno));
	return 1;
}
