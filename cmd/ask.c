/* SPDX-License-Identifier: BSD-3-Clause */
/* See ask.h. Blocking sockets with a time limit: this is a command line. */
#include "cmd/ask.h"

#include <errno.h>
#include <event2/buffer.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/wire.h"

/* The first of "a:1,[b]:2" as host and port; false when it is too long or empty. */
static bool split(const char *address, char host[256], char port[16])
{
	size_t length = strcspn(address, ",");
	const char *colon = memchr(address, ':', length);
	size_t host_length = length;

	snprintf(port, 16, "%d", SML_DEFAULT_PORT);
	if (address[0] == '[') {
		const char *end = memchr(address, ']', length);

		if (!end)
			return false;
		host_length = (size_t)(end - address) - 1;
		colon = end[1] == ':' ? end + 1 : NULL;
		address++;
		length--;
	} else if (colon && memchr(colon + 1, ':', (size_t)(address + length - colon) - 1)) {
		colon = NULL; /* an IPv6 address without brackets */
	} else if (colon) {
		host_length = (size_t)(colon - address);
	}
	if (host_length == 0 || host_length > 255)
		return false;
	snprintf(host, 256, "%.*s", (int)host_length, address);
	if (colon)
		snprintf(port, 16, "%.*s", (int)(address + length - colon) - 1, colon + 1);
	return true;
}

static void limit_time(int fd, int timeout_ms)
{
	struct timeval limit = {timeout_ms / 1000, timeout_ms % 1000 * 1000};

	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

static int connect_to_one(const struct addrinfo *info, int timeout_ms)
{
	int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int error;

	if (fd < 0)
		return -errno;
	limit_time(fd, timeout_ms);
	if (connect(fd, info->ai_addr, info->ai_addrlen) == 0)
		return fd;
	/* A connect that has run out of time says so like this. */
	error = errno == EINPROGRESS ? -ETIMEDOUT : -errno;
	close(fd);
	return error;
}

int sml_ask_connect(const char *address, int timeout_ms, char *text, size_t size)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *all;
	char host[256], port[16];
	int fd = -EHOSTUNREACH;
	int failed;

	if (!split(address, host, port)) {
		snprintf(text, size, "`%s' is not HOST:PORT", address);
		return -EINVAL;
	}
	failed = getaddrinfo(host, port, &hints, &all);
	if (failed) {
		snprintf(text, size, "%s: %s", host, gai_strerror(failed));
		return -EHOSTUNREACH;
	}
	for (const struct addrinfo *info = all; info && fd < 0; info = info->ai_next)
		fd = connect_to_one(info, timeout_ms);
	freeaddrinfo(all);
	if (fd < 0)
		snprintf(text, size, "%s port %s: %s", host, port, strerror(-fd));
	return fd;
}

static int write_request(int control, struct evbuffer *buffer)
{
	SmlControl__StatusRequest request = SML_CONTROL__STATUS_REQUEST__INIT;
	SmlControl__Envelope envelope = SML_CONTROL__ENVELOPE__INIT;
	int error;

	envelope.body_case = SML_CONTROL__ENVELOPE__BODY_STATUS_REQUEST;
	envelope.status_request = &request;
	error = sml_frame_write(buffer, &envelope);
	while (!error && evbuffer_get_length(buffer) > 0) {
		if (evbuffer_write(buffer, control) < 0)
			error = -errno;
	}
	return error;
}

static int read_answer(int control, struct evbuffer *buffer, SmlControl__Envelope **answer)
{
	for (;;) {
		int got = sml_frame_read(buffer, answer);

		if (got < 0)
			return got;
		if (got == 1 && (*answer)->body_case == SML_CONTROL__ENVELOPE__BODY_STATUS)
			return 0;
		if (got == 1) {
			sml_control__envelope__free_unpacked(*answer, NULL);
			continue;
		}
		got = evbuffer_read(buffer, control, -1);
		if (got == 0)
			return -ECONNRESET;
		if (got < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
	}
}

int sml_ask_status(int control, int timeout_ms, SmlControl__Envelope **answer)
{
	struct evbuffer *buffer = evbuffer_new();
	int error;

	if (!buffer)
		return -ENOMEM;
	limit_time(control, timeout_ms);
	error = write_request(control, buffer);
	if (!error)
		error = read_answer(control, buffer, answer);
	evbuffer_free(buffer);
	return error;
}
