/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/control/channel.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fork.h"
#include "control/socket.h"
#include "control/text.h"

/* While a peer has this much to read, its requests wait: the answers would fill memory. */
#define MAX_UNREAD_BYTES (64u << 10)
/* In one turn of the event loop, until the limit that is reached first: others wait for the next.
 */
#define TURN_MESSAGES 16
#define TURN_NS	      (2 * SML_NS_PER_MS)

struct sml_channel {
	struct sml_channel_owner owner;
	int fd;
	bool over;
	int broken; /* nothing can be sent any more; 0 if it can. What has come is still read. */
	bool waits; /* received data must be taken first: no more is read until then */
	uint64_t heard_ns;
	struct sml_stream stream;
	struct sml_watch *watch;
};

/* Ready to read, unless received data must be taken first, and to write what waits for that. */
static int watch_socket(struct sml_channel *channel)
{
	unsigned what = channel->waits ? 0 : SML_WATCH_READ;

	if (evbuffer_get_length(channel->stream.wire_out) > 0 && !channel->broken)
		what |= SML_WATCH_WRITE;
	return sml_watch_set(channel->watch, what);
}

/* In the next turn. */
static void take_later(struct sml_channel *channel)
{
	sml_watch_at(channel->watch, 0);
}

static void end(struct sml_channel *channel, int error)
{
	if (channel->over)
		return;
	channel->over = true;
	(void)sml_watch_set(channel->watch, 0);
	sml_watch_at(channel->watch, UINT64_MAX);
	channel->owner.ended(channel->owner.self, error);
}

/* 0: all is sent, or as much as possible now; otherwise -errno. */
static int flush(struct sml_channel *channel)
{
	return sml_socket_send(channel->fd, channel->stream.wire_out, SIZE_MAX);
}

/*
 * A peer that has closed the connection cannot be written to, but may have said why before:
 * serve_channel() reads that, and finds the end.
 */
static void write_some(struct sml_channel *channel)
{
	struct evbuffer *out = channel->stream.wire_out;
	int error = 0;

	if (!channel->broken)
		channel->broken = flush(channel);
	if (!channel->broken) {
		error = watch_socket(channel);
	} else {
		evbuffer_drain(out, evbuffer_get_length(out));
		take_later(channel);
	}
	if (error)
		end(channel, error);
}

static bool peer_listens(const struct sml_channel *channel)
{
	/* What waits for a handshake does not count: the peer must be heard to end that. */
	return evbuffer_get_length(channel->stream.wire_out) <= MAX_UNREAD_BYTES;
}

static void on_writable(struct sml_channel *channel)
{
	write_some(channel);
	if (channel->waits && !channel->over && peer_listens(channel))
		take_later(channel);
}

/* A message that is not allowed now is neither awaited nor unpacked. */
static bool is_objected_to(struct sml_channel *channel)
{
	uint8_t bytes[SML_RULES_HEAD_BYTES];
	const struct sml_head head = {
		.bytes = bytes,
		.whole = sml_stream_next_bytes(&channel->stream),
		.n = sml_stream_peek(&channel->stream, bytes, sizeof(bytes)),
	};

	return head.whole > 0 && channel->owner.objects &&
	       channel->owner.objects(channel->owner.self, &head);
}

/* One message: as sml_stream_read(). */
static int take_message(struct sml_channel *channel)
{
	SmlControl__Envelope *message;
	int result;

	if (is_objected_to(channel))
		return -EPROTO;
	result = sml_stream_read(&channel->stream, &message);
	if (result <= 0)
		return result;
	sml_text_clean_message(&message->base);
	channel->owner.received(channel->owner.self, message);
	sml_control__envelope__free_unpacked(message, NULL);
	return result;
}

static void read_on(struct sml_channel *channel)
{
	int error;

	channel->waits = false;
	error = watch_socket(channel);
	if (error)
		end(channel, error);
}

static void wait_with_rest(struct sml_channel *channel)
{
	channel->waits = true;
	(void)watch_socket(channel);
	/* Else when it has read what waits for it. */
	if (peer_listens(channel))
		take_later(channel);
}

static void take_messages(struct sml_channel *channel)
{
	uint64_t until_ns = sml_now_ns() + TURN_NS;
	int result = 1;

	for (unsigned n = 0; n < TURN_MESSAGES && result > 0 && peer_listens(channel); n++) {
		/* What a rank's slots wait for takes a look at all of them. */
		if (n > 0 && sml_now_ns() >= until_ns)
			break;
		result = take_message(channel);
		if (channel->over)
			return;
	}
	if (result < 0)
		end(channel, result);
	else if (result == 0)
		read_on(channel);
	else
		wait_with_rest(channel);
}

