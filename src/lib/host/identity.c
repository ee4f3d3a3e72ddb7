/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/host/identity.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* 36 characters and a newline. */
static bool read_boot(char text[37])
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, text, 36);
	close(fd);
	text[36] = '\0';
	return n == 36;
}

void sml_host_machine(char text[SML_HOST_MACHINE_BYTES])
{
	struct stat network, user;
	char boot[37];

	text[0] = '\0';
	if (!read_boot(boot) || stat("/proc/self/ns/net", &network) < 0 ||
	    stat("/proc/self/ns/user", &user) < 0)
		return;
	snprintf(text, SML_HOST_MACHINE_BYTES, "%s:%u:%" PRIu64 ":%" PRIu64, boot, geteuid(),
		 (uint64_t)network.st_ino, (uint64_t)user.st_ino);
}
