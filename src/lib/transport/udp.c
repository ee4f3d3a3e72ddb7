/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets over one UDP socket, connected to a switch, or between all ranks. System calls cost the
 * most here. So adjacent packets of one length leave as one datagram, which the kernel (or the NIC)
 * splits (UDP_SEGMENT), and arrive joined (UDP_GRO), many per call. Where the kernel refuses that,
 * sendmmsg and recvmmsg still move many packets per call.
 *
 * Errors of the socket are normal: an ICMP "refused" from a switch that restarts, or EPERM from a
 * firewall that drops the packet. The packet is lost, and the worker's timer repairs that. The
 * control connection notices a switch that is gone for good. Anyone can forge ICMP, so no message
 * from the network changes how this socket sends: the probes have found out how long packets can
 * be.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fork.h"
#include "lib/transport/transport.h"
#include "net/udp_options.h"
#include "net/udp_results.h"
#include "net/udp_sender.h"
#include "switchml.h"

#define SOCKET_BUFFER_BYTES (8 << 20)
/* Of each inbox. */
#define RECEIVE_BYTES (512u << 10)

_Static_assert(SML_RESULTS_AT_ONCE <= SML_RESULTS_MAX, "the table's promise");
_Static_assert(SML_BATCH_PACKETS <= SML_UDP_MESSAGES, "a batch waits whole for its flush");

struct udp {
	struct sml_transport base;
	const struct sml_log *log;
	const union sml_sockaddr *peers; /* NULL: the socket is connected */
	bool has_paths;
	struct sml_path paths[SML_MAX_CHILDREN]; /* to the peers, once they are known */
	bool gro, v6, too_long_logged;
	struct sml_udp_sender sender;
	struct sml_results results; /* by the sender */
	struct sml_udp_inbox *inbox;
};

static struct udp *udp_of(struct sml_transport *transport)
{
	return (struct udp *)transport;
}

/* ---- set-up ---- */

/* Anybody may send to it: cookies and tags tell who is who. */
static int listen_for_peers(struct udp *udp)
{
	union sml_sockaddr own = {.any.sa_family = udp->v6 ? AF_INET6 : AF_INET};
	int fd = udp->base.poll_fd;
	socklen_t length = sizeof(own);

	/* Bound already where an interface or ports were chosen: then this one fails, and all is
	 * well. */
	(void)bind(fd, &own.any, sml_sockaddr_length(&own));
	if (getsockname(fd, &own.any, &length) < 0)
		return -errno;
	/* The port is at the same place in both families. */
	udp->base.port = ntohs(own.v4.sin_port);
	udp->base.family = own.any.sa_family;
	return udp->base.port ? 0 : -EADDRNOTAVAIL;
}

