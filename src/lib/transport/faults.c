/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bad network on purpose: a transport around another one that drops,
 * duplicates and holds back packets on their way out and in. The same seed makes the
 * same decisions for the same sequence of packets.
 *
 * A packet that is held back is released after a few others have passed it. If
 * no others come, it is lost, as in a network.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/transport/transport.h"

#define MILLION		  1000000u
#define PASSED_BY_AT_MOST 8

/* One direction. */
struct direction {
	struct sml_batch held; /* one packet at most */
	unsigned wait;	       /* this many packets must still pass it */
};

struct faulty {
	struct sml_transport base;
	struct sml_transport *inner;
	struct sml_faults faults;
	uint64_t random;
	struct direction out, in;
	struct sml_batch sending; /* what is left of a batch after the faults */
	uint8_t *received;	  /* copies of packets that come twice or late */
	uint32_t received_used;
	struct sml_packet before[SML_RECEIVE_PACKETS];
};

static struct faulty *faulty_of(struct sml_transport *transport)
{
	return (struct faulty *)transport;
}

/* xorshift64*: Vigna's. */
static bool chance(struct faulty *faulty, uint32_t of_a_million)
{
	faulty->random ^= faulty->random >> 12;
	faulty->random ^= faulty->random << 25;
	faulty->random ^= faulty->random >> 27;
	return (faulty->random * 0x2545f4914f6cdd1dull >> 32) % MILLION < of_a_million;
}

static void hold(struct faulty *faulty, struct direction *direction, const void *bytes,
		 uint32_t length, uint8_t peer)
{
	sml_batch_clear(&direction->held);
	memcpy(sml_batch_next(&direction->held), bytes, length);
	sml_batch_add(&direction->held, length, peer);
	direction->wait = 1 + (unsigned)(faulty->random >> 40) % PASSED_BY_AT_MOST;
}

/* A packet has passed: is it the held one's turn? */
static bool let_go(struct direction *direction)
{
	if (direction->held.n == 0 || --direction->wait > 0)
		return false;
	direction->held.n = 0;
	return true;
}

/* ---- out ---- */

static void append(struct sml_batch *batch, const void *bytes, uint32_t length, uint8_t peer)
{
	if (!sml_batch_has_room(batch, length))
		return; /* a drop more */
	memcpy(sml_batch_next(batch), bytes, length);
	sml_batch_add(batch, length, peer);
}

static void send_one(struct faulty *faulty, const uint8_t *bytes, uint32_t length, uint8_t peer)
{
	if (chance(faulty, faulty->faults.drop))
		return;
	if (faulty->out.held.n == 0 && chance(faulty, faulty->faults.reorder)) {
		hold(faulty, &faulty->out, bytes, length, peer);
		return;
	}
	append(&faulty->sending, bytes, length, peer);
	if (chance(faulty, faulty->faults.duplicate))
		append(&faulty->sending, bytes, length, peer);
	if (let_go(&faulty->out))
		append(&faulty->sending, faulty->out.held.bytes, faulty->out.held.length[0],
		       faulty->out.held.peer[0]);
}

static bool has_room_for_three(const struct sml_batch *batch)
{
	return batch->n + 3 <= SML_BATCH_PACKETS &&
	       batch->used + 3 * SML_MAX_PACKET_BYTES <= SML_BATCH_BYTES;
}

static unsigned faulty_send(struct sml_transport *transport, struct sml_batch *batch)
{
	struct faulty *faulty = faulty_of(transport);
	struct sml_batch *sending = &faulty->sending;
	unsigned taken = 0;

	for (;;) {
		if (sending->first < sending->n &&
		    faulty->inner->ops->send(faulty->inner, sending) == 0)
			return taken;
		if (sending->first < sending->n)
			continue;
		sml_batch_clear(sending);
		if (batch->first == batch->n)
			return taken;
		send_one(faulty, batch->bytes + batch->offset[batch->first],
			 batch->length[batch->first], batch->peer[batch->first]);
		batch->first++;
		taken++;
		/* The rest goes along, as long as each has room to come three times. */
		while (batch->first < batch->n && has_room_for_three(sending)) {
			send_one(faulty, batch->bytes + batch->offset[batch->first],
				 batch->length[batch->first], batch->peer[batch->first]);
			batch->first++;
			taken++;
		}
	}
}

/* Room for a packet that comes three times; what the inner one does not take now is lost. */
static bool make_room(struct faulty *faulty)
{
	struct sml_batch *sending = &faulty->sending;

	if (has_room_for_three(sending))
		return true;
	while (sending->first < sending->n)
		if (faulty->inner->ops->send(faulty->inner, sending) == 0)
			return false;
	sml_batch_clear(sending);
	return true;
}

