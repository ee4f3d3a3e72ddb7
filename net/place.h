/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the switch listens: for both its ports, one address, or all of both
 * families on one socket; of IPv4 alone where the kernel has no IPv6.
 */
#ifndef SML_NET_PLACE_H
#define SML_NET_PLACE_H

#include "net/address.h"

struct sml_place {
	union sml_sockaddr address;
	bool all; /* no address in particular */
};

/* address: numeric, NULL for all. 0, or -EINVAL. */
int sml_place_parse(const char *address, uint16_t port, struct sml_place *place);

/*
 * A non-blocking socket of this type (SOCK_STREAM, SOCK_DGRAM), not yet bound. May
 * turn `place` from all addresses into all of IPv4. The descriptor or -errno.
 */
int sml_place_socket(struct sml_place *place, int type);

/* 0 or -errno. */
int sml_place_bind(const struct sml_place *place, int fd);

#endif
