/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/connect.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fork.h"

#define MOST_ADDRESSES 16

int sml_resolve(const char *host, uint16_t port, union sml_sockaddr *found, int room)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *all;
	char service[8];
	int n = 0, error;

	snprintf(service, sizeof(service), "%u", port);
	error = getaddrinfo(host, service, &hints, &all);
	if (error)
		return error < 0 ? error : EAI_FAIL;
	for (const struct addrinfo *info = all; info && n < room; info = info->ai_next) {
		if (info->ai_addrlen > sizeof(*found))
			continue;
		memset(&found[n], 0, sizeof(*found));
		memcpy(&found[n++], info->ai_addr, info->ai_addrlen);
	}
	freeaddrinfo(all);
	return n;
}

int sml_connect_begin(const union sml_sockaddr *to,
		      int (*prepare)(const void *self, const union sml_sockaddr *to, int fd),
		      const void *self)
{
	int fd = sml_fd_lift(
		socket(to->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	const int one = 1;
	int error;

	if (fd < 0)
		return -errno;
	error = prepare ? prepare(self, to, fd) : 0;
	/* Messages are short, and many are awaited. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (error == 0 && connect(fd, &to->any, sml_sockaddr_length(to)) < 0 &&
	    errno != EINPROGRESS)
		error = -errno;
	if (error == 0)
		return fd;
	sml_fd_close(fd); /* prepare() may have made it this process's own */
	return error;
}

int sml_connect_result(int fd)
{
	socklen_t length = sizeof(int);
	int error = 0;

	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0 ? -errno : -error;
}

/* Signals do not end it: the process may have been stopped. */
static int await(int fd, int timeout_ms)
{
	uint64_t until_ns = sml_now_ns() + (unsigned)timeout_ms * SML_NS_PER_MS;
	struct pollfd ready = {.fd = fd, .events = POLLOUT};
	int n;

	do
		n = poll(&ready, 1, sml_left_ms(until_ns));
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : -ETIMEDOUT;
	return sml_connect_result(fd);
}

static void limit_time(int fd, int timeout_ms)
{
	const struct timeval limit = {timeout_ms / 1000, timeout_ms % 1000 * 1000};

	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	(void)fcntl(fd, F_SETFL, 0); /* its calls wait */
}

static int try_one(const struct sml_connect *wish, const union sml_sockaddr *to)
{
	int fd = sml_connect_begin(to, wish->prepare, wish->self);
	int error = fd < 0 ? fd : await(fd, wish->timeout_ms);

	if (fd < 0)
		return fd;
	if (error) {
		close(fd);
		return error;
	}
	limit_time(fd, wish->timeout_ms);
	return fd;
}

int sml_connect(struct sml_connect *wish)
{
	union sml_sockaddr found[MOST_ADDRESSES];
	int n = sml_resolve(wish->host, wish->port, found, MOST_ADDRESSES);
	int fd = -EHOSTUNREACH;

	for (int i = 0; i < n && fd < 0; i++)
		fd = try_one(wish, &found[i]);
	wish->unknown = n < 0;
	wish->why = n < 0 ? gai_strerror(n) : strerror(-fd);
	return fd;
}
