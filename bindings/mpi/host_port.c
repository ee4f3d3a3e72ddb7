/* SPDX-License-Identifier: BSD-3-Clause */
#include "bindings/mpi/communicator.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define TRIES 256

/* FNV-1a: equal strings have equal hashes, and other strings do not by chance. */
static uint64_t add(uint64_t hash, const char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3;
	return hash;
}

void sml_mpi_host_name(char *name, size_t bytes)
{
	if (gethostname(name, bytes) < 0)
		snprintf(name, bytes, "localhost");
	name[bytes - 1] = '\0';
}

/*
 * The boot of the kernel, the host's name, and the network namespace: containers may have
 * their own.
 */
uint64_t sml_mpi_host(void)
{
	uint64_t hash = 0xcbf29ce484222325;
	char text[256];
	ssize_t length;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		length = read(fd, text, sizeof(text));
		if (length > 0)
			hash = add(hash, text, (size_t)length);
		close(fd);
	}
	length = readlink("/proc/self/ns/net", text, sizeof(text));
	if (length > 0)
		hash = add(hash, text, (size_t)length);
	sml_mpi_host_name(text, sizeof(text));
	return add(hash, text, strlen(text));
}

static bool is_free(int port)
{
	const struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_ANY),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	bool free;

	if (fd < 0)
		return false;
	/* As in the switch: connections of a job that has ended do not count. */
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	free = bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
	close(fd);
	return free;
}

int sml_mpi_free_port(const struct sml_mpi_ports *ports)
{
	uint32_t n = (uint32_t)(ports->last - ports->first) + 1, start = 0;

	if (ports->random && getrandom(&start, sizeof(start), 0) != (ssize_t)sizeof(start))
		return 0;
	for (uint32_t i = 0; i < n && i < TRIES; i++) {
		int port = ports->first + (int)((start % n + i) % n);

		if (is_free(port))
			return port;
	}
	return 0;
}
