/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/control/endpoints.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/host.h"
#include "base/thread.h"
#include "lib/settings/settings.h"
#include "net/connect.h"

static void name_endpoint(struct sml_endpoint *endpoint, const struct sml_host_port *from)
{
	char text[INET6_ADDRSTRLEN];

	memcpy(endpoint->host, from->host, sizeof(endpoint->host));
	sml_sockaddr_text(&endpoint->address, text);
	if (strcmp(text, from->host) == 0)
		sml_host_port_text(endpoint->name, sizeof(endpoint->name), from->host, from->port);
	else
		snprintf(endpoint->name, sizeof(endpoint->name), "%s:%u (%s)", from->host,
			 from->port, text);
}

/* Returns how many were added, or the resolver's error. */
static int resolve(struct sml_endpoint *endpoints, int room, const struct sml_host_port *from)
{
	union sml_sockaddr found[SML_MAX_ENDPOINTS];
	int n = sml_resolve(from->host, from->port, found, room);

	for (int i = 0; i < n; i++) {
		endpoints[i].address = found[i];
		name_endpoint(&endpoints[i], from);
	}
	return n;
}

/* ---- lists: sets of stripes ---- */

static unsigned items_of(const char *set)
{
	size_t length = strcspn(set, "|");
	unsigned n = 1;

	for (size_t i = 0; i < length; i++)
		n += set[i] == ',';
	return n;
}

/* The set after this one, NULL if it was the last. */
static const char *next_set(const char *set)
{
	set += strcspn(set, "|");
	return *set ? set + 1 : NULL;
}

static const char *item_of(const char *set, unsigned stripe)
{
	for (; stripe > 0; stripe--)
		set += strcspn(set, ",|") + 1;
	return set;
}

/* 0, or an error whose text names what is wrong with an item. */
static int parse_endpoint(const char *item, uint16_t default_port, struct sml_host_port *out)
{
	size_t length = strcspn(item, ",|");

	if (sml_host_port_parse(item, length, out) && out->host[0] &&
	    (out->port > 0 || !out->has_port)) {
		if (!out->has_port)
			out->port = default_port;
		return 0;
	}
	return sml_error_set(SML_ERROR_CONFIG,
			     "\"%.*s\" is not a switch's address: it must be HOST, HOST:PORT or "
			     "[IPV6]:PORT (SWITCHML_SWITCH, SWITCHML_MASTER_ADDR)",
			     (int)length, item);
}

static bool are_same(const struct sml_host_port *a, const struct sml_host_port *b)
{
	return a->port == b->port && strcmp(a->host, b->host) == 0;
}

/*
 * Each stripe begins at a switch of its own: with one for two, no job could begin. One standby may
 * take over several stripes.
 */
static int check_items(const char *list, const char *set, unsigned n)
{
	struct sml_host_port places[SML_MAX_STRIPES];

	for (unsigned i = 0; i < n; i++) {
		int error = parse_endpoint(item_of(set, i), SML_DEFAULT_PORT, &places[i]);

		if (error)
			return error;
		for (unsigned k = 0; k < i && set == list; k++)
			if (are_same(&places[k], &places[i]))
				return sml_error_set(
					SML_ERROR_CONFIG,
					"SWITCHML_SWITCH=\"%s\" names %s, port %u, for stripe %u "
					"and for stripe %u: each stripe needs a switch of its own",
					list, places[i].host, places[i].port, k, i);
	}
	return 0;
}

int sml_endpoints_stripes(const char *list)
{
	unsigned n = items_of(list);
	int error = 0;

	if (n > SML_MAX_STRIPES)
		return sml_error_set(SML_ERROR_CONFIG,
				     "SWITCHML_SWITCH names %u switches: a job has at most %d "
				     "stripes",
				     n, SML_MAX_STRIPES);
	for (const char *set = list; set; set = next_set(set)) {
		if (items_of(set) != n)
			return sml_error_set(
				SML_ERROR_CONFIG,
				"SWITCHML_SWITCH=\"%s\": after each bar, there must be one "
				"switch for each stripe, %u, but \"%.*s\" names %u",
				list, n, (int)strcspn(set, "|"), set, items_of(set));
		error = check_items(list, set, n);
		if (error)
			return error;
	}
	return (int)n;
}

