/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/channel.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fork.h"

/* What one turn reads, and what it writes. */
#define TURN_BYTES 16384

/* ---- the socket ---- */

/* Chains that one call sends. */
#define PARTS 8

static ssize_t send_parts(int fd, struct evbuffer *out, size_t most)
{
	struct evbuffer_iovec parts[PARTS];
	int n = evbuffer_peek(out, (ev_ssize_t)most, NULL, parts, PARTS), used = 0;
	struct msghdr message = {.msg_iov = parts};
	size_t bytes = 0;

	for (; used < n && used < PARTS && bytes < most; used++) {
		if (parts[used].iov_len > most - bytes)
			parts[used].iov_len = most - bytes;
		bytes += parts[used].iov_len;
	}
	message.msg_iovlen = (size_t)used;
	return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int sml_socket_send(int fd, struct evbuffer *out, size_t most)
{
	while (most > 0 && evbuffer_get_length(out) > 0) {
		ssize_t sent = send_parts(fd, out, most);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return errno == EAGAIN ? 0 : -errno;
		evbuffer_drain(out, (size_t)sent);
		most -= (size_t)sent;
	}
	return 0;
}

/* ---- turns ---- */

/* In the next turn, after all others have had theirs. */
static void go_on_later(struct sml_channel *channel)
{
	sml_watch_at(channel->watch, 0);
}

/* Nothing can be written any more: the next turn reads what has come, and finds the end. */
static void break_off(struct sml_channel *channel, int error)
{
	channel->broken = error;
	go_on_later(channel);
}

/* Read, unless received messages must be taken first, and write what waits for that. */
static void watch_socket(struct sml_channel *channel)
{
	unsigned what = channel->waits ? 0 : SML_WATCH_READ;
	int error;

	if (evbuffer_get_length(channel->stream.wire_out) > 0 && !channel->broken)
		what |= SML_WATCH_WRITE;
	error = sml_watch_set(channel->watch, what);
	if (error && !channel->broken)
		break_off(channel, error);
}

/* Returns false. The owner may have closed the channel. */
static bool end(struct sml_channel *channel, int error, const char *why)
{
	channel->over = true;
	(void)sml_watch_set(channel->watch, 0);
	sml_watch_at(channel->watch, UINT64_MAX);
	channel->owner.ended(channel->owner.self, error, why);
	return false;
}

/* ---- out ---- */

/* 0: all is sent, or as much as possible now; otherwise -errno. */
static int flush(struct sml_channel *channel, size_t most)
{
	return sml_socket_send(channel->fd, channel->stream.wire_out, most);
}

static void end_when_sent(struct sml_channel *channel)
{
	if (channel->closing && sml_stream_unsent_bytes(&channel->stream) == 0)
		shutdown(channel->fd, SHUT_WR);
}

/*
 * A peer that has closed the connection cannot be written to, but may have said why before:
 * read_some() reads that, and finds the end.
 */
static void write_some(struct sml_channel *channel)
{
	struct evbuffer *out = channel->stream.wire_out;

	if (!channel->broken)
		channel->broken = flush(channel, TURN_BYTES);
	if (channel->broken)
		evbuffer_drain(out, evbuffer_get_length(out));
	else
		end_when_sent(channel);
	watch_socket(channel);
}

/* ---- in ---- */

/*
 * What waits for a handshake does not count: the peer must be heard to end that. Where nothing can
 * be written, nothing is waited for.
 */
static bool peer_listens(const struct sml_channel *channel)
{
	return channel->broken ||
	       evbuffer_get_length(channel->stream.wire_out) <= channel->owner.max_unsent;
}

/* A message that is not allowed now is neither awaited nor unpacked. */
static const char *object(struct sml_channel *channel, char *text, size_t text_bytes)
{
	uint8_t bytes[SML_HEAD_BYTES];
	const struct sml_head head = sml_frame_head(channel->stream.in, bytes);

	return head.whole > 0 && channel->owner.objects
		       ? channel->owner.objects(channel->owner.self, &head, text, text_bytes)
		       : NULL;
}

/* As sml_frame_read(). Sets *goes_on. */
static int take_message(struct sml_channel *channel, bool *goes_on)
{
	SmlControl__Envelope *message;
	int result = sml_frame_read(channel->stream.in, &message);

	if (result <= 0)
		return result;
	*goes_on = channel->owner.received(channel->owner.self, message);
	sml_control__envelope__free_unpacked(message, NULL);
	return result;
}

/* What is there, but no more than fits in a turn. */
static bool take_messages(struct sml_channel *channel)
{
	char text[SML_CHANNEL_WHY_BYTES];
	const char *why;
	bool goes_on = true;
	int result = 1;

	for (unsigned n = 0; n < SML_CHANNEL_TURN_MESSAGES && result > 0 && goes_on; n++) {
		if (channel->closing || !peer_listens(channel))
			break;
		why = object(channel, text, sizeof(text));
		if (why != NULL)
			return end(channel, -EPROTO, why);
		result = take_message(channel, &goes_on);
	}
	if (result < 0)
		return end(channel, result, NULL);
	channel->waits = result > 0 && !channel->closing;
	watch_socket(channel);
	/* Else when the peer has read what waits for it. */
	if (channel->broken || (channel->waits && peer_listens(channel)))
		go_on_later(channel);
	return true;
}

static bool read_some(struct sml_channel *channel)
{
	struct sml_stream *stream = &channel->stream;
	int n;

	errno = ENOMEM; /* evbuffer_read() does not say so itself */
	n = evbuffer_read(stream->wire_in, channel->fd, TURN_BYTES);
	if (n < 0 && (errno == EAGAIN || errno == EINTR) && !channel->broken)
		return true;
	if (n <= 0)
		return end(channel, channel->broken ? channel->broken : n < 0 ? -errno : 0, NULL);
	channel->heard_ns = sml_now_ns();
	if (channel->closing) {
		sml_stream_ignore(stream);
		return true;
	}
	if (sml_stream_step(stream) < 0) {
		/* It tells the peer the reason. */
		(void)flush(channel, SIZE_MAX);
		return end(channel, -EPROTO, NULL);
	}
	return take_messages(channel);
}

/*
 * One of them in a turn, because each may close the channel. Received messages come first: their
 * answers are sent together.
 */
bool sml_channel_serve(struct sml_channel *channel, unsigned what)
{
	if (channel->over)
		return false;
	if (what & SML_WATCH_WRITE && !(channel->waits && peer_listens(channel)))
		write_some(channel);
	if (channel->waits)
		return take_messages(channel);
	return what & SML_WATCH_READ || channel->broken ? read_some(channel) : true;
}

/* ---- for the owner ---- */

int sml_channel_open(struct sml_channel *channel, struct sml_loop *loop, int fd,
		     struct sml_tls *tls, const char *peer, const struct sml_channel_owner *owner)
{
	*channel = (struct sml_channel){.owner = *owner, .fd = fd, .heard_ns = sml_now_ns()};
	channel->watch = sml_watch_new(loop, fd, owner->serve, owner->self);
	if (channel->watch == NULL || sml_stream_open(&channel->stream, tls, peer) != 0)
		return -ENOMEM;
	/* A TLS client sends first. */
	if (peer != NULL && sml_stream_step(&channel->stream) != 0)
		return -ENOMEM;
	watch_socket(channel);
	return channel->broken ? -ENOMEM : 0;
}

int sml_channel_send(struct sml_channel *channel, const SmlControl__Envelope *message)
{
	int error;

	if (channel->over || channel->closing || channel->broken)
		return 0;
	error = sml_stream_write(&channel->stream, message);
	if (error == -EPROTO) {
		(void)flush(channel, SIZE_MAX);
		break_off(channel, error);
		error = 0;
	}
	watch_socket(channel);
	return error;
}

/*
 * Do not close() at once: if bytes from the peer are unread, that sends a reset, which destroys
 * what the peer has not read yet. So shut down our end first, and wait for the peer's.
 */
void sml_channel_finish(struct sml_channel *channel)
{
	channel->closing = true;
	channel->over = channel->waits = false;
	sml_stream_ignore(&channel->stream);
	sml_stream_finish(&channel->stream);
	end_when_sent(channel);
	watch_socket(channel);
}

void sml_channel_drain(struct sml_channel *channel, uint64_t until_ns)
{
	struct pollfd ready = {.fd = channel->fd};
	uint64_t now_ns;
	char ignored[4096];

	while (channel->stream.wire_out != NULL && flush(channel, SIZE_MAX) == 0 &&
	       (now_ns = sml_now_ns()) < until_ns) {
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
	sml_watch_free(channel->watch);
	sml_stream_close(&channel->stream);
	if (channel->fd >= 0)
		sml_fd_shut(channel->fd);
	channel->watch = NULL;
	channel->fd = -1;
}
