/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/shared/talk.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/channel.h"

/* Who does not read for so long does not answer either. */
#define SEND_MS 5000

int sml_talk_open(struct sml_talk *talk, int fd, struct sml_tls *tls, const char *peer,
		  const char *who, const struct sml_rules *rules)
{
	*talk = (struct sml_talk){.fd = fd, .rules = rules, .who = who};
	(void)fcntl(fd, F_SETFL, O_NONBLOCK);
	if (sml_stream_open(&talk->stream, tls, peer) == 0)
		return 0;
	snprintf(talk->text, sizeof(talk->text), "no memory");
	return -ENOMEM;
}

void sml_talk_close(struct sml_talk *talk)
{
	sml_stream_close(&talk->stream);
	if (talk->fd >= 0)
		close(talk->fd);
	talk->fd = -1;
}

static int flush(struct sml_talk *talk)
{
	uint64_t until_ns = sml_now_ns() + SEND_MS * SML_NS_PER_MS;
	struct pollfd room = {.fd = talk->fd, .events = POLLOUT};
	int error;

	while ((error = sml_socket_send(talk->fd, talk->stream.wire_out, SIZE_MAX)) == 0 &&
	       evbuffer_get_length(talk->stream.wire_out) > 0) {
		if (sml_now_ns() >= until_ns)
			return -ETIMEDOUT;
		poll(&room, 1, sml_left_ms(until_ns));
	}
	return error;
}

/* The TLS error is the better reason. */
static int step(struct sml_talk *talk)
{
	int error = sml_stream_step(&talk->stream), unsent = flush(talk);

	if (error)
		snprintf(talk->text, sizeof(talk->text), "TLS failed: %s",
			 sml_tls_reason(talk->stream.tls));
	return error ? error : unsent;
}

int sml_talk_send(struct sml_talk *talk, const SmlControl__Envelope *message)
{
	int error = sml_stream_write(&talk->stream, message);

	return error ? error : step(talk);
}

/* As sml_frame_read(), of what the rules allow. */
static int read_message(struct sml_talk *talk, SmlControl__Envelope **message)
{
	uint8_t bytes[SML_HEAD_BYTES];
	const struct sml_head head = sml_frame_head(talk->stream.in, bytes);
	char why[256];

	if (head.whole > 0 &&
	    sml_rules_reject(talk->rules, talk->state, &head, why, sizeof(why)) != NULL) {
		snprintf(talk->text, sizeof(talk->text), "%s: is it %s?", why, talk->who);
		return -EPROTO;
	}
	return sml_frame_read(talk->stream.in, message);
}

int sml_talk_take(struct sml_talk *talk, SmlControl__Envelope **message)
{
	int got = read_message(talk, message), n;

	if (got != 0)
		return got;
	errno = ENOMEM; /* evbuffer_read() does not say so itself */
	n = evbuffer_read(talk->stream.wire_in, talk->fd, -1);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	got = n > 0 ? step(talk) : -ECONNRESET;
	return got ? got : read_message(talk, message);
}

/* Signals do not end it: the process may have been stopped. */
int sml_talk_receive(struct sml_talk *talk, uint64_t until_ns, SmlControl__Envelope **message)
{
	struct pollfd news = {.fd = talk->fd, .events = POLLIN};
	int got;

	while ((got = sml_talk_take(talk, message)) == 0) {
		if (sml_now_ns() >= until_ns)
			return -ETIMEDOUT;
		poll(&news, 1, sml_left_ms(until_ns));
	}
	return got < 0 ? got : 0;
}
