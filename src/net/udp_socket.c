/* SPDX-License-Identifier: BSD-3-Clause */
/* The dataplane's sockets: see udp_socket.h. */
#include "net/udp_socket.h"

#include <errno.h>
#include <linux/filter.h>
#include <string.h>

#include "base/error.h"
#include "base/fork.h"
#include "core/wire.h"
#include "net/address.h"
#include "net/listen_address.h"
#include "net/udp_options.h"

/* The size that we ask for; the size that the system's limit allows decides the ranks' windows. */
#define WANTED_BUFFER_BYTES (32 << 20)

/*
 * Decides which of the port's sockets gets a packet: (job + shard) mod threads, so that a slot has
 * one owner. The filter sees the UDP payload.
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

/* All are optional: without them, packets come one by one, or drops are not seen. */
static void request_ancillary(int fd, const struct sml_listen_address *local,
			      const struct sml_udp_options *options)
{
	bool for_xdp = options->for_xdp;
	bool v6 = local->address.any.sa_family == AF_INET6;
	int one = 1;

	/* With it, packets would be coalesced before they reach generic XDP. */
	if (!for_xdp)
		(void)sml_udp_enable_gro(fd);
	setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &one, sizeof(one));
	sml_udp_forbid_fragments(fd, v6);
	if (!local->all && !for_xdp)
		return;
	setsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_RECVPKTINFO : IP_PKTINFO, &one,
		   sizeof(one));
}

/* SO_REUSEPORT would also share the port with another switch, so refuse if one has it. */
static int check_that_port_is_free(struct sml_listen_address local)
{
	int fd = sml_listen_address_socket(&local, SOCK_DGRAM), rc;

	if (fd < 0)
		return fd;
	rc = sml_listen_address_bind(&local, fd);
	sml_fd_close(fd);
	return rc;
}

static int open_socket(const struct sml_udp_options *options, bool first)
{
	struct sml_listen_address local;
	int rc = sml_listen_address_parse(options->address, options->port, &local), fd, one = 1;

	if (rc == 0 && first && options->n_threads > 1)
		rc = check_that_port_is_free(local);
	if (rc < 0)
		return rc;
	fd = sml_listen_address_socket(&local, SOCK_DGRAM);
	if (fd < 0)
		return fd;
	if (options->n_threads > 1 &&
	    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) < 0)
		rc = -errno;
	request_ancillary(fd, &local, options);
	if (rc == 0)
		rc = sml_listen_address_bind(&local, fd);
	if (rc == 0 && options->n_threads > 1 && steer(fd, options->n_threads) < 0)
		rc = -errno;
	if (rc < 0) {
		sml_fd_close(fd);
		return rc;
	}
	return fd;
}

int sml_udp_socket_open(const struct sml_udp_options *options, bool first, uint32_t *buffer_bytes)
{
	int fd = open_socket(options, first);

	if (fd < 0)
		return sml_error_set(
			fd, "cannot use UDP port %u of %s for data: %s; %s", options->port,
			options->address ? options->address : "all addresses", strerror(-fd),
			sml_bind_fix(fd, "choose another port with --data-port, or see which "
					 "process uses it: ss -lunp"));
	*buffer_bytes = sml_udp_widen_in(fd, WANTED_BUFFER_BYTES);
	sml_udp_widen_out(fd, WANTED_BUFFER_BYTES);
	return fd;
}

void sml_udp_map_for(int fd, union sml_sockaddr *address)
{
	union sml_sockaddr own = {0};
	socklen_t length = sizeof(own);

	if (getsockname(fd, &own.any, &length) == 0 && own.any.sa_family == AF_INET6)
		sml_sockaddr_map(address);
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
	/* An empty packet counts as one malformed packet and must not cause an endless loop. */
	return segment ? segment : 4;
}

bool sml_udp_is_from(const struct msghdr *message, const union sml_sockaddr *address)
{
	union sml_sockaddr from = {0}, wanted = *address;

	if (message->msg_namelen > sizeof(from))
		return false;
	memcpy(&from, message->msg_name, message->msg_namelen);
	sml_sockaddr_map(&from);
	sml_sockaddr_map(&wanted);
	return from.v6.sin6_port == wanted.v6.sin6_port &&
	       memcmp(&from.v6.sin6_addr, &wanted.v6.sin6_addr, sizeof(from.v6.sin6_addr)) == 0;
}

/* In the kernel's form: our address, and the interface only where the kernel needs it. */
static void put_from(struct sml_path *path, int level, int type, const void *info, size_t bytes)
{
	sml_udp_write_control(path->from, level, type, info, bytes);
	path->from_bytes = (uint32_t)CMSG_SPACE(bytes);
}

uint32_t sml_udp_interface(struct msghdr *message)
{
	struct in6_pktinfo v6;
	struct in_pktinfo v4;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
			memcpy(&v6, CMSG_DATA(c), sizeof(v6));
			return v6.ipi6_ifindex;
		}
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			memcpy(&v4, CMSG_DATA(c), sizeof(v4));
			return (uint32_t)v4.ipi_ifindex;
		}
	}
	return 0;
}

void sml_udp_path(struct msghdr *message, struct sml_path *path)
{
	struct in6_pktinfo v6;
	struct in_pktinfo v4;

	*path = (struct sml_path){.from_bytes = 0};
	memcpy(&path->to, message->msg_name, message->msg_namelen);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
			memcpy(&v6, CMSG_DATA(c), sizeof(v6));
			if (!IN6_IS_ADDR_LINKLOCAL(&v6.ipi6_addr))
				v6.ipi6_ifindex = 0;
			put_from(path, IPPROTO_IPV6, IPV6_PKTINFO, &v6, sizeof(v6));
		} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO &&
			   path->from_bytes == 0) {
			memcpy(&v4, CMSG_DATA(c), sizeof(v4));
			v4.ipi_ifindex = 0;
			put_from(path, IPPROTO_IP, IP_PKTINFO, &v4, sizeof(v4));
		}
	}
}
