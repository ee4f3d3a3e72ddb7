/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer's connection: see peer.h. */
#include "fuzz/peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void peer_connect(struct peer *peer, int fd)
{
	peer_hang_up(peer);
	peer->fd = fd;
	peer->in = evbuffer_new();
	if (peer->in == NULL)
		abort();
}

void peer_hang_up(struct peer *peer)
{
	if (peer->fd >= 0)
		close(peer->fd);
	if (peer->in)
		evbuffer_free(peer->in);
	peer->fd = -1;
	peer->in = NULL;
	peer->deaf = peer->held = false;
	peer->out_first = peer->out_end = peer->last = 0;
	peer->job = 0;
	peer->heard = SML_CONTROL__ENVELOPE__BODY__NOT_SET;
}

void peer_say(struct peer *peer, const uint8_t *bytes, size_t n)
{
	if (n > sizeof(peer->out) - peer->out_end)
		return;
	memmove(peer->out + peer->out_end, bytes, n);
	peer->last = peer->out_end;
	peer->out_end += n;
}

void peer_push(struct peer *peer, size_t most)
{
	size_t n = peer->out_end - peer->out_first;
	ssize_t sent;

	peer->held = n > most;
	if (peer->fd < 0 || n == 0)
		return;
	sent = send(peer->fd, peer->out + peer->out_first, n < most ? n : most,
		    MSG_NOSIGNAL | MSG_DONTWAIT);
	/* The switch may stop reading. */
	if (sent < 0 && errno != EPIPE && errno != EAGAIN && errno != ECONNRESET)
		abort();
	if (sent < 0 && errno != EAGAIN)
		peer->out_first = peer->out_end = 0;
	if (sent > 0)
		peer->out_first += (size_t)sent;
	/* Keep what was sent for say_again(), as long as nothing waits behind it. */
	if (peer->out_first == peer->out_end && peer->last > 0 &&
	    peer->out_end - peer->last <= peer->last) {
		memcpy(peer->out, peer->out + peer->last, peer->out_end - peer->last);
		peer->out_first = peer->out_end = peer->out_end - peer->last;
		peer->last = 0;
	}
}

void peer_go_on(struct peer *peer)
{
	if (!peer->held)
		peer_push(peer, SIZE_MAX);
}

static void note_admitted(struct peer *peer, const SmlControl__Admitted *admitted)
{
	peer->job = admitted->job_number;
	peer->epoch = admitted->epoch;
	peer->cookie = admitted->cookie;
	peer->tag = admitted->tag;
	peer->lanes = (uint16_t)admitted->lanes;
	peer->shards = (uint8_t)admitted->shards;
	peer->n_slots = admitted->head_slots + admitted->data_slots;
	peer->data_port = (uint16_t)admitted->data_port;
}

static void note_join(struct peer *peer, const SmlControl__Join *join)
{
	peer->shards = (uint8_t)join->shards;
	for (size_t i = 0; i < 2; i++)
		peer->ports[i] = i < join->n_stripe_ports ? (uint16_t)join->stripe_ports[i] : 0;
}

const char *peer_hear(struct peer *peer)
{
	SmlControl__Envelope *message;
	int rc;

	if (peer->fd < 0 || peer->deaf)
		return NULL;
	while (evbuffer_read(peer->in, peer->fd, 65536) > 0)
		;
	while ((rc = sml_frame_read(peer->in, &message)) == 1) {
		peer->heard = message->body_case;
		if (message->body_case == SML_CONTROL__ENVELOPE__BODY_ADMITTED)
			note_admitted(peer, message->admitted);
		if (message->body_case == SML_CONTROL__ENVELOPE__BODY_JOIN)
			note_join(peer, message->join);
		sml_control__envelope__free_unpacked(message, NULL);
	}
	return rc < 0 ? "the switch said what is not a message" : NULL;
}
