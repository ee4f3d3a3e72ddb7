/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BOOT_ID_BYTES 40

uint64_t sml_hash_text(uint64_t hash, const char *text)
{
	hash ^= 0xcbf29ce484222325;
	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
	return hash;
}

/* The kernel's boot id: equal for all processes of a machine. "" if it cannot be read. */
static void read_boot_id(char id[BOOT_ID_BYTES])
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, id, BOOT_ID_BYTES - 1);

	if (fd >= 0)
		close(fd);
	id[length > 0 ? length : 0] = '\0';
	id[strcspn(id, "\n")] = '\0';
}

uint64_t sml_host_hash(void)
{
	char text[256];
	ssize_t length;
	uint64_t hash;

	read_boot_id(text);
	hash = sml_hash_text(0, text);
	length = readlink("/proc/self/ns/net", text, sizeof(text) - 1);
	text[length > 0 ? length : 0] = '\0';
	hash = sml_hash_text(hash, text);
	if (gethostname(text, sizeof(text)) < 0)
		text[0] = '\0';
	text[sizeof(text) - 1] = '\0';
	return sml_hash_text(hash, text);
}

void sml_host_machine(char text[SML_HOST_MACHINE_BYTES])
{
	struct stat network, user;
	char boot[BOOT_ID_BYTES];

	text[0] = '\0';
	read_boot_id(boot);
	if (boot[0] == '\0' || stat("/proc/self/ns/net", &network) < 0 ||
	    stat("/proc/self/ns/user", &user) < 0)
		return;
	snprintf(text, SML_HOST_MACHINE_BYTES, "%s:%u:%" PRIu64 ":%" PRIu64, boot, geteuid(),
		 (uint64_t)network.st_ino, (uint64_t)user.st_ino);
}
