/* SPDX-License-Identifier: BSD-3-Clause */
/* Where rank 0's control port listens: see listen.h. */
#include <netinet/in.h>

#include "lib/context/listen.h"

#include <ifaddrs.h>
#include <stdbool.h>
#include <string.h>

#include "lib/control/endpoints.h"
#include "lib/transport/interface.h"
#include "net/connect.h"

/* Link-local addresses need a scope, which our texts do not have. */
static bool copy_usable(const struct sockaddr *from, union sml_sockaddr *to)
{
	if (from == NULL || (from->sa_family != AF_INET && from->sa_family != AF_INET6))
		return false;
	memset(to, 0, sizeof(*to));
	memcpy(to, from, from->sa_family == AF_INET ? sizeof(to->v4) : sizeof(to->v6));
	return from->sa_family == AF_INET || !IN6_IS_ADDR_LINKLOCAL(&to->v6.sin6_addr);
}

static bool is_of_host(const struct ifaddrs *all, const char *text)
{
	char own[INET6_ADDRSTRLEN];
	union sml_sockaddr address;

	for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next)
		if (copy_usable(i->ifa_addr, &address) &&
		    strcmp(sml_sockaddr_text(&address, own), text) == 0)
			return true;
	return false;
}

/* False: none, or more than one. */
static bool choose_by_name(const struct ifaddrs *all, const char *master, char *text)
{
	union sml_sockaddr found[SML_MAX_ENDPOINTS];
	int n_found = sml_resolve(master, 0, found, SML_MAX_ENDPOINTS);
	unsigned n = 0;

	for (int i = 0; i < n_found; i++) {
		char candidate[INET6_ADDRSTRLEN];
		union sml_sockaddr address;

		if (!copy_usable(&found[i].any, &address) || sml_sockaddr_is_loopback(&address) ||
		    !is_of_host(all, sml_sockaddr_text(&address, candidate)))
			continue;
		memcpy(text, candidate, sizeof(candidate));
		n++;
	}
	return n == 1;
}

static bool choose_by_interface(const struct ifaddrs *all, const char *filter, char *text)
{
	union sml_sockaddr address;

	for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next)
		if (sml_interface_matches(filter, i->ifa_name) &&
		    copy_usable(i->ifa_addr, &address)) {
			(void)sml_sockaddr_text(&address, text);
			return true;
		}
	return false;
}

void sml_listen_choose(const char *master, const char *filter, char text[INET6_ADDRSTRLEN])
{
	struct ifaddrs *all = NULL;

	if (getifaddrs(&all) < 0)
		all = NULL;
	if (!choose_by_name(all, master, text) &&
	    !(filter != NULL && choose_by_interface(all, filter, text)))
		text[0] = '\0';
	freeifaddrs(all);
}
