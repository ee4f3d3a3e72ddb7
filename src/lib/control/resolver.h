/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * While a stripe looks for its switch, what its switches' names mean may change: a pod comes back
 * with another address, some time after the old one was lost. A thread looks the names up again and
 * again, because a resolver may block for longer than a heartbeat.
 */
#ifndef SML_LIB_RESOLVER_H
#define SML_LIB_RESOLVER_H

#include <stdbool.h>

#include "lib/control/endpoints.h"

struct sml_resolver;

/* NULL if the list has no name, or there is no thread: then nothing happens. */
struct sml_resolver *sml_resolver_start(const char *list, unsigned stripe,
					const struct sml_endpoints *known);

/* Atomic: an address is there that is new. NULL for NULL. */
const bool *sml_resolver_moved(const struct sml_resolver *resolver);

/* Returns what it has found, or NULL. Does not wait: a question that is under way ends alone. */
struct sml_endpoints *sml_resolver_end(struct sml_resolver *resolver);

#endif
