/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the switch listens: one address for both its ports, or all addresses of both families on
 * one socket (only IPv4 if the kernel has no IPv6).
 */
#ifndef SML_NET_PLACE_H
#define SML_NET_PLACE_H

#include "net/address.h"

struct sml_place {
	union sml_sockaddr address;
	bool all; /* no address in particular */
};

/* address: numeric; NULL for all addresses. Returns 0 or -EINVAL. */
int sml_place_parse(const char *address, uint16_t port, struct sml_place *place);

/*
 * A non-blocking socket of this type (SOCK_STREAM, SOCK_DGRAM), not yet bound. May change `place`
 * from all addresses to all IPv4 addresses. Returns the descriptor or -errno.
 */
int sml_place_socket(struct sml_place *place, int type);

/* 0 or -errno. */
int sml_place_bind(const struct sml_place *place, int fd);

#endif
