/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving: see udp_inbox.h. The invariant: what recvmmsg() has filled in is handed out
 * before it is called again, however many packets a message was glued of.
 */
#include "lib/transport/udp_inbox.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

/*
 * Few large buffers where the kernel glues packets together. Also where it then has nothing to
 * glue: 56 messages a call instead of 8 make a quarter of the calls, and cost an eighth more CPU
 * all the same (measured: 1 Gbit/s, 1448-byte packets, offloads off).
 */
#define RECEIVE_BYTES (512u << 10)
#define GLUED_BYTES   (64u << 10)
#define SINGLE_BYTES  9216u
#define MESSAGES_MAX  (RECEIVE_BYTES / SINGLE_BYTES)
#define RECEIVE_TRIES 8

struct control {
	_Alignas(struct cmsghdr) char bytes[CMSG_SPACE(sizeof(int))];
};

struct sml_udp_inbox {
	int fd;
	bool drained;
	unsigned n_buffers;
	unsigned first, n_filled; /* those in [first, n_filled) have not been handed out */
	uint32_t offset;	  /* nor has what lies beyond it in the first of them */
	struct mmsghdr in[MESSAGES_MAX];
	struct iovec bytes[MESSAGES_MAX];
	struct control control[MESSAGES_MAX];
	uint8_t *buffers;
};

struct sml_udp_inbox *sml_udp_inbox_new(int fd, bool glues)
{
	struct sml_udp_inbox *inbox = calloc(1, sizeof(*inbox));
	uint32_t bytes = glues ? GLUED_BYTES : SINGLE_BYTES;

	if (inbox == NULL)
		return NULL;
	inbox->fd = fd;
	inbox->n_buffers = RECEIVE_BYTES / bytes;
	inbox->buffers = aligned_alloc(64, RECEIVE_BYTES);
	if (inbox->buffers == NULL) {
		free(inbox);
		return NULL;
	}
	for (unsigned i = 0; i < inbox->n_buffers; i++) {
		inbox->bytes[i] = (struct iovec){inbox->buffers + (size_t)i * bytes, bytes};
		inbox->in[i].msg_hdr =
			(struct msghdr){.msg_iov = &inbox->bytes[i], .msg_iovlen = 1};
	}
	return inbox;
}

void sml_udp_inbox_free(struct sml_udp_inbox *inbox)
{
	if (inbox == NULL)
		return;
	free(inbox->buffers);
	free(inbox);
}

/* The length of the packets that were glued together, or the whole. */
static uint32_t segment_bytes(struct msghdr *message, uint32_t whole)
{
	struct cmsghdr *header = CMSG_FIRSTHDR(message);
	int bytes;

	if (header && header->cmsg_level == IPPROTO_UDP && header->cmsg_type == UDP_GRO) {
		memcpy(&bytes, CMSG_DATA(header), sizeof(bytes));
		if (bytes > 0)
			return (uint32_t)bytes;
	}
	return whole;
}

/* What ICMP has left on the socket is told once, instead of what came: ask again. */
static int receive_messages(struct sml_udp_inbox *inbox)
{
	int n = -1;

	for (unsigned tries = 0; n < 0 && tries < RECEIVE_TRIES; tries++) {
		n = recvmmsg(inbox->fd, inbox->in, inbox->n_buffers, MSG_DONTWAIT, NULL);
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			break;
	}
	return n;
}

static void fill(struct sml_udp_inbox *inbox)
{
	int n;

	for (unsigned i = 0; i < inbox->n_buffers; i++) {
		inbox->in[i].msg_hdr.msg_control = inbox->control[i].bytes;
		inbox->in[i].msg_hdr.msg_controllen = sizeof(inbox->control[i].bytes);
	}
	n = receive_messages(inbox);
	inbox->drained = n < (int)inbox->n_buffers;
	inbox->first = inbox->offset = 0;
	inbox->n_filled = n > 0 ? (unsigned)n : 0;
}

/* Packets of the first message that is left, and on to the next one when it has no more. */
static unsigned hand_out(struct sml_udp_inbox *inbox, struct sml_packet *packets, unsigned room)
{
	struct msghdr *message = &inbox->in[inbox->first].msg_hdr;
	const uint8_t *bytes = message->msg_iov->iov_base;
	uint32_t whole = inbox->in[inbox->first].msg_len;
	uint32_t segment = segment_bytes(message, whole);
	unsigned n = 0;

	/* Of another length than ours it is not even looked at: nor would the next be aligned. */
	if ((message->msg_flags & MSG_TRUNC) || !sml_packet_length_is_valid(segment))
		inbox->offset = whole;
	for (; inbox->offset < whole && n < room; inbox->offset += segment) {
		uint32_t left = whole - inbox->offset;
		uint32_t length = left < segment ? left : segment;

		if (sml_packet_length_is_valid(length))
			packets[n++] = (struct sml_packet){bytes + inbox->offset, length};
	}
	if (inbox->offset >= whole) {
		inbox->first++;
		inbox->offset = 0;
	}
	return n;
}

unsigned sml_udp_inbox_receive(struct sml_udp_inbox *inbox, struct sml_packet *packets,
			       bool *drained)
{
	unsigned n = 0;

	if (inbox->first == inbox->n_filled)
		fill(inbox);
	while (inbox->first < inbox->n_filled && n < SML_RECEIVE_PACKETS)
		n += hand_out(inbox, packets + n, SML_RECEIVE_PACKETS - n);
	*drained = inbox->drained && inbox->first == inbox->n_filled;
	return n;
}
