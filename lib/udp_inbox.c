/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving: see udp_inbox.h. The invariant: what recvmmsg() has filled in is handed out
 * before it is called again, however many packets a message was glued of.
 */
#include "lib/udp_inbox.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

/* One buffer holds the longest datagram, or what the kernel has glued together. */
#define MESSAGE_BYTES (64u << 10)
/* A bit further, lest all buffers begin in the same lines of the cache. */
#define STRIDE_BYTES (MESSAGE_BYTES + 4096 + 192)
/* Messages a call: enough where they are glued, and where they come one by one. */
#define GLUED_MESSAGES	8u
#define SINGLE_MESSAGES 56u

struct control {
	_Alignas(struct cmsghdr) char bytes[CMSG_SPACE(sizeof(int))];
};

struct sml_udp_inbox {
	int fd;
	bool drained;
	unsigned n_wanted;	  /* messages at the next call */
	unsigned first, n_filled; /* those in [first, n_filled) have not been handed out */
	uint32_t offset;	  /* nor has what lies beyond it in the first of them */
	struct mmsghdr in[SINGLE_MESSAGES];
	struct iovec bytes[SINGLE_MESSAGES];
	struct control control[SINGLE_MESSAGES];
	uint8_t *buffers;
};

struct sml_udp_inbox *sml_udp_inbox_new(int fd, bool glues)
{
	struct sml_udp_inbox *inbox = calloc(1, sizeof(*inbox));

	if (inbox == NULL)
		return NULL;
	inbox->fd = fd;
	inbox->n_wanted = glues ? GLUED_MESSAGES : SINGLE_MESSAGES;
	/* Pages come when they are written to. */
	inbox->buffers = mmap(NULL, (size_t)SINGLE_MESSAGES * STRIDE_BYTES, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (inbox->buffers == MAP_FAILED) {
		free(inbox);
		return NULL;
	}
	for (unsigned i = 0; i < SINGLE_MESSAGES; i++) {
		inbox->bytes[i] =
			(struct iovec){inbox->buffers + (size_t)i * STRIDE_BYTES, MESSAGE_BYTES};
		inbox->in[i].msg_hdr =
			(struct msghdr){.msg_iov = &inbox->bytes[i], .msg_iovlen = 1};
	}
	return inbox;
}

void sml_udp_inbox_free(struct sml_udp_inbox *inbox)
{
	if (inbox == NULL)
		return;
	munmap(inbox->buffers, (size_t)SINGLE_MESSAGES * STRIDE_BYTES);
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

static bool is_glued(const struct sml_udp_inbox *inbox, unsigned i)
{
	struct msghdr message = inbox->in[i].msg_hdr;

	return segment_bytes(&message, inbox->in[i].msg_len) < inbox->in[i].msg_len;
}

/* One by one, and more of them than a call could take: take more. */
static void choose_messages(struct sml_udp_inbox *inbox)
{
	for (unsigned i = 0; i < inbox->n_filled; i++)
		if (is_glued(inbox, i)) {
			inbox->n_wanted = GLUED_MESSAGES;
			return;
		}
	if (inbox->n_filled == inbox->n_wanted)
		inbox->n_wanted = SINGLE_MESSAGES;
}

static void fill(struct sml_udp_inbox *inbox)
{
	int n;

	for (unsigned i = 0; i < inbox->n_wanted; i++) {
		inbox->in[i].msg_hdr.msg_control = inbox->control[i].bytes;
		inbox->in[i].msg_hdr.msg_controllen = sizeof(inbox->control[i].bytes);
	}
	n = recvmmsg(inbox->fd, inbox->in, inbox->n_wanted, MSG_DONTWAIT, NULL);
	inbox->drained = n < (int)inbox->n_wanted;
	inbox->first = inbox->offset = 0;
	inbox->n_filled = n > 0 ? (unsigned)n : 0;
	if (inbox->n_filled > 0)
		choose_messages(inbox);
}

/* Packets of the first message that is left, and on to the next one when it has no more. */
static unsigned hand_out(struct sml_udp_inbox *inbox, struct sml_packet *packets, unsigned room)
{
	struct msghdr *message = &inbox->in[inbox->first].msg_hdr;
	const uint8_t *bytes = message->msg_iov->iov_base;
	uint32_t whole = inbox->in[inbox->first].msg_len;
	uint32_t segment = segment_bytes(message, whole);
	unsigned n = 0;

	/* Ours are at least a header long and a multiple of 4: the rest is not even looked at. */
	if ((message->msg_flags & MSG_TRUNC) || segment < SML_HEADER_BYTES || (segment & 3))
		inbox->offset = whole;
	for (; inbox->offset < whole && n < room; inbox->offset += segment)
		packets[n++] = (struct sml_packet){
			bytes + inbox->offset,
			whole - inbox->offset < segment ? whole - inbox->offset : segment};
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
