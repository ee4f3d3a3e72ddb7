/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/base/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/settings/settings.h"

struct host_port {
	char host[256];
	char port[8];
};

socklen_t sml_sockaddr_length(const union sml_sockaddr *address)
{
	return address->any.sa_family == AF_INET6 ? sizeof(address->v6) : sizeof(address->v4);
}

void sml_sockaddr_set_port(union sml_sockaddr *address, uint16_t port)
{
	if (address->any.sa_family == AF_INET6)
		address->v6.sin6_port = htons(port);
	else
		address->v4.sin_port = htons(port);
}

void sml_sockaddr_map(union sml_sockaddr *address)
{
	const struct sockaddr_in v4 = address->v4;

	if (address->any.sa_family != AF_INET)
		return;
	address->v6 = (struct sockaddr_in6){
		.sin6_family = AF_INET6,
		.sin6_port = v4.sin_port,
		.sin6_addr = {.s6_addr = {[10] = 0xff, [11] = 0xff}},
	};
	memcpy(address->v6.sin6_addr.s6_addr + 12, &v4.sin_addr, sizeof(v4.sin_addr));
}

const char *sml_sockaddr_text(const union sml_sockaddr *address, char *text)
{
	const uint8_t *v6 = address->v6.sin6_addr.s6_addr;
	bool is_v6 = address->any.sa_family == AF_INET6;
	bool is_mapped = is_v6 && IN6_IS_ADDR_V4MAPPED(&address->v6.sin6_addr);
	const void *bytes = is_mapped ? v6 + 12
			    : is_v6   ? (const void *)v6
				      : (const void *)&address->v4.sin_addr;

	if (!inet_ntop(is_v6 && !is_mapped ? AF_INET6 : AF_INET, bytes, text, INET6_ADDRSTRLEN))
		strcpy(text, "?");
	return text;
}

bool sml_is_loopback_name(const char *host)
{
	return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

/* One item of the list, without its comma. */
static bool split(const char *item, size_t length, uint16_t default_port, struct host_port *out)
{
	const char *host = item, *colon = memchr(item, ':', length);
	const char *last = memrchr(item, ':', length);
	size_t host_length = length;
	long port;

	snprintf(out->port, sizeof(out->port), "%u", default_port);
	if (*item == '[') {
		const char *end = memchr(item, ']', length);

		if (end == NULL)
			return false;
		host = item + 1;
		host_length = (size_t)(end - host);
		last = end + 1 < item + length && end[1] == ':' ? end + 1 : NULL;
		if (last == NULL && end + 1 != item + length)
			return false;
	} else if (colon && colon == last) {
		host_length = (size_t)(colon - host);
	} else {
		last = NULL; /* no colon, or an IPv6 address of many */
	}
	if (last)
		snprintf(out->port, sizeof(out->port), "%.*s", (int)(item + length - last - 1),
			 last + 1);
	if (host_length == 0 || host_length >= sizeof(out->host) ||
	    !sml_parse_number(out->port, 1, 65535, &port))
		return false;
	memcpy(out->host, host, host_length);
	out->host[host_length] = '\0';
	return true;
}

static void name_endpoint(struct sml_endpoint *endpoint, const struct host_port *from)
{
	char text[INET6_ADDRSTRLEN];
	const char *open = strchr(from->host, ':') ? "[" : "";
	const char *close = *open ? "]" : "";

	memcpy(endpoint->host, from->host, sizeof(endpoint->host));
	sml_sockaddr_text(&endpoint->address, text);
	if (strcmp(text, from->host) == 0)
		snprintf(endpoint->name, sizeof(endpoint->name), "%s%s%s:%s", open, from->host,
			 close, from->port);
	else
		snprintf(endpoint->name, sizeof(endpoint->name), "%s:%s (%s)", from->host,
			 from->port, text);
}

/* Returns how many were added, or the resolver's error. */
static int resolve(struct sml_endpoint *endpoints, int room, const struct host_port *from)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found, *next;
	int error = getaddrinfo(from->host, from->port, &hints, &found);
	int n = 0;

	if (error)
		return error < 0 ? error : EAI_FAIL;
	for (next = found; next && n < room; next = next->ai_next) {
		if (next->ai_addrlen > sizeof(endpoints[n].address))
			continue;
		memcpy(&endpoints[n].address, next->ai_addr, next->ai_addrlen);
		name_endpoint(&endpoints[n++], from);
	}
	freeaddrinfo(found);
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

/* 0, or what is wrong with an item, told. */
static int parse(const char *item, uint16_t default_port, struct host_port *out)
{
	size_t length = strcspn(item, ",|");

	if (split(item, length, default_port, out))
		return 0;
	return sml_error_set(SML_ERROR_CONFIG,
			     "\"%.*s\" is not a switch's address: it must be HOST, HOST:PORT or "
			     "[IPV6]:PORT (SWITCHML_SWITCH, SWITCHML_MASTER_ADDR)",
			     (int)length, item);
}

static int check_items(const char *set, unsigned n)
{
	struct host_port ignored;
	int error = 0;

	for (unsigned i = 0; error == 0 && i < n; i++)
		error = parse(item_of(set, i), SML_DEFAULT_PORT, &ignored);
	return error;
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
			return sml_error_set(SML_ERROR_CONFIG,
					     "SWITCHML_SWITCH=\"%s\": the switches to fail over to "
					     "must be as many as the stripes, %u, and \"%.*s\" "
					     "names %u",
					     list, n, (int)strcspn(set, "|"), set, items_of(set));
		error = check_items(set, n);
		if (error)
			return error;
	}
	return (int)n;
}

int sml_endpoints_resolve(struct sml_endpoint *endpoints, const char *list, unsigned stripe,
			  uint16_t default_port)
{
	int n = 0, error = 0;

	for (const char *set = list; set && n < SML_MAX_ENDPOINTS; set = next_set(set)) {
		struct host_port place = {.host = ""};
		int added = parse(item_of(set, stripe), default_port, &place);

		if (added < 0)
			return added;
		added = resolve(endpoints + n, SML_MAX_ENDPOINTS - n, &place);
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
