/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A question may take much longer than a heartbeat, and nobody may wait for that: neither a search
 * for a switch, whose other ranks would take this one for dead, nor sml_close(). So the thread and
 * the search hold the resolver together, and the last of them frees it.
 */
#include "lib/control/resolver.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "lib/settings/settings.h"

/* Between two questions; and how often it looks whether to stop. */
#define PAUSE_NS (2 * SML_NS_PER_SEC)
#define LOOK_MS	 20

struct sml_resolver {
	unsigned holders; /* atomic: the thread, and the search */
	bool stop, moved; /* atomic; moved: `found` is there, and has an address that is new */
	unsigned stripe;
	char *list;
	struct sml_endpoints known, *found;
};

static void release(struct sml_resolver *resolver)
{
	if (__atomic_sub_fetch(&resolver->holders, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	free(resolver->found);
	free(resolver->list);
	free(resolver);
}

/* True if names mean something new. */
static bool look_up(struct sml_resolver *resolver)
{
	struct sml_endpoints *found = calloc(1, sizeof(*found));
	int n = found ? sml_endpoints_resolve(found->at, resolver->list, resolver->stripe,
					      SML_DEFAULT_PORT)
		      : -1;

	if (n > 0) {
		found->n = (unsigned)n;
		if (sml_endpoints_renew(found, &resolver->known)) {
			resolver->found = found;
			return true;
		}
	}
	free(found);
	return false;
}

static void *resolver_main(void *self)
{
	struct sml_resolver *resolver = self;
	uint64_t next_ns = 0;

	while (!__atomic_load_n(&resolver->stop, __ATOMIC_ACQUIRE)) {
		if (sml_now_ns() < next_ns) {
			poll(NULL, 0, LOOK_MS);
			continue;
		}
		if (look_up(resolver)) {
			__atomic_store_n(&resolver->moved, true, __ATOMIC_RELEASE);
			break;
		}
		next_ns = sml_now_ns() + PAUSE_NS;
	}
	release(resolver);
	return NULL;
}

struct sml_resolver *sml_resolver_start(const char *list, unsigned stripe,
					const struct sml_endpoints *known)
{
	struct sml_resolver *resolver =
		sml_endpoints_have_names(list) ? calloc(1, sizeof(*resolver)) : NULL;
	pthread_t thread;

	if (resolver == NULL)
		return NULL;
	resolver->holders = 2;
	resolver->stripe = stripe;
	resolver->list = strdup(list);
	resolver->known = *known;
	if (resolver->list &&
	    sml_thread_start(&thread, "sml-resolver", resolver_main, resolver) == 0) {
		pthread_detach(thread);
		return resolver;
	}
	resolver->holders = 1;
	release(resolver);
	return NULL;
}

const bool *sml_resolver_moved(const struct sml_resolver *resolver)
{
	return resolver ? &resolver->moved : NULL;
}

struct sml_endpoints *sml_resolver_end(struct sml_resolver *resolver)
{
	struct sml_endpoints *found = NULL;

	if (resolver == NULL)
		return NULL;
	__atomic_store_n(&resolver->stop, true, __ATOMIC_RELEASE);
	if (__atomic_load_n(&resolver->moved, __ATOMIC_ACQUIRE)) {
		found = resolver->found;
		resolver->found = NULL;
	}
	release(resolver);
	return found;
}