static void on_readable(struct sml_channel *channel)
{
	int n, result;

	errno = ENOMEM; /* evbuffer_read() does not say so itself */
	n = evbuffer_read(channel->stream.wire_in, channel->fd, -1);
	if (n < 0 && (errno == EAGAIN || errno == EINTR) && !channel->broken)
		return;
	if (n <= 0) {
		end(channel, channel->broken ? channel->broken : n < 0 ? -errno : 0);
		return;
	}
	channel->heard_ns = sml_now_ns();
	result = sml_stream_step(&channel->stream);
	/* Send TLS's data, even when TLS has failed. */
	if (result < 0) {
		(void)flush(channel);
		end(channel, result);
		return;
	}
	take_messages(channel);
	if (channel->stream.tls && !channel->over)
		write_some(channel);
}

static void serve_channel(void *self, unsigned what)
{
	struct sml_channel *channel = self;

	if (what & SML_WATCH_WRITE)
		on_writable(channel);
	if (what & SML_WATCH_TIME && !channel->over)
		take_messages(channel);
	if ((what & SML_WATCH_READ || channel->broken) && !channel->over && !channel->waits)
		on_readable(channel);
	/* Until the end is found. */
	if (channel->broken && !channel->over)
		take_later(channel);
}

/*
 * A TLS client sends first. If the peer has closed the connection already, that is not a failure to
 * open a channel: what watches the socket finds it, and says so as at any other time.
 */
static bool begin_stream(struct sml_channel *channel, struct sml_tls *tls, const char *host)
{
	if (sml_stream_open(&channel->stream, tls, host, NULL, NULL) != 0 ||
	    sml_stream_step(&channel->stream) != 0)
		return false;
	(void)flush(channel);
	return true;
}

struct sml_channel *sml_channel_open(struct sml_loop *loop, int fd, struct sml_tls *tls,
				     const char *host, const struct sml_channel_owner *owner)
{
	struct sml_channel *channel = calloc(1, sizeof(*channel));

	if (channel == NULL) {
		sml_fd_shut(fd);
		return NULL;
	}
	channel->fd = fd;
	channel->owner = *owner;
	channel->heard_ns = sml_now_ns();
	channel->watch = sml_watch_new(loop, fd, serve_channel, channel);
	if (!begin_stream(channel, tls, host) || !channel->watch || watch_socket(channel) < 0) {
		sml_channel_close(channel);
		return NULL;
	}
	return channel;
}

int sml_channel_send(struct sml_channel *channel, const SmlControl__Envelope *message)
{
	int error;

	if (channel->over)
		return 0;
	error = sml_stream_write(&channel->stream, message);
	if (error == -EPROTO)
		(void)flush(channel);
	if (error == 0)
		write_some(channel);
	return error;
}

const char *sml_channel_tls_reason(const struct sml_channel *channel)
{
	const char *reason = channel->stream.tls ? sml_tls_reason(channel->stream.tls) : "";

	return *reason ? reason : NULL;
}

bool sml_channel_is_known(const struct sml_channel *channel)
{
	return sml_stream_is_known(&channel->stream);
}

size_t sml_channel_unsent_bytes(const struct sml_channel *channel)
{
	return sml_stream_unsent_bytes(&channel->stream);
}

uint64_t sml_channel_heard_ns(const struct sml_channel *channel)
{
	return channel->heard_ns;
}

void sml_channel_drain(struct sml_channel *channel, uint64_t until_ns)
{
	struct pollfd ready = {.fd = channel->fd};
	uint64_t now_ns;
	char ignored[4096];

	while ((now_ns = sml_now_ns()) < until_ns) {
		if (flush(channel) < 0)
			return;
		if (evbuffer_get_length(channel->stream.wire_out) == 0) {
			shutdown(channel->fd, SHUT_WR);
			ready.events = POLLIN;
		} else {
			ready.events = POLLIN | POLLOUT;
		}
		poll(&ready, 1, (int)((until_ns - now_ns) / SML_NS_PER_MS + 1));
		if (ready.revents & POLLIN &&
		    recv(channel->fd, ignored, sizeof(ignored), MSG_DONTWAIT) == 0)
			return;
		if (ready.revents & (POLLERR | POLLHUP | POLLNVAL))
			return;
	}
}

void sml_channel_close(struct sml_channel *channel)
{
	if (channel == NULL)
		return;
	sml_watch_free(channel->watch);
	sml_stream_close(&channel->stream);
	sml_fd_shut(channel->fd);
	free(channel);
}
