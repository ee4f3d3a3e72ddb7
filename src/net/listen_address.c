/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the switch listens: see listen_address.h. */
#include "net/listen_address.h"
#include "base/fork.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void all_of_v4(struct sml_listen_address *local)
{
	in_port_t port_be = local->address.v6.sin6_port;

	memset(&local->address, 0, sizeof(local->address));
	local->address.v4.sin_family = AF_INET;
	local->address.v4.sin_port = port_be;
	local->address.v4.sin_addr.s_addr = htonl(INADDR_ANY);
}

int sml_listen_address_parse(const char *address, uint16_t port, struct sml_listen_address *local)
{
	/* Not inet_pton(), because fe80::1%eth0 is an address, too. */
	const struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
		.ai_socktype = SOCK_STREAM,
	};
	struct addrinfo *found;
	char service[8];

	memset(local, 0, sizeof(*local));
	if (address == NULL || address[0] == '\0') {
		local->all = true;
		local->address.v6.sin6_family = AF_INET6;
		local->address.v6.sin6_port = htons(port);
		local->address.v6.sin6_addr = in6addr_any;
		return 0;
	}
	snprintf(service, sizeof(service), "%u", port);
	if (getaddrinfo(address, service, &hints, &found) != 0)
		return -EINVAL;
	if (found->ai_addrlen <= sizeof(local->address))
		memcpy(&local->address, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

int sml_listen_address_socket(struct sml_listen_address *local, int type)
{
	int fd, zero = 0, error;

	type |= SOCK_CLOEXEC | SOCK_NONBLOCK;
	fd = socket(local->address.any.sa_family, type, 0);
	if (fd < 0 && errno == EAFNOSUPPORT && local->all &&
	    local->address.any.sa_family == AF_INET6) {
		all_of_v4(local);
		fd = socket(AF_INET, type, 0);
	}
	if (fd < 0)
		return -errno;
	if (local->all && local->address.any.sa_family == AF_INET6 &&
	    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero)) < 0) {
		error = -errno;
		close(fd);
		return error;
	}
	return sml_fd_own(fd);
}

int sml_listen_address_bind(const struct sml_listen_address *local, int fd)
{
	return bind(fd, &local->address.any, sml_sockaddr_length(&local->address)) < 0 ? -errno : 0;
}
