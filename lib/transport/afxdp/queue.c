/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/transport/afxdp/queue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define FRAME_BYTES	   2048u
#define LARGE_FRAME_BYTES  4096u
#define KERNEL_HEADROOM	   256u /* XDP_PACKET_HEADROOM */
#define ALIGNMENT_HEADROOM 2u	/* everything behind Ethernet's 14 bytes is aligned */
#define ETHERNET_BYTES	   22u	/* room for two VLAN tags */
#define SEND_BUFFER_BYTES  (8 << 20)
/* The kernel takes this many packets per call if the driver does not take them by itself. */
#define PACKETS_A_KICK 32u

/* ---- memory ---- */

static uint32_t frame_bytes_of(const struct sml_device *device)
{
	uint32_t room = FRAME_BYTES - KERNEL_HEADROOM - ALIGNMENT_HEADROOM;

	return device->mtu + ETHERNET_BYTES <= room ? FRAME_BYTES : LARGE_FRAME_BYTES;
}

uint32_t sml_queue_most_bytes(const struct sml_device *device)
{
	return frame_bytes_of(device) - KERNEL_HEADROOM - ALIGNMENT_HEADROOM;
}

/* UMEM counts as locked memory: raise the limit as far as allowed. */
static void allow_locked(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0 || limit.rlim_cur >= limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_MEMLOCK, &limit);
}

