/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control messages over one TCP connection, inside an event loop. Knows framing and when to write,
 * but not what messages mean.
 */
#ifndef SML_LIB_CHANNEL_H
#define SML_LIB_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "control/stream.h"
#include "job/common/rules.h"

struct sml_channel;

struct sml_channel_owner {
	void *self;
	/* Called with the first bytes of each message: true ends the connection. NULL if never. */
	bool (*objects)(void *self, const struct sml_head *head);
	/* A message, which the channel frees afterwards. */
	void (*received)(void *self, const SmlControl__Envelope *message);
	/* The connection is over: 0 for an orderly end, or -errno. Once. */
	void (*ended)(void *self, int error);
};

/*
 * Owns fd, even on failure, when it returns NULL. tls is NULL for plain messages; otherwise the
 * switch must have a certificate that names host.
 */
struct sml_channel *sml_channel_open(struct sml_loop *loop, int fd, struct sml_tls *tls,
				     const char *host, const struct sml_channel_owner *owner);

/*
 * Queues a message, and sends as much as possible. Does nothing after the end. Returns 0 or
 * -ENOMEM.
 */
int sml_channel_send(struct sml_channel *channel, const SmlControl__Envelope *message);

/* After the end: the reason, if it is TLS, as a text in which "it" is the peer; otherwise NULL. */
const char *sml_channel_tls_reason(const struct sml_channel *channel);

/* The peer has proved its identity, or need not. */
bool sml_channel_is_known(const struct sml_channel *channel);

/* What is queued, and has not been sent. */
size_t sml_channel_unsent_bytes(const struct sml_channel *channel);

/* When bytes last came. */
uint64_t sml_channel_heard_ns(const struct sml_channel *channel);

/*
 * Send what is queued, and wait, for a limited time, until the peer ends the connection too. Makes
 * no callbacks.
 */
void sml_channel_drain(struct sml_channel *channel, uint64_t until_ns);

void sml_channel_close(struct sml_channel *channel);

#endif
