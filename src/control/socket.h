/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes between a control connection's socket and its buffers. */
#ifndef SML_CONTROL_SOCKET_H
#define SML_CONTROL_SOCKET_H

#include <event2/buffer.h>
#include <stddef.h>

/*
 * Send at most `most` bytes of the buffer, as many as the socket takes now. This raises no SIGPIPE,
 * which could end the application. Returns 0 or -errno.
 */
int sml_socket_send(int fd, struct evbuffer *out, size_t most);

#endif
