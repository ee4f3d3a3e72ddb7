/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes between a control connection's socket and its buffers. */
#ifndef SML_CONTROL_SOCKET_H
#define SML_CONTROL_SOCKET_H

#include <event2/buffer.h>
#include <stddef.h>

/*
 * Send what is in the buffer, at most `most` bytes, as far as the socket takes it now, without
 * SIGPIPE, which could end the application. 0 or -errno.
 */
int sml_socket_send(int fd, struct evbuffer *out, size_t most);

#endif