static int connect_socket(struct udp *udp, const struct sml_transport_config *config)
{
	int fd = sml_fd_own(
		socket(config->peer.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	struct sml_interface interface = *config->interface;
	int error;
	uint32_t send_bytes;

	if (fd < 0)
		return -errno;
	udp->base.poll_fd = fd;
	if (config->peers) {
		/* Of both families, and those on this very host by the loopback device. */
		if (udp->v6)
			(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){0}, sizeof(int));
		if (udp->v6)
			sml_sockaddr_map(&interface.source);
		interface.to_device = false;
	}
	error = sml_interface_bind(&interface, &config->ports, fd);
	if (error)
		return error;
	sml_udp_forbid_fragments(fd, udp->v6);
	udp->base.receive_bytes = sml_udp_widen_in(fd, SOCKET_BUFFER_BYTES);
	send_bytes = sml_udp_widen_out(fd, SOCKET_BUFFER_BYTES);
	if (config->peers)
		error = listen_for_peers(udp);
	else if (connect(fd, &config->peer.any, sml_sockaddr_length(&config->peer)) < 0)
		error = -errno;
	if (error)
		return error;
	udp->gro = sml_udp_enable_gro(fd);
	sml_udp_sender_init(&udp->sender, fd, !config->single_packets && sml_udp_can_segment(fd));
	snprintf(udp->base.features, sizeof(udp->base.features),
		 "%s, %s, buffers of %u KiB in and %u KiB out",
		 udp->sender.segments ? "UDP_SEGMENT" : "sendmmsg",
		 udp->gro ? "UDP_GRO" : "recvmmsg", udp->base.receive_bytes >> 10,
		 send_bytes >> 10);
	return 0;
}

static struct sml_udp_inbox *new_inbox(int fd, bool gro)
{
	const struct sml_udp_inbox_config config = {.fd = fd, .bytes = RECEIVE_BYTES, .gro = gro};

	return sml_udp_inbox_new(&config);
}

static void udp_close(struct sml_transport *transport)
{
	struct udp *udp = udp_of(transport);

	if (udp->base.poll_fd >= 0)
		sml_fd_close(udp->base.poll_fd);
	sml_udp_inbox_free(udp->inbox);
	free(udp);
}

static const char *open_fix(int error)
{
	switch (-error) {
	case EMFILE:
	case ENFILE:
		return "raise the limit of descriptors (ulimit -n)";
	case EADDRINUSE:
		return "add ports to SWITCHML_PORTS, or see which processes use them: ss -anup";
	case ENOMEM:
	case ENOBUFS:
		return "free memory on this host";
	default:
		return "see the routes and addresses of this host (`ip route', `ip address'), and "
		       "SWITCHML_SOCKET_IFNAME";
	}
}

static int udp_open(struct sml_transport **opened, const struct sml_transport_config *config)
{
	struct udp *udp = calloc(1, sizeof(*udp));
	int error;

	if (udp == NULL)
		return sml_error_set(-ENOMEM, "no memory for a socket's buffers");
	udp->base = (struct sml_transport){.ops = &sml_transport_udp, .poll_fd = -1};
	udp->log = config->log;
	udp->peers = config->peers;
	sml_results_init(&udp->results, &udp->sender, config->own);
	udp->v6 = config->peer.any.sa_family == AF_INET6;
	error = connect_socket(udp, config);
	if (error == 0)
		udp->inbox = new_inbox(udp->base.poll_fd, udp->gro);
	if (error == 0 && udp->inbox == NULL)
		error = -ENOMEM;
	if (error) {
		udp_close(&udp->base);
		return sml_error_set(error, "a UDP socket to the switch cannot be opened: %s; %s",
				     strerrordesc_np(-error), open_fix(error));
	}
	*opened = &udp->base;
	return 0;
}

/* ---- out ---- */

static void log_refusals(struct udp *udp)
{
	char refusal[SML_UDP_REFUSAL_BYTES];

	if (sml_udp_sender_refusal(&udp->sender, refusal))
		sml_log(udp->log, SML_LOG_INFO, "%s", refusal);
	if (udp->sender.too_long == 0 || udp->too_long_logged)
		return;
	udp->too_long_logged = true;
	sml_log(udp->log, SML_LOG_WARN,
		"the interface no longer takes packets of %u bytes, which it took before: they are "
		"lost until its MTU is restored. To use shorter packets in the next job, set "
		"SWITCHML_MTU",
		udp->sender.too_long);
}

static const struct sml_path *path_to(struct udp *udp, uint8_t peer)
{
	if (udp->peers == NULL)
		return NULL;
	/* They were filled in before the first packet. */
	for (unsigned i = 0; !udp->has_paths && i < SML_MAX_CHILDREN; i++)
		memcpy(&udp->paths[i].to, &udp->peers[i], sizeof(udp->paths[i].to));
	udp->has_paths = true;
	return &udp->paths[peer];
}

static void udp_readdress(struct sml_transport *transport, uint8_t own)
{
	struct udp *udp = udp_of(transport);

	udp->has_paths = false;
	sml_results_init(&udp->results, &udp->sender, own);
}

/* Packets of a batch from i on that are for one peer. */
static unsigned same_peer(const struct sml_batch *batch, unsigned i)
{
	unsigned n = 1;

	while (i + n < batch->n && batch->peer[i + n] == batch->peer[i])
		n++;
	return n;
}

static unsigned udp_send(struct sml_transport *transport, struct sml_batch *batch)
{
	struct udp *udp = udp_of(transport);
	struct iovec packets[SML_BATCH_PACKETS];
	unsigned gone;

	for (unsigned i = batch->first; i < batch->n; i++)
		packets[i] = (struct iovec){batch->bytes + batch->offset[i], batch->length[i]};
	for (unsigned i = batch->first; i < batch->n;) {
		struct sml_udp_message message = {.packets = &packets[i],
						  .path = path_to(udp, batch->peer[i])};

		message.n = sml_udp_sender_run(&udp->sender, &packets[i], same_peer(batch, i));
		sml_udp_sender_add(&udp->sender, &message);
		i += message.n;
	}
	gone = sml_udp_sender_flush(&udp->sender, false);
	batch->first += gone;
	log_refusals(udp);
	return gone;
}

static void udp_send_results(struct sml_transport *transport, const struct iovec *packets,
			     unsigned n, uint64_t peers)
{
	struct udp *udp = udp_of(transport);
	const struct sml_path *paths = path_to(udp, 0);

	sml_assert(paths);
	/* One that was asked for again: not worth a wait for room. */
	if (n == 1 && (peers & (peers - 1)) == 0 && peers)
		sml_udp_sender_send_one(&udp->sender, &packets[0], &paths[__builtin_ctzll(peers)]);
	else
		sml_results_send_to(&udp->results, paths, peers, packets, n);
	log_refusals(udp);
}

/* ---- in ---- */

static unsigned udp_receive(struct sml_transport *transport, struct sml_packet *packets)
{
	struct udp *udp = udp_of(transport);

	return sml_udp_inbox_receive(udp->inbox, packets, &udp->base.drained);
}

const struct sml_transport_ops sml_transport_udp = {
	.name = "udp",
	.open = udp_open,
	.send = udp_send,
	.send_results = udp_send_results,
	.receive = udp_receive,
	.readdress = udp_readdress,
	.close = udp_close,
};
