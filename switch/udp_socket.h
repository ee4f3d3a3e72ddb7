/* SPDX-License-Identifier: BSD-3-Clause */
/* The dataplane's sockets: one a thread, all on one port. */
#ifndef SML_SWITCH_UDP_SOCKET_H
#define SML_SWITCH_UDP_SOCKET_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* Room for what the kernel tells beside a message: segment size, drops. */
#define SML_UDP_CONTROL_BYTES 64

/*
 * Open a socket of one of n_threads, in order of the threads. address: numeric,
 * NULL for all; IPv4 addresses are mapped into IPv6. Returns the descriptor or
 * a negative errno with a sentence. *buffer_bytes: what the receive buffer has.
 */
int sml_udp_socket_open(const char *address, uint16_t port, unsigned n_threads,
			uint32_t *buffer_bytes, char *error_text, size_t error_bytes);

/* The length of a message's segments, and the socket's count of drops so far. */
uint32_t sml_udp_segment_bytes(struct msghdr *message, uint32_t length, uint32_t *drops);

#endif
