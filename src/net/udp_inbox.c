/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving: see udp_inbox.h. The invariant: all packets that recvmmsg() has received are handed
 * out before it is called again, however many packets each message contains.
 */
#include "net/udp_inbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/wire.h"
#include "net/udp_socket.h"

/*
 * Few large buffers if the kernel coalesces packets. That also holds if it then finds nothing to
 * coalesce: 56 messages per call instead of 8 need a quarter of the calls, but cost an eighth more
 * CPU time (measured: 1 Gbit/s, 1448-byte packets, offloads off).
 */
#define GRO_BYTES     (64u << 10)
#define SINGLE_BYTES  9216u
#define RECEIVE_TRIES 8

/* One message: the buffer, and the kernel's control data. */
struct place {
	struct iovec bytes;
	struct sockaddr_in6 source; /* or a sockaddr_in: see udp_socket.h */
	_Alignas(struct cmsghdr) char control[SML_UDP_CONTROL_BYTES];
};

struct sml_udp_inbox {
	int fd;
	bool drained, sources;
	unsigned n_buffers;
	unsigned first, n_filled; /* those in [first, n_filled) have not been handed out */
	uint32_t offset;	  /* nor has the rest of the first of them */
	struct mmsghdr *in;
	struct place *places;
	uint8_t *buffers;
	struct sml_udp_inbox_counters counters;
};

struct sml_udp_inbox *sml_udp_inbox_new(const struct sml_udp_inbox_config *config)
{
	struct sml_udp_inbox *inbox = calloc(1, sizeof(*inbox));
	uint32_t bytes = config->gro ? GRO_BYTES : SINGLE_BYTES;

	if (inbox == NULL)
		return NULL;
	inbox->fd = config->fd;
	inbox->sources = config->sources;
	inbox->n_buffers = config->bytes / bytes;
	inbox->in = calloc(inbox->n_buffers, sizeof(*inbox->in));
	inbox->places = calloc(inbox->n_buffers, sizeof(*inbox->places));
	inbox->buffers = aligned_alloc(64, config->bytes);
	if (!inbox->in || !inbox->places || !inbox->buffers) {
		sml_udp_inbox_free(inbox);
		return NULL;
	}
	for (unsigned i = 0; i < inbox->n_buffers; i++) {
		struct place *place = &inbox->places[i];

		place->bytes = (struct iovec){inbox->buffers + (size_t)i * bytes, bytes};
		inbox->in[i].msg_hdr = (struct msghdr){
			.msg_name = config->sources ? &place->source : NULL,
			.msg_iov = &place->bytes,
			.msg_iovlen = 1,
			.msg_control = place->control,
		};
	}
	return inbox;
}

void sml_udp_inbox_free(struct sml_udp_inbox *inbox)
{
	if (inbox == NULL)
		return;
	free(inbox->in);
	free(inbox->places);
	free(inbox->buffers);
	free(inbox);
}

/* A pending ICMP error is reported once, instead of a packet: ask again. */
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

static void fill_headers(struct sml_udp_inbox *inbox)
{
	int n;

	for (unsigned i = 0; i < inbox->n_buffers; i++) {
		struct msghdr *message = &inbox->in[i].msg_hdr;

		message->msg_controllen = sizeof(inbox->places[i].control);
		if (inbox->sources)
			message->msg_namelen = sizeof(inbox->places[i].source);
	}
	n = receive_messages(inbox);
	inbox->drained = n < (int)inbox->n_buffers;
	inbox->first = inbox->offset = 0;
	inbox->n_filled = n > 0 ? (unsigned)n : 0;
}

/* A message that cannot contain one of our packets. */
static void pass_over(struct sml_udp_inbox *inbox, uint32_t whole, uint32_t segment)
{
	uint32_t n = whole > segment ? (whole + segment - 1) / segment : 1;

	inbox->counters.packets += n;
	inbox->counters.malformed += n;
	inbox->offset = whole;
}

/*
 * Hand out packets of the first remaining message, and continue with the next message when it has
 * no more.
 */
static unsigned hand_out(struct sml_udp_inbox *inbox, struct sml_packet *packets, unsigned room)
{
	struct msghdr *message = &inbox->in[inbox->first].msg_hdr;
	const uint8_t *bytes = message->msg_iov->iov_base;
	uint32_t whole = inbox->in[inbox->first].msg_len;
	uint32_t segment = sml_udp_segment_bytes(message, whole, &inbox->counters.drops);
	unsigned n = 0;

	if (inbox->offset == 0)
		inbox->counters.bytes += whole;
	/*
	 * A packet whose length is not one of ours is dropped unread; the packet after it would not
	 * be aligned either.
	 */
	if ((message->msg_flags & MSG_TRUNC) || !sml_packet_length_is_valid(segment))
		pass_over(inbox, whole, segment);
	for (; inbox->offset < whole && n < room; inbox->offset += segment) {
		uint32_t left = whole - inbox->offset;
		uint32_t length = left < segment ? left : segment;

		inbox->counters.packets++;
		if (sml_packet_length_is_valid(length))
			packets[n++] =
				(struct sml_packet){bytes + inbox->offset, length, inbox->first};
		else
			inbox->counters.malformed++;
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
		fill_headers(inbox);
	while (inbox->first < inbox->n_filled && n < SML_RECEIVE_PACKETS)
		n += hand_out(inbox, packets + n, SML_RECEIVE_PACKETS - n);
	*drained = inbox->drained && inbox->first == inbox->n_filled;
	return n;
}

struct msghdr *sml_udp_inbox_message(struct sml_udp_inbox *inbox, const struct sml_packet *packet)
{
	return &inbox->in[packet->message].msg_hdr;
}

const struct sml_udp_inbox_counters *sml_udp_inbox_counters(const struct sml_udp_inbox *inbox)
{
	return &inbox->counters;
}
