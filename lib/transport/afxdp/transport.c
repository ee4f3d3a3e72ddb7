/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A transport that bypasses the network stack: an AF_XDP socket beside a UDP socket. The UDP
 * socket owns the port, and it carries everything that the AF_XDP socket cannot carry:
 *
 * - the first packets, from which the kernel learns the next hop's address and this code
 *   learns the queue that receives the answers;
 * - packets longer than a frame;
 * - all packets, if the queue or the neighbor is lost.
 *
 * So a fault of the fast path never does more than lose packets.
 */
#include <cap-ng.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "lib/transport/afxdp/module.h"
#include "lib/transport/afxdp/queue.h"
#include "lib/transport/afxdp/route.h"
#include "switchml.h"

/* What the kernel would charge for a packet. The window is computed from this number. */
#define CHARGED_BYTES 2048u
/* After this many packets through the UDP socket, the program must have seen one. */
#define PATIENCE 64
/*
 * The kernel frees a queue after its last socket is closed, but not in close(): a kernel worker
 * does it (schedule_work() in xp_put_pool()). Until then, the queue looks as if another process
 * used it, for example when a job resumes or the next job begins. That worker has the normal
 * priority, so processes of a higher one can keep it waiting for much longer than a moment. Until
 * the queue is free, packets go through the UDP socket. The pauses between tries double.
 */
#define FIRST_BUSY_MS 20
#define LAST_BUSY_MS  2000
/* A neighbor's address is trusted for this long. */
#define NEIGHBOUR_MS 1000

enum state {
	LEARNING, /* the queue that receives packets */
	FAST,
	SLOW, /* permanently: the log has the reason */
};

struct afxdp {
	struct sml_transport base;
	struct sml_transport *udp;
	const struct sml_afxdp_services *library;
	const struct sml_log *log;
	struct sml_device *device;
	struct sml_route route;
	struct sml_flow_headers headers;
	struct sml_worker_flow_key key;
	struct sml_worker_flow flow;
	bool registered;
	enum state state;
	unsigned patience;
	/* The queue was busy at busy_ms (0: never), and is tried again at retry_ms. */
	int64_t busy_ms, retry_ms;
	struct sml_queue_socket socket;
	bool knows_mac;
	int64_t mac_until_ms;
	uint32_t udp_events, socket_events; /* what the epoll waits for */
	/* Frames of packets that were handed out. The next receive returns them to the kernel. */
	uint64_t held[SML_RECEIVE_PACKETS];
	unsigned n_held;
};

static struct afxdp *afxdp_of(struct sml_transport *transport)
{
	return (struct afxdp *)transport;
}

/* ---- waiting: one descriptor for both sockets ---- */

static int wait_for(struct afxdp *afxdp, int fd, uint32_t events, uint32_t *before)
{
	struct epoll_event event = {.events = events};
	int operation = *before ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (*before == events)
		return 0;
	if (epoll_ctl(afxdp->base.poll_fd, operation, fd, &event) < 0)
		return -errno;
	*before = events;
	return 0;
}

/* A waiter for room is woken by a readable descriptor, because an epoll is only ever readable. */
static void wait_for_room(struct afxdp *afxdp, bool udp, bool socket)
{
	(void)wait_for(afxdp, afxdp->udp->poll_fd, EPOLLIN | (udp ? EPOLLOUT : 0u),
		       &afxdp->udp_events);
	if (afxdp->state == FAST)
		(void)wait_for(afxdp, afxdp->socket.fd, EPOLLIN | (socket ? EPOLLOUT : 0u),
			       &afxdp->socket_events);
}

/* ---- from UDP to AF_XDP ---- */

