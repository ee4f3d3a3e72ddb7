/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "lib/error.h"
#include "lib/settings.h"

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

const char *sml_sockaddr_text(const union sml_sockaddr *address, char *text)
{
	const void *bytes = address->any.sa_family == AF_INET6
				    ? (const void *)&address->v6.sin6_addr
				    : (const void *)&address->v4.sin_addr;

	if (!inet_ntop(address->any.sa_family, bytes, text, INET6_ADDRSTRLEN))
		strcpy(text, "?");
	return text;
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

int sml_endpoints_resolve(struct sml_endpoint *endpoints, const char *list, uint16_t default_port)
{
	int n = 0, error = 0;

	for (const char *item = list; n < SML_MAX_ENDPOINTS; item += *item == ',') {
		size_t length = strcspn(item, ",");
		struct host_port place = {.host = ""};
		int added;

		if (!split(item, length, default_port, &place))
			return sml_error_set(SML_ERROR_CONFIG,
					     "\"%.*s\" is not a switch's address: it must be HOST, "
					     "HOST:PORT or [IPV6]:PORT (SWITCHML_SWITCH, "
					     "SWITCHML_MASTER_ADDR)",
					     (int)length, item);
		added = resolve(endpoints + n, SML_MAX_ENDPOINTS - n, &place);
		if (added < 0)
			error = sml_error_set(
				SML_ERROR_UNREACHABLE,
				"the host name \"%s\" cannot be resolved: %s. Check "
				"SWITCHML_SWITCH, SWITCHML_MASTER_ADDR or MASTER_ADDR",
				place.host, gai_strerror(added));
		else
			n += added;
		item += length;
		if (*item == '\0')
			break;
	}
	return n ? n : error;
}
