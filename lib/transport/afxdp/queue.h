/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A receive queue of an interface, and the memory (UMEM) that this process shares with
 * the kernel for it. The kernel allows one such memory a queue, so all sockets of this
 * process on one queue share it, and its fill and completion rings: under a lock, once
 * a batch. Each socket has receive and transmit rings of its own.
 *
 * A frame is always in exactly one place: for receiving, in the fill ring, the kernel's
 * hands, a receive ring or a socket's `held`; for sending, in `free`, a transmit ring,
 * the kernel's hands or the completion ring.
 */
#ifndef SML_LIB_AFXDP_QUEUE_H
#define SML_LIB_AFXDP_QUEUE_H

#include <pthread.h>
#include <xdp/xsk.h>

#include "lib/transport/afxdp/device.h"

#define SML_RECEIVE_FRAMES 2048u
#define SML_SEND_FRAMES	   1024u

struct sml_queue {
	struct sml_queue *next;
	struct sml_device *device;
	uint32_t number;
	unsigned n_users;
	uint32_t frame_bytes; /* a power of two */
	uint8_t *memory;
	size_t memory_bytes;
	struct xsk_umem *umem;

	pthread_mutex_t lock; /* of all below */
	struct xsk_ring_prod fill;
	struct xsk_ring_cons completion;
	uint64_t free[SML_SEND_FRAMES];
	unsigned n_free;
};

/* One socket. A thread's own, but for the queue. */
struct sml_queue_socket {
	struct sml_queue *queue;
	struct xsk_socket *xsk;
	int fd;
	bool zero_copy;
	struct xsk_ring_cons rx;
	struct xsk_ring_prod tx;
};

/* The longest frame that the buffers of a device's queues take, both ways. */
uint32_t sml_queue_most_bytes(const struct sml_device *device);

/*
 * A socket on a device's queue. 0 or -errno; -EBUSY: another process has one there.
 * -ENOBUFS: more memory than this process may lock.
 */
int sml_queue_socket_open(struct sml_queue_socket *made, struct sml_device *device,
			  uint32_t number);
void sml_queue_socket_close(struct sml_queue_socket *made);

/* Give frames that were received back, whatever offset the addresses have. */
void sml_queue_refill(struct sml_queue_socket *made, const uint64_t *addresses, unsigned n);

/* Frames to send; what was sent before is taken back first. Returns how many. */
unsigned sml_queue_take(struct sml_queue *queue, uint64_t *addresses, unsigned most);

/* Tell the kernel, if it has to be told, that there is something to send. */
void sml_queue_kick(struct sml_queue_socket *made);

/* Has the kernel taken everything off the transmit ring? */
static inline bool sml_queue_is_sent(const struct sml_queue_socket *made)
{
	return __atomic_load_n(made->tx.consumer, __ATOMIC_ACQUIRE) == *made->tx.producer;
}

#endif