static void stay_slow(struct afxdp *afxdp, const char *why)
{
	/* Log it once, not from every thread. */
	static int said_of;

	afxdp->state = SLOW;
	if (__atomic_exchange_n(&said_of, afxdp->route.ifindex, __ATOMIC_RELAXED) !=
	    afxdp->route.ifindex)
		afxdp->library->log(afxdp->log, SML_LOG_WARN,
				    "AF_XDP on %s: %s; using the UDP socket instead",
				    afxdp->route.name, why);
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Routers are replaced and their addresses move. The kernel keeps track of that. */
static bool knows_next_hop(struct afxdp *afxdp)
{
	uint8_t mac[SML_MAC_BYTES];
	int64_t now = now_ms();

	if (now < afxdp->mac_until_ms)
		return afxdp->knows_mac;
	afxdp->mac_until_ms = now + NEIGHBOUR_MS;
	afxdp->knows_mac = sml_route_next_mac(&afxdp->route, mac);
	if (afxdp->knows_mac)
		sml_flow_headers_set_macs(&afxdp->headers, afxdp->route.own_mac, mac);
	return afxdp->knows_mac;
}

static void describe(struct afxdp *afxdp)
{
	const struct sml_queue *queue = afxdp->socket.queue;

	snprintf(afxdp->base.features, sizeof(afxdp->base.features),
		 "AF_XDP on %.15s, queue %u, %s, %s mode", afxdp->route.name, queue->number,
		 afxdp->socket.zero_copy ? "zero-copy" : "copying",
		 queue->device->generic ? "generic" : "native");
	afxdp->library->log(
		afxdp->log, queue->device->generic ? SML_LOG_WARN : SML_LOG_INFO, "%s%s",
		afxdp->base.features,
		queue->device->generic
			? ": the driver does not support XDP, and a UDP socket may be faster"
			: "");
}

static void tell_refusal(struct afxdp *afxdp, int error)
{
	char text[128];

	if (error == -EBUSY)
		snprintf(text, sizeof(text), "another process uses queue %u", afxdp->flow.seen - 1);
	else if (error == -ENOBUFS)
		snprintf(text, sizeof(text), "it needs more locked memory (ulimit -l)");
	else
		snprintf(text, sizeof(text), "the socket cannot be bound to queue %u: %s",
			 afxdp->flow.seen - 1, strerrordesc_np(-error));
	stay_slow(afxdp, text);
}

/* The queue is busy. False: it has been for so long that another process must be using it. */
static bool tries_again(struct afxdp *afxdp)
{
	int64_t now = now_ms(), pause;

	if (afxdp->busy_ms == 0)
		afxdp->busy_ms = now;
	pause = now - afxdp->busy_ms;
	if (pause >= LAST_BUSY_MS)
		return false;
	afxdp->retry_ms = now + (pause > FIRST_BUSY_MS ? pause : FIRST_BUSY_MS);
	if (afxdp->retry_ms > afxdp->busy_ms + LAST_BUSY_MS)
		afxdp->retry_ms = afxdp->busy_ms + LAST_BUSY_MS;
	return true;
}

/* The UDP socket received a packet: find its queue. The job has not begun, so there is time. */
static void learn(struct afxdp *afxdp)
{
	struct sml_device *device = afxdp->device;
	int error;

	if (afxdp->busy_ms > 0 && now_ms() < afxdp->retry_ms)
		return;
	if (!sml_device_look(device, &afxdp->key, &afxdp->flow)) {
		if (--afxdp->patience == 0)
			stay_slow(afxdp, "its packets arrive at another interface");
		return;
	}
	error = sml_queue_socket_open(&afxdp->socket, device, afxdp->flow.seen - 1);
	if (error == -EBUSY && tries_again(afxdp))
		return;
	if (error) {
		tell_refusal(afxdp, error);
		return;
	}
	error = wait_for(afxdp, afxdp->socket.fd, EPOLLIN, &afxdp->socket_events);
	if (error == 0)
		error = sml_device_set_socket(device, &afxdp->key, &afxdp->flow, afxdp->socket.fd,
					      sml_queue_most_bytes(device));
	if (error) {
		sml_queue_socket_close(&afxdp->socket);
		tell_refusal(afxdp, error);
		return;
	}
	afxdp->state = FAST;
	describe(afxdp);
}

/* ---- out ---- */

/* Send packets from the front of the batch while there are frames. Returns the number sent. */
static unsigned send_frames(struct afxdp *afxdp, struct sml_batch *batch)
{
	struct sml_queue_socket *socket = &afxdp->socket;
	uint64_t addresses[SML_BATCH_PACKETS];
	unsigned n = batch->n - batch->first, room;
	uint32_t place;

	/* As many as the queue has frames: the ring of one socket can hold all of them. */
	room = xsk_prod_nb_free(&socket->tx, n);
	n = sml_queue_take(socket->queue, addresses, n < room ? n : room);
	if (n == 0 || xsk_ring_prod__reserve(&socket->tx, n, &place) != n)
		return 0;
	for (unsigned i = 0; i < n; i++) {
		unsigned p = batch->first + i;
		struct xdp_desc *out = xsk_ring_prod__tx_desc(&socket->tx, place + i);

		out->addr = addresses[i];
		out->len = sml_flow_write(&afxdp->headers, socket->queue->memory + addresses[i],
					  batch->bytes + batch->offset[p], batch->length[p]);
		out->options = 0;
	}
	xsk_ring_prod__submit(&socket->tx, n);
	sml_queue_kick(socket);
	batch->first += n;
	return n;
}

static bool fits(const struct afxdp *afxdp, const struct sml_batch *batch)
{
	uint32_t most = afxdp->flow.most_bytes - afxdp->headers.payload;

	for (unsigned i = batch->first; i < batch->n; i++)
		if (batch->length[i] > most)
			return false;
	return true;
}

static unsigned afxdp_send(struct sml_transport *transport, struct sml_batch *batch)
{
	struct afxdp *afxdp = afxdp_of(transport);
	unsigned before = batch->first;

	if (afxdp->state == FAST && knows_next_hop(afxdp) && fits(afxdp, batch))
		while (batch->first < batch->n && send_frames(afxdp, batch) > 0)
			;
	if (batch->first < batch->n)
		(void)afxdp->udp->ops->send(afxdp->udp, batch);
	wait_for_room(afxdp, batch->first < batch->n,
		      afxdp->state == FAST && !sml_queue_is_sent(&afxdp->socket));
	return batch->first - before;
}

/* ---- in ---- */

static void give_back(struct afxdp *afxdp)
{
	sml_queue_refill(&afxdp->socket, afxdp->held, afxdp->n_held);
	afxdp->n_held = 0;
}

/* If the driver leaves no room in front, the payload is moved to an aligned address. */
static const void *align(uint8_t *payload, uint32_t length)
{
	uint8_t *aligned = payload - ((uintptr_t)payload & 3);

	return aligned == payload ? payload : memmove(aligned, payload, length);
}

static unsigned receive_frames(struct afxdp *afxdp, struct sml_packet *packets)
{
	struct sml_queue_socket *socket = &afxdp->socket;
	struct sml_queue *queue = socket->queue;
	uint32_t place, length;
	unsigned n, taken = 0;

	n = xsk_ring_cons__peek(&socket->rx, SML_RECEIVE_PACKETS, &place);
	for (unsigned i = 0; i < n; i++) {
		const struct xdp_desc *in = xsk_ring_cons__rx_desc(&socket->rx, place + i);
		uint8_t *payload;

		afxdp->held[afxdp->n_held++] = in->addr;
		payload = sml_flow_read(&afxdp->headers, queue->memory + in->addr, in->len,
					queue->device->partial, &length);
		if (payload && sml_packet_length_is_valid(length))
			packets[taken++] = (struct sml_packet){align(payload, length), length, 0};
	}
	if (n > 0)
		xsk_ring_cons__release(&socket->rx, n);
	afxdp->base.drained = n < SML_RECEIVE_PACKETS;
	return taken;
}

static unsigned receive_udp(struct afxdp *afxdp, struct sml_packet *packets)
{
	unsigned n = afxdp->udp->ops->receive(afxdp->udp, packets);

	afxdp->base.drained = afxdp->udp->drained;
	if (n > 0 && afxdp->state == LEARNING)
		learn(afxdp);
	return n;
}

static unsigned afxdp_receive(struct sml_transport *transport, struct sml_packet *packets)
{
	struct afxdp *afxdp = afxdp_of(transport);
	unsigned n;

	if (afxdp->state != FAST)
		return receive_udp(afxdp, packets);
	give_back(afxdp);
	if (!sml_queue_is_sent(&afxdp->socket))
		sml_queue_kick(&afxdp->socket);
	/*
	 * Otherwise, room that nobody waits for any more would wake an idle thread again and
	 * again.
	 */
	else if (afxdp->socket_events & EPOLLOUT)
		(void)wait_for(afxdp, afxdp->socket.fd, EPOLLIN, &afxdp->socket_events);
	n = receive_frames(afxdp, packets);
	return n ? n : receive_udp(afxdp, packets);
}

/* ---- set-up ---- */

static void afxdp_close(struct sml_transport *transport)
{
	struct afxdp *afxdp = afxdp_of(transport);

	/* First remove the flow that leads to the socket, then the socket. */
	if (afxdp->registered)
		sml_device_remove_flow(afxdp->device, &afxdp->key, &afxdp->flow);
	if (afxdp->state == FAST) {
		give_back(afxdp);
		sml_queue_socket_close(&afxdp->socket);
	}
	if (afxdp->device)
		sml_device_put(afxdp->device);
	sml_route_close(&afxdp->route);
	if (afxdp->base.poll_fd >= 0)
		close(afxdp->base.poll_fd);
	if (afxdp->udp)
		afxdp->udp->ops->close(afxdp->udp);
	free(afxdp);
}

static const struct sml_transport_ops afxdp_ops = {
	.name = "afxdp",
	.send = afxdp_send,
	.receive = afxdp_receive,
	.close = afxdp_close,
};

static void put_address(uint32_t *words, const union sml_sockaddr *address)
{
	if (address->any.sa_family == AF_INET6) {
		memcpy(words, &address->v6.sin6_addr, sizeof(address->v6.sin6_addr));
		return;
	}
	words[2] = htonl(0xffff);
	words[3] = address->v4.sin_addr.s_addr;
}

/* Build the headers and the key of the reverse flow from the UDP socket's two addresses. */
static int describe_flow(struct afxdp *afxdp, union sml_sockaddr *own, union sml_sockaddr *peer)
{
	socklen_t length = sizeof(*own), peer_length = sizeof(*peer);

	if (getsockname(afxdp->udp->poll_fd, &own->any, &length) < 0 ||
	    getpeername(afxdp->udp->poll_fd, &peer->any, &peer_length) < 0)
		return -errno;
	sml_flow_headers_init(&afxdp->headers, own, peer);
	put_address(afxdp->key.source, peer);
	put_address(afxdp->key.destination, own);
	afxdp->key.source_port = peer->v4.sin_port;
	afxdp->key.destination_port = own->v4.sin_port;
	return 0;
}

/* The names of the capabilities that this process lacks; "" if it has all. */
static void list_missing_capabilities(char *text, size_t bytes)
{
	static const struct {
		unsigned capability;
		const char *name;
	} needed[] = {{CAP_NET_ADMIN, "CAP_NET_ADMIN"},
		      {CAP_NET_RAW, "CAP_NET_RAW"},
		      {CAP_BPF, "CAP_BPF"}};
	size_t length = 0;

	text[0] = '\0';
	if (capng_get_caps_process() < 0)
		return;
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		if (!capng_have_capability(CAPNG_EFFECTIVE, needed[i].capability) && length < bytes)
			length += (size_t)snprintf(text + length, bytes - length, "%s%s",
						   length ? ", " : "", needed[i].name);
}

static int open_device(struct afxdp *afxdp)
{
	const struct sml_afxdp_services *library = afxdp->library;
	static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
	char missing[64];
	int error;

	pthread_mutex_lock(&one_at_a_time); /* libcap-ng has one state for all threads */
	list_missing_capabilities(missing, sizeof(missing));
	pthread_mutex_unlock(&one_at_a_time);
	if (missing[0])
		return library->error_set(-EPERM,
					  "SWITCHML_TRANSPORT=afxdp needs %s, which this process "
					  "does not have: run as root, give them to the program "
					  "(setcap), or unset the variable to use UDP",
					  missing);
	error = sml_device_get(&afxdp->device, library, afxdp->route.ifindex, afxdp->route.name,
			       afxdp->route.mtu);
	if (error == -EBUSY) {
		stay_slow(afxdp, library->error_last());
		return 0;
	}
	if (error)
		return library->error_set(error, "SWITCHML_TRANSPORT=afxdp: %s",
					  library->error_last());
	error = sml_device_add_flow(afxdp->device, &afxdp->key, &afxdp->flow);
	/* Entries of killed processes stay as long as the program does. */
	if (error == -E2BIG || error == -ENOSPC) {
		stay_slow(afxdp, "the table of flows is full");
		return 0;
	}
	if (error)
		return library->error_set(
			error, "SWITCHML_TRANSPORT=afxdp: the flow cannot be added on %s: %s",
			afxdp->route.name, strerrordesc_np(-error));
	afxdp->registered = true;
	return 0;
}

static int open_beside(struct afxdp *afxdp, const struct sml_transport_config *config)
{
	const struct sml_afxdp_services *library = afxdp->library;
	const struct sml_interface *interface = config->interface;
	union sml_sockaddr own = {0}, peer = {0};
	int error = describe_flow(afxdp, &own, &peer);

	if (error == 0)
		error = sml_route_open(&afxdp->route, &peer,
				       interface->to_device ? (int)if_nametoindex(interface->name)
							    : 0);
	if (error)
		return library->error_set(
			error,
			"SWITCHML_TRANSPORT=afxdp: the route to the switch cannot be looked up: %s",
			strerrordesc_np(-error));
	afxdp->base.poll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (afxdp->base.poll_fd < 0 ||
	    wait_for(afxdp, afxdp->udp->poll_fd, EPOLLIN, &afxdp->udp_events) < 0)
		return library->error_set(-errno, "SWITCHML_TRANSPORT=afxdp: no epoll: %s",
					  strerrordesc_np(errno));
	if (afxdp->route.local)
		stay_slow(afxdp, "the switch is on the same host");
	else if (!afxdp->route.ethernet)
		stay_slow(afxdp, "it is not an Ethernet interface");
	return afxdp->state == SLOW ? 0 : open_device(afxdp);
}

__attribute__((visibility("default"))) int
sml_afxdp_open(struct sml_transport **opened, const struct sml_transport_config *config,
	       const struct sml_afxdp_services *services);

int sml_afxdp_open(struct sml_transport **opened, const struct sml_transport_config *config,
		   const struct sml_afxdp_services *services)
{
	/*
	 * Results go to this rank alone: multicast results would be another flow, on another
	 * queue.
	 */
	struct sml_transport_config alone = *config;
	struct afxdp *afxdp;
	uint32_t charged = SML_RECEIVE_FRAMES * CHARGED_BYTES;
	int error;

	if (strcmp(services->version, SML_AFXDP_VERSION) != 0)
		return services->error_set(SML_ERROR_VERSION,
					   "%s has version \"%s\", but the library has \"%s\"",
					   SML_AFXDP_MODULE, SML_AFXDP_VERSION, services->version);
	afxdp = calloc(1, sizeof(*afxdp));
	if (afxdp == NULL)
		return services->error_set(-ENOMEM, "no memory for an AF_XDP socket");
	alone.has_group = false;
	afxdp->base.poll_fd = -1;
	afxdp->patience = PATIENCE;
	afxdp->library = services;
	afxdp->log = config->log;
	afxdp->flow.queue = SML_WORKER_NO_QUEUE;
	error = services->udp->open(&afxdp->udp, &alone);
	if (error == 0) {
		int poll_fd = afxdp->base.poll_fd;

		afxdp->base = *afxdp->udp;
		afxdp->base.ops = &afxdp_ops;
		afxdp->base.poll_fd = poll_fd;
		error = open_beside(afxdp, config);
	}
	if (error) {
		afxdp_close(&afxdp->base);
		return error;
	}
	if (afxdp->base.receive_bytes > charged && afxdp->state != SLOW)
		afxdp->base.receive_bytes = charged;
	*opened = &afxdp->base;
	return 0;
}
