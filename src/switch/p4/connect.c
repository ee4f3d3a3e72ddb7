/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection to a P4 switch's control port: see connect.h. */
#include "switch/p4/connect.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define TIMEOUT_S 10

static int try(const struct addrinfo *address)
{
	const struct timeval timeout = {.tv_sec = TIMEOUT_S};
	int one = 1, rc;
	int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) == 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) == 0 &&
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0 &&
	    connect(fd, address->ai_addr, address->ai_addrlen) == 0)
		return fd;
	/* With a limit of time, connect() says at its end that it goes on. */
	rc = errno == EINPROGRESS ? -ETIMEDOUT : -errno;
	close(fd);
	return rc;
}

int sml_p4_connect(const char *host, uint16_t port, const char **why)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *addresses;
	char service[8];
	int fd = -EHOSTUNREACH, unknown;

	snprintf(service, sizeof(service), "%u", port);
	unknown = getaddrinfo(host, service, &hints, &addresses);
	if (unknown != 0) {
		*why = gai_strerror(unknown);
		return fd;
	}
	for (const struct addrinfo *each = addresses; each != NULL && fd < 0; each = each->ai_next)
		fd = try(each);
	freeaddrinfo(addresses);
	if (fd < 0)
		*why = strerror(-fd);
	return fd;
}
