/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/udp_options.h"

#include <netinet/in.h>
#include <string.h>

static uint32_t widen(int fd, int force, int option, int bytes)
{
	socklen_t length = sizeof(bytes);

	if (setsockopt(fd, SOL_SOCKET, force, &bytes, sizeof(bytes)) < 0)
		(void)setsockopt(fd, SOL_SOCKET, option, &bytes, sizeof(bytes));
	if (getsockopt(fd, SOL_SOCKET, option, &bytes, &length) < 0 || bytes < 0)
		return 0;
	return (uint32_t)bytes;
}

uint32_t sml_udp_widen_in(int fd, int bytes)
{
	return widen(fd, SO_RCVBUFFORCE, SO_RCVBUF, bytes);
}

uint32_t sml_udp_widen_out(int fd, int bytes)
{
	return widen(fd, SO_SNDBUFFORCE, SO_SNDBUF, bytes);
}

bool sml_udp_enable_gro(int fd)
{
	int on = 1;

	return setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on)) == 0;
}

bool sml_udp_can_segment(int fd)
{
	int off = 0;

	return setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &off, sizeof(off)) == 0;
}

void sml_udp_forbid_fragments(int fd, bool v6)
{
	int of_v4 = IP_PMTUDISC_PROBE, of_v6 = IPV6_PMTUDISC_PROBE;

	(void)setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &of_v4, sizeof(of_v4));
	if (v6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &of_v6, sizeof(of_v6));
}

void sml_udp_write_control(char *to, int level, int type, const void *data, size_t bytes)
{
	const struct cmsghdr header = {
		.cmsg_level = level,
		.cmsg_type = type,
		.cmsg_len = CMSG_LEN(bytes),
	};

	memset(to, 0, CMSG_SPACE(bytes));
	memcpy(to, &header, sizeof(header));
	memcpy(to + CMSG_LEN(0), data, bytes);
}

void sml_udp_write_segment(char *to, uint16_t segment_bytes)
{
	sml_udp_write_control(to, SOL_UDP, UDP_SEGMENT, &segment_bytes, sizeof(segment_bytes));
}
