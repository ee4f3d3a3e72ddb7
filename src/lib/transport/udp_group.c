/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Joining: see udp_group.h. The membership is for packets from one source only (IGMPv3 and
 * MLDv2 tell the network, and 232.0.0.0/8 is only for such groups). If the network filters by
 * source, other senders' packets to the group do not reach this host; if not, they do not reach
 * the socket. The socket is also connected to the switch, so that the kernel checks the port, too.
 */
#include "lib/transport/udp_group.h"
#include "base/fork.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

static int join_group(int fd, const union sml_sockaddr *group, const union sml_sockaddr *from,
		      const char *interface)
{
	bool v6 = group->any.sa_family == AF_INET6;
	/* An interface without a name of ours: 0, the one that the group's route leads to. */
	struct group_source_req wanted = {.gsr_interface = if_nametoindex(interface)};
	int off = 0;

	memcpy(&wanted.gsr_group, group, sml_sockaddr_length(group));
	memcpy(&wanted.gsr_source, from, sml_sockaddr_length(from));
	/* Nothing of groups that only others on this host have joined, or by other interfaces. */
	if (v6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, &off, sizeof(off));
	else if (setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof(off)) < 0)
		return -errno;
	return setsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, MCAST_JOIN_SOURCE_GROUP, &wanted,
			  sizeof(wanted)) < 0
		       ? -errno
		       : 0;
}

int sml_udp_group_join(const union sml_sockaddr *group, const union sml_sockaddr *from,
		       const struct sml_interface *interface)
{
	int fd = sml_fd_own(
		socket(group->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	int on = 1, error = 0;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, &group->any, sml_sockaddr_length(group)) < 0)
		error = -errno;
	if (error == 0)
		error = join_group(fd, group, from, interface->name);
	if (error == 0 && connect(fd, &from->any, sml_sockaddr_length(from)) < 0)
		error = -errno;
	if (error == 0)
		return fd;
	sml_fd_close(fd);
	return error;
}
