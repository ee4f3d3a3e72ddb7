/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control messages over one TCP connection, inside an event loop. Knows framing
 * and when to write, nothing of what is said.
 */
#ifndef SML_LIB_CHANNEL_H
#define SML_LIB_CHANNEL_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "control/stream.h"
#include "job/rules.h"

struct sml_channel;

struct sml_channel_owner {
	void *self;
	/* Asked of the first bytes of each: true ends the connection. NULL: never. */
	bool (*objects)(void *self, const struct sml_head *head);
	/* A message, to be freed by the channel afterwards. */
	void (*received)(void *self, const SmlControl__Envelope *message);
	/* The connection is over: 0 for an orderly end, or -errno. Once. */
	void (*ended)(void *self, int error);
};

/*
 * Owns fd, also when it fails: then NULL. With tls (NULL: without), whose switch must have a
 * certificate that names host.
 */
struct sml_channel *sml_channel_open(struct event_base *base, int fd, struct sml_tls *tls,
				     const char *host, const struct sml_channel_owner *owner);

/* Queues a message and sends what goes. Nothing happens after the end. 0 or -ENOMEM. */
int sml_channel_send(struct sml_channel *channel, const SmlControl__Envelope *message);

/* After the end: why, if TLS is why, in words in which "it" is the peer; else NULL. */
const char *sml_channel_tls_reason(const struct sml_channel *channel);

/* The peer has proved who it is, or need not. */
bool sml_channel_is_known(const struct sml_channel *channel);

/* When bytes last came. */
uint64_t sml_channel_heard_ns(const struct sml_channel *channel);

/*
 * Send what is queued, and wait until the peer ends the connection too; so long
 * at most. Calls nothing back.
 */
void sml_channel_drain(struct sml_channel *channel, uint64_t until_ns);

void sml_channel_close(struct sml_channel *channel);

#endif