/* Packet by packet and peer by peer, as the faults want it: through the inner one's send. */
static void faulty_send_results(struct sml_transport *transport, const struct iovec *packets,
				unsigned n, uint64_t peers)
{
	struct faulty *faulty = faulty_of(transport);

	for (unsigned i = 0; i < n; i++)
		for (uint8_t peer = 0; peer < SML_MAX_CHILDREN; peer++)
			if ((peers >> peer & 1) && make_room(faulty))
				send_one(faulty, packets[i].iov_base, (uint32_t)packets[i].iov_len,
					 peer);
	/* What is left goes with what is sent next. */
	while (faulty->sending.first < faulty->sending.n &&
	       faulty->inner->ops->send(faulty->inner, &faulty->sending) > 0)
		;
}

/* ---- in ---- */

static unsigned give(struct sml_packet *packets, unsigned n, const void *bytes, uint32_t length)
{
	if (n < SML_RECEIVE_PACKETS)
		packets[n++] = (struct sml_packet){bytes, length, 0};
	return n;
}

static unsigned receive_one(struct faulty *faulty, const struct sml_packet *packet,
			    struct sml_packet *packets, unsigned n)
{
	if (chance(faulty, faulty->faults.drop))
		return n;
	if (faulty->in.held.n == 0 && chance(faulty, faulty->faults.reorder)) {
		hold(faulty, &faulty->in, packet->bytes, packet->length, 0);
		return n;
	}
	n = give(packets, n, packet->bytes, packet->length);
	if (chance(faulty, faulty->faults.duplicate))
		n = give(packets, n, packet->bytes, packet->length);
	if (let_go(&faulty->in) &&
	    faulty->received_used + SML_MAX_PACKET_BYTES <= SML_BATCH_BYTES) {
		uint8_t *place = faulty->received + faulty->received_used;

		/* Copied, for another one may be held before this one is looked at. */
		memcpy(place, faulty->in.held.bytes, faulty->in.held.length[0]);
		faulty->received_used += faulty->in.held.length[0];
		n = give(packets, n, place, faulty->in.held.length[0]);
	}
	return n;
}

static unsigned faulty_receive(struct sml_transport *transport, struct sml_packet *packets)
{
	struct faulty *faulty = faulty_of(transport);
	unsigned came = faulty->inner->ops->receive(faulty->inner, faulty->before);
	unsigned n = 0;

	faulty->base.drained = faulty->inner->drained;
	faulty->received_used = 0;
	for (unsigned i = 0; i < came; i++)
		n = receive_one(faulty, &faulty->before[i], packets, n);
	return n;
}

/* ---- set-up ---- */

static void free_faulty(struct faulty *faulty)
{
	free(faulty->out.held.bytes);
	free(faulty->in.held.bytes);
	free(faulty->sending.bytes);
	free(faulty->received);
	free(faulty);
}

static void faulty_close(struct sml_transport *transport)
{
	struct faulty *faulty = faulty_of(transport);

	faulty->inner->ops->close(faulty->inner);
	free_faulty(faulty);
}

static void faulty_readdress(struct sml_transport *transport, uint8_t own)
{
	struct faulty *faulty = faulty_of(transport);

	faulty->inner->ops->readdress(faulty->inner, own);
}

static const struct sml_transport_ops faulty_ops = {
	.name = "faults",
	.send = faulty_send,
	.send_results = faulty_send_results,
	.receive = faulty_receive,
	.readdress = faulty_readdress,
	.close = faulty_close,
};

struct sml_transport *sml_faults_wrap(struct sml_transport *inner, const struct sml_faults *faults,
				      uint64_t salt)
{
	struct faulty *faulty = calloc(1, sizeof(*faulty));

	if (faulty == NULL)
		return NULL;
	faulty->base = *inner;
	faulty->base.ops = &faulty_ops;
	faulty->inner = inner;
	faulty->faults = *faults;
	/* Ranks and shards with one seed must not drop in step. Never 0. */
	faulty->random = (faults->seed + 1) * 0x9e3779b97f4a7c15ull ^ (salt + 1) << 17;
	faulty->random |= 1;
	faulty->out.held.bytes = malloc(SML_BATCH_BYTES);
	faulty->in.held.bytes = malloc(SML_BATCH_BYTES);
	faulty->sending.bytes = malloc(SML_BATCH_BYTES);
	faulty->received = malloc(SML_BATCH_BYTES);
	if (!faulty->out.held.bytes || !faulty->in.held.bytes || !faulty->sending.bytes ||
	    !faulty->received) {
		free_faulty(faulty);
		return NULL;
	}
	return &faulty->base;
}
