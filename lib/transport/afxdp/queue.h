/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A receive queue of an interface, and the memory (UMEM) that this process shares with the
 * kernel for it. The kernel allows one UMEM per queue. So all sockets of this process on one
 * queue share it, together with its fill and completion rings, and they take a lock once per
 * batch. Each socket has its own receive and transmit rings.
 *
 * A frame is always in exactly one place. A frame for receiving is in the fill ring, in the
 * kernel, in a receive ring or in a socket's `held`. A frame for sending is in `free`, in a
 * transmit ring, in the kernel or in the completion ring.
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

	pthread_mutex_t lock; /* guards everything below */
	struct xsk_ring_prod fill;
	struct xsk_ring_cons completion;
	uint64_t free[SML_SEND_FRAMES];
	unsigned n_free;
};

/* One socket. One thread owns it, except for the shared queue. */
struct sml_queue_socket {
	struct sml_queue *queue;
	struct xsk_socket *xsk;
	int fd;
	bool zero_copy;
	struct xsk_ring_cons rx;
	struct xsk_ring_prod tx;
};

/* The longest frame that fits into the buffers of a device's queues, in both directions. */
uint32_t sml_queue_most_bytes(const struct sml_device *device);

/*
 * Open a socket on a device's queue. 0 or -errno. -EBUSY: another process has a socket
 * there. -ENOBUFS: this needs more memory than the process may lock.
 */
int sml_queue_socket_open(struct sml_queue_socket *made, struct sml_device *device,
			  uint32_t number);
void sml_queue_socket_close(struct sml_queue_socket *made);

/* Return received frames. The addresses may have any offset within a frame. */
void sml_queue_refill(struct sml_queue_socket *made, const uint64_t *addresses, unsigned n);

/* Take frames for sending, after collecting those that were sent. Returns their number. */
unsigned sml_queue_take(struct sml_queue *queue, uint64_t *addresses, unsigned most);

/* Tell the kernel that there is something to send, if it needs to be told. */
void sml_queue_kick(struct sml_queue_socket *made);

/* Has the kernel taken all frames from the transmit ring? */
static inline bool sml_queue_is_sent(const struct sml_queue_socket *made)
{
	return __atomic_load_n(made->tx.consumer, __ATOMIC_ACQUIRE) == *made->tx.producer;
}

#endif