static int create_umem(struct sml_queue *queue)
{
	const struct xsk_umem_config config = {
		.fill_size = SML_RECEIVE_FRAMES,
		.comp_size = SML_SEND_FRAMES,
		.frame_size = queue->frame_bytes,
		.frame_headroom = ALIGNMENT_HEADROOM,
	};
	uint32_t place = 0;

	queue->memory_bytes = (size_t)(SML_RECEIVE_FRAMES + SML_SEND_FRAMES) * queue->frame_bytes;
	queue->memory = mmap(NULL, queue->memory_bytes, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (queue->memory == MAP_FAILED) {
		queue->memory = NULL;
		return -ENOMEM;
	}
	allow_locked();
	if (xsk_umem__create(&queue->umem, queue->memory, queue->memory_bytes, &queue->fill,
			     &queue->completion, &config) != 0) {
		queue->umem = NULL;
		return errno ? -errno : -EINVAL;
	}
	for (uint32_t i = 0; i < SML_SEND_FRAMES; i++)
		queue->free[queue->n_free++] =
			(uint64_t)(SML_RECEIVE_FRAMES + i) * queue->frame_bytes;
	xsk_ring_prod__reserve(&queue->fill, SML_RECEIVE_FRAMES, &place);
	for (uint32_t i = 0; i < SML_RECEIVE_FRAMES; i++)
		*xsk_ring_prod__fill_addr(&queue->fill, place++) = (uint64_t)i * queue->frame_bytes;
	xsk_ring_prod__submit(&queue->fill, SML_RECEIVE_FRAMES);
	return 0;
}

/* ---- queues: under the lock of the devices ---- */

static void free_queue(struct sml_queue *queue)
{
	if (queue->umem)
		(void)xsk_umem__delete(queue->umem);
	if (queue->memory)
		munmap(queue->memory, queue->memory_bytes);
	pthread_mutex_destroy(&queue->lock);
	free(queue);
}

static int get_queue(struct sml_queue **found, struct sml_device *device, uint32_t number)
{
	struct sml_queue *queue = device->queues;
	int error;

	while (queue && queue->number != number)
		queue = queue->next;
	if (queue == NULL) {
		queue = calloc(1, sizeof(*queue));
		if (queue == NULL)
			return -ENOMEM;
		pthread_mutex_init(&queue->lock, NULL);
		queue->device = device;
		queue->number = number;
		queue->frame_bytes = frame_bytes_of(device);
		error = create_umem(queue);
		if (error) {
			free_queue(queue);
			return error;
		}
		queue->next = device->queues;
		device->queues = queue;
	}
	queue->n_users++;
	*found = queue;
	return 0;
}

static void put_queue(struct sml_queue *queue)
{
	struct sml_queue **place = &queue->device->queues;

	if (--queue->n_users > 0)
		return;
	while (*place != queue)
		place = &(*place)->next;
	*place = queue->next;
	free_queue(queue);
}

/* ---- sockets ---- */

static int create_socket(struct sml_queue_socket *made, struct sml_queue *queue)
{
	const struct sml_device *device = queue->device;
	const struct xsk_socket_config config = {
		.rx_size = SML_RECEIVE_FRAMES,
		.tx_size = SML_SEND_FRAMES,
		.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
		/* Without a flag for copying, the kernel avoids copies if the driver can. */
		.bind_flags = (uint16_t)(XDP_USE_NEED_WAKEUP | (device->generic ? XDP_COPY : 0)),
	};
	struct xdp_options options = {0};
	socklen_t length = sizeof(options);
	int bytes = SEND_BUFFER_BYTES, error;

	error = xsk_socket__create_shared(&made->xsk, device->name, queue->number, queue->umem,
					  &made->rx, &made->tx, &queue->fill, &queue->completion,
					  &config);
	if (error) {
		made->xsk = NULL;
		return error;
	}
	made->fd = xsk_socket__fd(made->xsk);
	/*
	 * libxdp does not do this: a program that the application starts would keep the queue
	 * busy.
	 */
	(void)fcntl(made->fd, F_SETFD, FD_CLOEXEC);
	if (setsockopt(made->fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) < 0)
		(void)setsockopt(made->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	if (getsockopt(made->fd, SOL_XDP, XDP_OPTIONS, &options, &length) == 0)
		made->zero_copy = options.flags & XDP_OPTIONS_ZEROCOPY;
	return 0;
}

int sml_queue_socket_open(struct sml_queue_socket *made, struct sml_device *device, uint32_t number)
{
	int error;

	*made = (struct sml_queue_socket){.fd = -1};
	sml_devices_lock();
	error = get_queue(&made->queue, device, number);
	if (error == 0) {
		error = create_socket(made, made->queue);
		if (error)
			put_queue(made->queue);
	}
	sml_devices_unlock();
	return error;
}

void sml_queue_socket_close(struct sml_queue_socket *made)
{
	uint64_t addresses[64];
	uint32_t place, n;

	/* Frames in the socket's rings belong to the queue, which other sockets may still use. */
	for (unsigned i = 0; i < SML_SEND_FRAMES / PACKETS_A_KICK && !sml_queue_is_sent(made); i++)
		sml_queue_kick(made);
	while ((n = xsk_ring_cons__peek(&made->rx, 64, &place)) > 0) {
		for (uint32_t i = 0; i < n; i++)
			addresses[i] = xsk_ring_cons__rx_desc(&made->rx, place + i)->addr;
		xsk_ring_cons__release(&made->rx, n);
		sml_queue_refill(made, addresses, n);
	}
	sml_devices_lock();
	xsk_socket__delete(made->xsk);
	put_queue(made->queue);
	sml_devices_unlock();
}

/* ---- frames ---- */

void sml_queue_refill(struct sml_queue_socket *made, const uint64_t *addresses, unsigned n)
{
	struct sml_queue *queue = made->queue;
	uint64_t begin = ~(uint64_t)(queue->frame_bytes - 1);
	bool wake = false;
	uint32_t place;

	if (n == 0)
		return;
	pthread_mutex_lock(&queue->lock);
	/* There is room: the ring holds all frames that are used for receiving. */
	if (xsk_ring_prod__reserve(&queue->fill, n, &place) == n) {
		for (unsigned i = 0; i < n; i++)
			*xsk_ring_prod__fill_addr(&queue->fill, place++) = addresses[i] & begin;
		xsk_ring_prod__submit(&queue->fill, n);
		wake = xsk_ring_prod__needs_wakeup(&queue->fill);
	}
	pthread_mutex_unlock(&queue->lock);
	if (wake)
		(void)recvfrom(made->fd, NULL, 0, MSG_DONTWAIT, NULL, NULL);
}

/* The caller holds the lock. */
static void take_back(struct sml_queue *queue)
{
	uint32_t place, n = xsk_ring_cons__peek(&queue->completion, SML_SEND_FRAMES, &place);

	for (uint32_t i = 0; i < n && queue->n_free < SML_SEND_FRAMES; i++)
		queue->free[queue->n_free++] =
			*xsk_ring_cons__comp_addr(&queue->completion, place + i);
	if (n > 0)
		xsk_ring_cons__release(&queue->completion, n);
}

unsigned sml_queue_take(struct sml_queue *queue, uint64_t *addresses, unsigned most)
{
	unsigned n;

	pthread_mutex_lock(&queue->lock);
	take_back(queue);
	n = most < queue->n_free ? most : queue->n_free;
	queue->n_free -= n;
	memcpy(addresses, queue->free + queue->n_free, n * sizeof(*addresses));
	pthread_mutex_unlock(&queue->lock);
	return n;
}

void sml_queue_kick(struct sml_queue_socket *made)
{
	unsigned patience = SML_SEND_FRAMES / PACKETS_A_KICK;

	/*
	 * If the driver copies, each call sends only some frames, and EAGAIN means that more
	 * remain.
	 */
	while (patience-- > 0 && !sml_queue_is_sent(made) &&
	       xsk_ring_prod__needs_wakeup(&made->tx)) {
		if (sendto(made->fd, NULL, 0, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0) < 0 &&
		    errno != EAGAIN && errno != EBUSY)
			break;
		if (made->zero_copy)
			break;
	}
}
