/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP connections to hosts, for all who make them. */
#ifndef SML_NET_CONNECT_H
#define SML_NET_CONNECT_H

#include <stdbool.h>
#include <stdint.h>

#include "net/address.h"

/* The host's addresses, at most `room`. Returns their number, or an error for gai_strerror(). */
int sml_resolve(const char *host, uint16_t port, union sml_sockaddr *found, int room);

/*
 * Begins. Returns a socket, which does not block, or an error. It is over when that is writable.
 * prepare: of the socket; returns 0, or an error that ends the try. NULL: there is no need.
 */
int sml_connect_begin(const union sml_sockaddr *to,
		      int (*prepare)(const void *self, const union sml_sockaddr *to, int fd),
		      const void *self);

/* Then: 0 or -errno. */
int sml_connect_result(int fd);

struct sml_connect {
	const char *host;
	uint16_t port;
	int timeout_ms; /* of each address, and then of each call that waits */
	/* As of sml_connect_begin(). */
	int (*prepare)(const void *self, const union sml_sockaddr *to, int fd);
	const void *self;
	const char *why; /* set, if there is no connection: in words */
	bool unknown;	 /* set: because the host has no address */
};

/* To the first address that accepts. Returns a socket, or the last address's error. */
int sml_connect(struct sml_connect *wish);

#endif
