/* SPDX-License-Identifier: BSD-3-Clause */
/* The dataplane's sockets: one per thread, all on one port. */
#ifndef SML_NET_UDP_SOCKET_H
#define SML_NET_UDP_SOCKET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "net/address.h"

/* Room for a message's control data from the kernel: segment size, drops, address. */
#define SML_UDP_CONTROL_BYTES 128

/*
 * The path between a worker and our address that it uses: its socket is connected, so a host with
 * several addresses must answer from that one. `from` is a control message for the kernel, or empty
 * if the socket has only one address.
 */
struct sml_path {
	struct sockaddr_in6 to; /* or a sockaddr_in, on a socket of IPv4 */
	uint32_t from_bytes;
	_Alignas(struct cmsghdr) char from[CMSG_SPACE(sizeof(struct in6_pktinfo))];
};

struct sml_udp_options {
	const char *address; /* numeric; NULL for all, IPv4 addresses mapped into IPv6 */
	uint16_t port;
	unsigned n_threads;
	/* Report the interface of each message, and deliver packets one by one (no UDP_GRO). */
	bool for_xdp;
};

/*
 * Open the socket of the next thread; call it in order of the threads. Returns the descriptor, or a
 * negative errno, and sml_error_last() says why. *buffer_bytes: the size of the receive buffer.
 */
int sml_udp_socket_open(const struct sml_udp_options *options, bool first, uint32_t *buffer_bytes);

/*
 * The address as this socket uses it: sockets of all addresses are of IPv6, and reach IPv4 by
 * mapped addresses.
 */
void sml_udp_map_for(int fd, union sml_sockaddr *address);

/* The length of a message's segments, and the socket's count of drops so far. */
uint32_t sml_udp_segment_bytes(struct msghdr *message, uint32_t length, uint32_t *drops);

/* Whether the message comes from this address and port. */
bool sml_udp_is_from(const struct msghdr *message, const union sml_sockaddr *address);

/* The interface on which a message came; 0 if unknown. */
uint32_t sml_udp_interface(struct msghdr *message);

/* The path back to the source of a message. */
void sml_udp_path(struct msghdr *message, struct sml_path *path);

#endif
