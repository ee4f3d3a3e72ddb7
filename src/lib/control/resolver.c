/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/control/resolver.h"

#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/thread.h"
#include "lib/settings/settings.h"

/* Between two questions; and how often it looks whether to stop. */
#define PAUSE_NS (2 * SML_NS_PER_SEC)
#define LOOK_MS	 20

static bool is_stopping(const struct sml_resolver *resolver)
{
	return __atomic_load_n(&resolver->stop, __ATOMIC_ACQUIRE);
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
		if (sml_endpoints_renew(found, resolver->known)) {
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

	while (!is_stopping(resolver)) {
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
	return NULL;
}

void sml_resolver_start(struct sml_resolver *resolver, const char *list, unsigned stripe,
			const struct sml_endpoints *known)
{
	*resolver = (struct sml_resolver){.list = list, .stripe = stripe, .known = known};
	if (sml_endpoints_have_names(list))
		resolver->started = sml_thread_start(&resolver->thread, "sml-resolver",
						     resolver_main, resolver) == 0;
}

void sml_resolver_stop(struct sml_resolver *resolver)
{
	__atomic_store_n(&resolver->stop, true, __ATOMIC_RELEASE);
}

struct sml_endpoints *sml_resolver_finish(struct sml_resolver *resolver)
{
	struct sml_endpoints *found;

	sml_resolver_stop(resolver);
	if (resolver->started)
		pthread_join(resolver->thread, NULL);
	found = resolver->found;
	*resolver = (struct sml_resolver){.found = NULL};
	return found;
}
