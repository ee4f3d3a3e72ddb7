/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * While a stripe looks for its switch, what its switches' names mean may change: a pod comes back
 * with another address, some time after the old one was lost. A thread looks the names up again and
 * again, because a resolver may block for longer than a heartbeat.
 */
#ifndef SML_LIB_RESOLVER_H
#define SML_LIB_RESOLVER_H

#include <pthread.h>

#include "lib/control/endpoints.h"

struct sml_resolver {
	pthread_t thread;
	bool started;
	bool stop, moved; /* atomic; moved: `found` is there, and has an address that is new */
	const char *list;
	unsigned stripe;
	const struct sml_endpoints *known;
	struct sml_endpoints *found;
};

/* The list and the known endpoints must outlive it. Without a name, or a thread, nothing happens.
 */
void sml_resolver_start(struct sml_resolver *resolver, const char *list, unsigned stripe,
			const struct sml_endpoints *known);

/* It may end; does not wait for that. */
void sml_resolver_stop(struct sml_resolver *resolver);

/* Waits for its end, as long as the resolver blocks. Returns what it has found, or NULL. */
struct sml_endpoints *sml_resolver_finish(struct sml_resolver *resolver);

#endif
