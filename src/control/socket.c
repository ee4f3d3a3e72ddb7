/* SPDX-License-Identifier: BSD-3-Clause */
/* See socket.h. evbuffer_write() is not used, because it has no MSG_NOSIGNAL. */
#include "control/socket.h"

#include <errno.h>
#include <sys/socket.h>

/* Chains that one call sends. */
#define PARTS 8

static ssize_t send_parts(int fd, struct evbuffer *out, size_t most)
{
	struct evbuffer_iovec parts[PARTS];
	int n = evbuffer_peek(out, (ev_ssize_t)most, NULL, parts, PARTS), used = 0;
	struct msghdr message = {.msg_iov = parts};
	size_t bytes = 0;

	for (; used < n && used < PARTS && bytes < most; used++) {
		if (parts[used].iov_len > most - bytes)
			parts[used].iov_len = most - bytes;
		bytes += parts[used].iov_len;
	}
	message.msg_iovlen = (size_t)used;
	return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int sml_socket_send(int fd, struct evbuffer *out, size_t most)
{
	while (most > 0 && evbuffer_get_length(out) > 0) {
		ssize_t sent = send_parts(fd, out, most);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return errno == EAGAIN ? 0 : -errno;
		evbuffer_drain(out, (size_t)sent);
		most -= (size_t)sent;
	}
	return 0;
}
