/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the switch listens: one address for both its ports, or all addresses of both families on
 * one socket (only IPv4 if the kernel has no IPv6).
 */
#ifndef SML_NET_LISTEN_ADDRESS_H
#define SML_NET_LISTEN_ADDRESS_H

#include "net/address.h"

struct sml_listen_address {
	union sml_sockaddr address;
	bool all; /* no address in particular */
};

/* address: numeric; NULL for all addresses. Returns 0 or -EINVAL. */
int sml_listen_address_parse(const char *address, uint16_t port, struct sml_listen_address *local);

/*
 * A non-blocking socket of this type (SOCK_STREAM, SOCK_DGRAM), not yet bound. May change `local`
 * from all addresses to all IPv4 addresses. Returns the descriptor or -errno.
 */
int sml_listen_address_socket(struct sml_listen_address *local, int type);

/* Returns 0 or -errno. */
int sml_listen_address_bind(const struct sml_listen_address *local, int fd);

#endif
