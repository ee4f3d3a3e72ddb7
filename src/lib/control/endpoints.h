/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a switch may be: a list of hosts and ports become socket addresses. */
#ifndef SML_LIB_ENDPOINTS_H
#define SML_LIB_ENDPOINTS_H

#include <stdbool.h>

#include "net/address.h"

#define SML_MAX_ENDPOINTS 16

struct sml_endpoint {
	union sml_sockaddr address;
	char name[320]; /* "gpu1:28500 (10.0.0.3)" */
	char host[256]; /* "gpu1", as the user wrote it: the name that its certificate must have */
	uint8_t set; /* the set that it belongs to: all addresses of a set belong to one switch */
};

/*
 * Where a stripe's switches are, as the names meant it at one time. Texts and connections of all
 * threads point into these, so they never change, and stay as long as the stripe (`before`).
 */
struct sml_endpoints {
	struct sml_endpoints *before;
	unsigned n;
	struct sml_endpoint at[SML_MAX_ENDPOINTS];
};

void sml_endpoints_free(struct sml_endpoints *endpoints); /* and those before */

/* Its place; 0 if it is in another generation, and is not there any more. */
unsigned sml_endpoints_place(const struct sml_endpoints *endpoints,
			     const struct sml_endpoint *endpoint);

/* Has the list a name that may come to mean something else? */
bool sml_endpoints_have_names(const char *list);

/*
 * A list is "host[:port][,host[:port]…][|…]", IPv6 addresses with a port in brackets: a comma
 * stripes a job over switches, a bar names other switches to fail over to. Returns the number of
 * stripes; or an error if a set lacks a switch for one of them, and then sets the error text.
 */
int sml_endpoints_stripes(const char *list);

/* Of a list with bars, the same in whatever order its switches are; 0: it has no bar. */
uint64_t sml_endpoints_digest(const char *list);

/*
 * The switches of one stripe, one of each set, to at most SML_MAX_ENDPOINTS
 * endpoints in that order. An unknown host is skipped if another one is known.
 * Returns their number, or an error with its text set by sml_error_set().
 * Blocks as long as the resolver does.
 */
int sml_endpoints_resolve(struct sml_endpoint *endpoints, const char *list, unsigned stripe,
			  uint16_t default_port);

/*
 * ---- a resolver that asks again ----
 *
 * While a stripe looks for its switch, what its switches' names mean may change: a pod comes back
 * with another address, some time after the old one was lost. A thread looks the names up again and
 * again, because a resolver may block for longer than a heartbeat.
 */

struct sml_resolver;

/* NULL if the list has no name, or there is no thread: then nothing happens. */
struct sml_resolver *sml_resolver_start(const char *list, unsigned stripe,
					const struct sml_endpoints *known);

/* Atomic: an address is there that is new. NULL for NULL. */
const bool *sml_resolver_moved(const struct sml_resolver *resolver);

/* Returns what it has found, or NULL. Does not wait: a question that is under way ends alone. */
struct sml_endpoints *sml_resolver_end(struct sml_resolver *resolver);

#endif
