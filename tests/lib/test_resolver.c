/* SPDX-License-Identifier: BSD-3-Clause */
/* Names are looked up again by a thread that nobody waits for: a name server may be dead. */
#include <dlfcn.h>
#include <netdb.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>

#include "lib/control/endpoints.h"
#include "support/count_entries.h"
#include "support/test.h"

static const char *meaning; /* of every name; NULL: its server is dead */
static sem_t asked, answered;

/* Instead of libc's. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
		struct addrinfo **found)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

	(void)host;
	*(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
	if (meaning != NULL)
		return real(meaning, service, hints, found);
	sem_post(&asked);
	sem_wait(&answered);
	return real("127.0.0.9", service, hints, found);
}

static void set_up(void)
{
	sem_init(&asked, 0, 0);
	sem_init(&answered, 0, 0);
}

static struct sml_endpoints known(const char *address)
{
	struct sml_endpoints endpoints = {.n = 1};

	meaning = address;
	assert_int_equal(sml_endpoints_resolve(endpoints.at, "pod:1", 0, 1), 1);
	return endpoints;
}

static void wait_for_threads(unsigned n)
{
	while (count_entries(THREADS_FOLDER) != n)
		sched_yield();
}

TEST_WITH(a_search_does_not_wait_for_a_name_server_that_is_dead, set_up, NULL)
{
	const struct sml_endpoints first = known("127.0.0.1");
	struct sml_resolver *resolver;
	unsigned threads;

	meaning = NULL;
	resolver = sml_resolver_start("pod:1", 0, &first);
	assert_non_null(resolver);
	sem_wait(&asked);
	threads = count_entries(THREADS_FOLDER);
	assert_null(sml_resolver_end(resolver));
	assert_int_equal(count_entries(THREADS_FOLDER), threads);

	/* An answer that comes later is nobody's. A sanitizer finds what is not freed. */
	sem_post(&answered);
	wait_for_threads(threads - 1);
}

TEST_WITH(a_name_that_means_something_else_has_both_addresses, set_up, NULL)
{
	const struct sml_endpoints first = known("127.0.0.1");
	struct sml_resolver *resolver;
	struct sml_endpoints *found;

	meaning = "127.0.0.2";
	resolver = sml_resolver_start("pod:1", 0, &first);
	assert_non_null(resolver);
	while (!__atomic_load_n(sml_resolver_moved(resolver), __ATOMIC_ACQUIRE))
		sched_yield();
	found = sml_resolver_end(resolver);
	assert_non_null(found);
	assert_int_equal(found->n, 2);
	assert_string_equal(found->at[0].name, "pod:1 (127.0.0.2)");
	assert_string_equal(found->at[1].name, "pod:1 (127.0.0.1)");
	free(found);
}

TEST(addresses_are_not_looked_up_again)
{
	const struct sml_endpoints first = known("127.0.0.1");

	assert_null(sml_resolver_start("127.0.0.1:1|[::1]:2", 0, &first));
	assert_null(sml_resolver_moved(NULL));
	assert_null(sml_resolver_end(NULL));
}