uint64_t sml_endpoints_digest(const char *list)
{
	unsigned n = items_of(list);
	struct sml_host_port place;
	char text[sizeof(place.host) + sizeof("[]:65535")];
	uint64_t digest = 0;

	for (const char *set = strchr(list, '|') ? list : NULL; set; set = next_set(set)) {
		for (unsigned i = 0; i < n; i++) {
			if (parse_endpoint(item_of(set, i), SML_DEFAULT_PORT, &place) != 0)
				continue;
			sml_host_port_text(text, sizeof(text), place.host, place.port);
			digest += sml_hash_text(0, text);
		}
	}
	return digest;
}

int sml_endpoints_resolve(struct sml_endpoint *endpoints, const char *list, unsigned stripe,
			  uint16_t default_port)
{
	int n = 0, error = 0;
	uint8_t n_sets = 0;

	for (const char *set = list; set && n < SML_MAX_ENDPOINTS; set = next_set(set)) {
		struct sml_host_port place = {.host = ""};
		int added = parse_endpoint(item_of(set, stripe), default_port, &place);

		if (added < 0)
			return added;
		added = resolve(endpoints + n, SML_MAX_ENDPOINTS - n, &place);
		for (int i = 0; i < added; i++)
			endpoints[n + i].set = n_sets;
		n_sets++;
		if (added < 0)
			error = sml_error_set(
				SML_ERROR_UNREACHABLE,
				"the host name \"%s\" cannot be resolved: %s. Check "
				"SWITCHML_SWITCH, SWITCHML_MASTER_ADDR or MASTER_ADDR",
				place.host, gai_strerror(added));
		else
			n += added;
	}
	return n ? n : error;
}

/* ---- generations ---- */

void sml_endpoints_free(struct sml_endpoints *endpoints)
{
	struct sml_endpoints *before;

	for (; endpoints; endpoints = before) {
		before = endpoints->before;
		free(endpoints);
	}
}

/* The place of the same address of the same name; n if there is none. */
static unsigned find(const struct sml_endpoints *endpoints, const struct sml_endpoint *endpoint)
{
	unsigned i = 0;

	while (i < endpoints->n && (endpoints->at[i].set != endpoint->set ||
				    strcmp(endpoints->at[i].name, endpoint->name) != 0))
		i++;
	return i;
}

unsigned sml_endpoints_place(const struct sml_endpoints *endpoints,
			     const struct sml_endpoint *endpoint)
{
	return find(endpoints, endpoint) % endpoints->n;
}

/* Is there an address that `known` does not have? If so, add those that only `known` has. */
static bool renew(struct sml_endpoints *endpoints, const struct sml_endpoints *known)
{
	const unsigned n = endpoints->n;
	bool is_new = false;

	for (unsigned i = 0; i < n; i++)
		is_new |= find(known, &endpoints->at[i]) == known->n;
	/* A resolver may name only some addresses at a time. */
	for (unsigned i = 0; is_new && i < known->n && endpoints->n < SML_MAX_ENDPOINTS; i++)
		if (find(endpoints, &known->at[i]) == endpoints->n)
			endpoints->at[endpoints->n++] = known->at[i];
	return is_new;
}

bool sml_endpoints_have_names(const char *list)
{
	unsigned n = items_of(list);
	union sml_sockaddr ignored;
	struct sml_host_port place;

	for (const char *set = list; set; set = next_set(set))
		for (unsigned i = 0; i < n; i++)
			if (parse_endpoint(item_of(set, i), SML_DEFAULT_PORT, &place) == 0 &&
			    inet_pton(AF_INET, place.host, &ignored.v4.sin_addr) != 1 &&
			    inet_pton(AF_INET6, place.host, &ignored.v6.sin6_addr) != 1)
				return true;
	return false;
}

/*
 * ---- a resolver that asks again ----
 *
 * A question may take much longer than a heartbeat, and nobody may wait for that: neither a search
 * for a switch, whose other ranks would take this one for dead, nor sml_close(). So the thread and
 * the search hold the resolver together, and the last of them frees it.
 */

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
		if (renew(found, &resolver->known)) {
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
