/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a switch may be: a list of hosts and ports become socket addresses. */
#ifndef SML_LIB_ENDPOINTS_H
#define SML_LIB_ENDPOINTS_H

#include "net/address.h"

#define SML_MAX_ENDPOINTS 16

struct sml_endpoint {
	union sml_sockaddr address;
	char name[320]; /* "gpu1:28500 (10.0.0.3)" */
	char host[256]; /* "gpu1", as the user wrote it: the name that its certificate must have */
	uint8_t set; /* the set that it belongs to: all addresses of a set belong to one switch */
};

/*
 * A list is "host[:port][,host[:port]…][|…]", IPv6 addresses with a port in brackets: a comma
 * stripes a job over switches, a bar names other switches to fail over to. Returns the number of
 * stripes; or an error if a set lacks a switch for one of them, and then sets the error text.
 */
int sml_endpoints_stripes(const char *list);

/*
 * The switches of one stripe, one of each set, to at most SML_MAX_ENDPOINTS
 * endpoints in that order. An unknown host is skipped if another one is known.
 * Returns their number, or an error with its text set by sml_error_set().
 * Blocks as long as the resolver does.
 */
int sml_endpoints_resolve(struct sml_endpoint *endpoints, const char *list, unsigned stripe,
			  uint16_t default_port);

#endif
