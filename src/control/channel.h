/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A control connection in an event loop: its socket and its buffers, when to read and to write, and
 * how much in one turn. Knows framing, but not what messages mean. The switch's connections and the
 * ranks' are such channels.
 *
 *	open -- the peer's end, an error, or what no peer may send: ended() --> over -- closed
 *	   \                                                                    |
 *	    `--- sml_channel_finish() --> closing: sends what was written <-----'
 *
 * The invariant: between two calls of sml_channel_serve(), bytes that have been read and are a
 * message wait only while their channel `waits`.
 */
#ifndef SML_CONTROL_CHANNEL_H
#define SML_CONTROL_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "control/stream.h"

/* Messages that one turn processes; the rest waits for the next. */
#define SML_CHANNEL_TURN_MESSAGES 16
/* A reason why a message may not come. */
#define SML_CHANNEL_WHY_BYTES 512

struct sml_channel_owner {
	void *self;
	/* There is something to do: call sml_channel_serve(). */
	void (*serve)(void *self, unsigned what);
	/*
	 * Called with the first bytes of each message, before it is complete and before it is
	 * unpacked. A reason, also one written to text, ends the connection. NULL if never.
	 */
	const char *(*objects)(void *self, const struct sml_head *head, char *text, size_t bytes);
	/*
	 * A message, which the channel frees afterwards. May finish the channel, and not close it.
	 * Returns false if it took as long as a turn may.
	 */
	bool (*received)(void *self, SmlControl__Envelope *message);
	/*
	 * The connection is over: 0 for an orderly end; -EPROTO if TLS is over, or the peer sent
	 * what is no message or, then with the reason why, what it may not send; else -errno. May
	 * close the channel.
	 */
	void (*ended)(void *self, int error, const char *why);
	/* While more waits to be sent, no messages are taken, because answers would fill memory. */
	size_t max_unsent;
};

struct sml_channel {
	struct sml_channel_owner owner;
	int fd;			 /* -1 if there is no connection */
	struct sml_watch *watch; /* its socket, and its next turn */
	struct sml_stream stream;
	uint64_t heard_ns; /* when bytes last came */
	int broken;	   /* why writing has failed; what has come is still read. 0: it has not */
	bool waits;	   /* received messages must be taken first: no more is read until then */
	bool closing;	   /* written data is sent, and what comes is ignored */
	bool over;
};

/*
 * Owns fd. tls is NULL for plain messages; peer is as for sml_stream_open(). Returns 0 or -ENOMEM;
 * close the channel in either case.
 */
int sml_channel_open(struct sml_channel *channel, struct sml_loop *loop, int fd,
		     struct sml_tls *tls, const char *peer, const struct sml_channel_owner *owner);

/* Reads, writes and takes messages, as far as one turn goes. Returns false after the end. */
bool sml_channel_serve(struct sml_channel *channel, unsigned what);

/*
 * Queues a message. Does nothing after the end. Returns 0, -ENOMEM or -EMSGSIZE. If TLS is over, or
 * nothing can be sent any more, the next turn finds the end.
 */
int sml_channel_send(struct sml_channel *channel, const SmlControl__Envelope *message);

/*
 * Send what is queued, and then our end of the connection; ignore what comes until the peer's,
 * which ended() tells.
 */
void sml_channel_finish(struct sml_channel *channel);

/*
 * Send what is queued, and wait, for a limited time, until the peer ends the connection too.
 * until_ns: 0 sends only what the socket takes now. Makes no callbacks.
 */
void sml_channel_drain(struct sml_channel *channel, uint64_t until_ns);

/* More than once is allowed. */
void sml_channel_close(struct sml_channel *channel);

/*
 * For connections that are no channels: send at most `most` bytes of the buffer, as many as the
 * socket takes now. This raises no SIGPIPE, which could end the application. Returns 0 or -errno.
 */
int sml_socket_send(int fd, struct evbuffer *out, size_t most);

#endif
