/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast groups for results: see group.h. */
#include "net/group.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/wire.h"
#include "net/address.h"

/*
 * 224.0.0.0/24, ff01:: and ff02:: are reserved for routers: every bridge floods them, or they stay
 * within a host.
 */
static bool is_for_us(const struct sml_group *group)
{
	const uint8_t *a = group->address;

	if (group->bytes == 4)
		return a[0] >= 224 && a[0] <= 239 && (a[0] != 224 || a[1] || a[2]);
	return a[0] == 0xff && (a[1] & 0x0f) > 2;
}

struct sml_group sml_group_of_job(const struct sml_group *first, uint32_t place)
{
	struct sml_group group = *first;

	for (unsigned i = group.bytes; i-- > 0 && place > 0; place >>= 8) {
		place += group.address[i];
		group.address[i] = (uint8_t)place;
	}
	return group;
}

int sml_group_parse(const char *text, uint32_t n_jobs, struct sml_group *group)
{
	struct sml_host_port named;
	struct sml_group last;

	*group = (struct sml_group){.port = SML_DEFAULT_GROUP_PORT};
	if (!sml_host_port_parse(text, strlen(text), &named))
		return -EINVAL;
	if (named.has_port)
		group->port = named.port;
	if (inet_pton(AF_INET, named.host, group->address) == 1)
		group->bytes = 4;
	else if (inet_pton(AF_INET6, named.host, group->address) == 1)
		group->bytes = 16;
	else
		return -EINVAL;
	last = sml_group_of_job(group, n_jobs - 1);
	if (!is_for_us(group) || !is_for_us(&last) || group->port == 0 ||
	    group->port > 65536 - SML_MAX_SHARDS)
		return -EINVAL;
	return 0;
}

void sml_group_address(const struct sml_group *group, uint8_t shard, sa_family_t family,
		       struct sockaddr_in6 *to)
{
	in_port_t port_be = htons((uint16_t)(group->port + shard));
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = port_be};

	memset(to, 0, sizeof(*to));
	if (family == AF_INET) {
		memcpy(&v4.sin_addr, group->address, sizeof(v4.sin_addr));
		memcpy(to, &v4, sizeof(v4));
		return;
	}
	to->sin6_family = AF_INET6;
	to->sin6_port = port_be;
	if (group->bytes == 16) {
		memcpy(&to->sin6_addr, group->address, 16);
		return;
	}
	to->sin6_addr.s6_addr[10] = to->sin6_addr.s6_addr[11] = 0xff;
	memcpy(&to->sin6_addr.s6_addr[12], group->address, 4);
}

void sml_group_text(const struct sml_group *group, char text[SML_GROUP_TEXT_BYTES])
{
	char address[INET6_ADDRSTRLEN] = "?";

	inet_ntop(group->bytes == 4 ? AF_INET : AF_INET6, group->address, address, sizeof(address));
	snprintf(text, SML_GROUP_TEXT_BYTES, "%s port %u", address, group->port);
}
