/* SPDX-License-Identifier: BSD-3-Clause */
/* The dataplane's sockets: see udp_socket.h. */
#include "switch/udp_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/wire.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

/* Asked for; what the system's limit leaves of it decides the ranks' windows. */
#define WANTED_BUFFER_BYTES (32 << 20)

/* As many as the limit allows: the FORCE option needs CAP_NET_ADMIN. */
static void widen_buffers(int fd, uint32_t *buffer_bytes)
{
	int bytes = WANTED_BUFFER_BYTES, got = 0;
	socklen_t length = sizeof(got);

	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) < 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) < 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &got, &length) == 0 && got > 0)
		*buffer_bytes = (uint32_t)got;
}

/*
 * Which of the sockets on the port gets a packet: (job + shard) mod threads, so
 * that a slot has one owner. The filter sees the UDP payload.
 */
static int steer(int fd, unsigned n_threads)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, offsetof(struct sml_header, shard)),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct sml_header, job_be)),
		BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0),
		BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, n_threads),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program));
}

static int parse_address(const char *address, uint16_t port, struct sockaddr_in6 *out)
{
	char mapped[64];

	*out = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
	if (address == NULL || address[0] == '\0') {
		out->sin6_addr = in6addr_any;
		return 0;
	}
	if (strchr(address, ':') == NULL)
		snprintf(mapped, sizeof(mapped), "::ffff:%s", address);
	else
		snprintf(mapped, sizeof(mapped), "%s", address);
	return inet_pton(AF_INET6, mapped, &out->sin6_addr) == 1 ? 0 : -EINVAL;
}

static int set_options(int fd, unsigned n_threads)
{
	int zero = 0, one = 1;

	if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero)) < 0)
		return -errno;
	if (n_threads > 1 && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) < 0)
		return -errno;
	/* Without them packets come one by one, and drops are not seen. */
	setsockopt(fd, SOL_UDP, UDP_GRO, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &one, sizeof(one));
	return 0;
}

int sml_udp_socket_open(const char *address, uint16_t port, unsigned n_threads,
			uint32_t *buffer_bytes, char *error_text, size_t error_bytes)
{
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc;
	struct sockaddr_in6 bound;

	if (fd < 0) {
		rc = -errno;
		snprintf(error_text, error_bytes, "no UDP socket: %s (is IPv6 disabled?)",
			 strerror(-rc));
		return rc;
	}
	rc = set_options(fd, n_threads);
	if (rc == 0)
		rc = parse_address(address, port, &bound);
	if (rc == 0 && bind(fd, (const struct sockaddr *)&bound, sizeof(bound)) < 0)
		rc = -errno;
	if (rc == 0 && n_threads > 1 && steer(fd, n_threads) < 0)
		rc = -errno;
	if (rc < 0) {
		snprintf(error_text, error_bytes,
			 "cannot use UDP port %u of %s for data: %s; choose another with "
			 "--data-port, or see who has it: ss -lunp",
			 port, address ? address : "all addresses", strerror(-rc));
		close(fd);
		return rc;
	}
	widen_buffers(fd, buffer_bytes);
	return fd;
}

uint32_t sml_udp_segment_bytes(struct msghdr *message, uint32_t length, uint32_t *drops)
{
	uint32_t segment = length;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
		if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
			int bytes;

			memcpy(&bytes, CMSG_DATA(c), sizeof(bytes));
			segment = bytes > 0 ? (uint32_t)bytes : length;
		} else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
			memcpy(drops, CMSG_DATA(c), sizeof(*drops));
		}
	}
	/* An empty packet is one malformed packet, not an endless loop. */
	return segment ? segment : 4;
}
