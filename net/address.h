/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the switch listens: for both its ports, one address, or all of both
 * families on one socket; of IPv4 alone where the kernel has no IPv6.
 */
#ifndef SML_SWITCH_ADDRESS_H
#define SML_SWITCH_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

struct sml_place {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} address;
	bool all; /* no address in particular */
};

/*
 * "ADDR", "ADDR:PORT", "[V6]:PORT", ":PORT", "V6": the address into a buffer, "" for all; *port
 * stays as it is where none is named. 0, or -EINVAL.
 */
int sml_place_split(const char *listen, char *address, size_t bytes, uint16_t *port);

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
