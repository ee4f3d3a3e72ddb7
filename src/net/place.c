/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the switch listens: see place.h. */
#include "net/place.h"
#include "base/fork.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void all_of_v4(struct sml_place *place)
{
	in_port_t port_be = place->address.v6.sin6_port;

	memset(&place->address, 0, sizeof(place->address));
	place->address.v4.sin_family = AF_INET;
	place->address.v4.sin_port = port_be;
	place->address.v4.sin_addr.s_addr = htonl(INADDR_ANY);
}

int sml_place_parse(const char *address, uint16_t port, struct sml_place *place)
{
	/* Not inet_pton(), because fe80::1%eth0 is an address, too. */
	const struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
		.ai_socktype = SOCK_STREAM,
	};
	struct addrinfo *found;
	char service[8];

	memset(place, 0, sizeof(*place));
	if (address == NULL || address[0] == '\0') {
		place->all = true;
		place->address.v6.sin6_family = AF_INET6;
		place->address.v6.sin6_port = htons(port);
		place->address.v6.sin6_addr = in6addr_any;
		return 0;
	}
	snprintf(service, sizeof(service), "%u", port);
	if (getaddrinfo(address, service, &hints, &found) != 0)
		return -EINVAL;
	if (found->ai_addrlen <= sizeof(place->address))
		memcpy(&place->address, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

int sml_place_socket(struct sml_place *place, int type)
{
	int fd, zero = 0, error;

	type |= SOCK_CLOEXEC | SOCK_NONBLOCK;
	fd = socket(place->address.any.sa_family, type, 0);
	if (fd < 0 && errno == EAFNOSUPPORT && place->all &&
	    place->address.any.sa_family == AF_INET6) {
		all_of_v4(place);
		fd = socket(AF_INET, type, 0);
	}
	if (fd < 0)
		return -errno;
	if (place->all && place->address.any.sa_family == AF_INET6 &&
	    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero)) < 0) {
		error = -errno;
		close(fd);
		return error;
	}
	return sml_fd_own(fd);
}

int sml_place_bind(const struct sml_place *place, int fd)
{
	return bind(fd, &place->address.any, sml_sockaddr_length(&place->address)) < 0 ? -errno : 0;
}
