/* SPDX-License-Identifier: BSD-3-Clause */
/* See ask.h. Blocking sockets with a time limit are enough for a command line. */
#include "cmd/shared/ask.h"

#include <errno.h>
#include <event2/buffer.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "control/envelope.h"
#include "control/text.h"
#include "core/wire.h"
#include "job/common/rules.h"
#include "net/address.h"

bool sml_ask_next(const char **list, char *address, size_t bytes)
{
	size_t length = strcspn(*list, ",|");

	if (**list == '\0')
		return false;
	snprintf(address, bytes, "%.*s", (int)length, *list);
	*list += length;
	if (**list != '\0')
		++*list;
	return true;
}

/* The first of "a:1,[b]:2" as host and port; false when it is too long or empty. */
static bool split(const char *address, char host[256], char port[16])
{
	struct sml_host_port place;

	if (!sml_host_port_parse(address, strcspn(address, ",|"), &place) || !place.host[0])
		return false;
	memcpy(host, place.host, sizeof(place.host));
	snprintf(port, 16, "%d", place.has_port ? place.port : SML_DEFAULT_PORT);
	return true;
}

static void limit_time(int fd, int timeout_ms)
{
	struct timeval limit = {timeout_ms / 1000, timeout_ms % 1000 * 1000};

	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

/* If the process was stopped, connect() was interrupted, and the connection is in progress. */
static int await_connection(int fd, int timeout_ms)
{
	struct pollfd ready = {.fd = fd, .events = POLLOUT};
	int error = 0, n;
	socklen_t length = sizeof(error);

	do
		n = poll(&ready, 1, timeout_ms);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : -ETIMEDOUT;
	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0 ? -errno : -error;
}

static int connect_to_one(const struct addrinfo *info, int timeout_ms)
{
	int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int error;

	if (fd < 0)
		return -errno;
	limit_time(fd, timeout_ms);
	if (connect(fd, info->ai_addr, info->ai_addrlen) == 0)
		return fd;
	/* This is how a connect() reports a timeout. */
	error = errno == EINPROGRESS ? -ETIMEDOUT : -errno;
	if (error == -EINTR)
		error = await_connection(fd, timeout_ms);
	if (error == 0)
		return fd;
	close(fd);
	return error;
}

/* ---- TLS ---- */

static const char *value_of(const char *variable)
{
	const char *value = getenv(variable);

	return value && *value ? value : NULL;
}

struct sml_tls_files sml_ask_tls_files(void)
{
	return (struct sml_tls_files){.certificate = value_of(sml_tls_variables.certificate),
				      .key = value_of(sml_tls_variables.key),
				      .authority = value_of(sml_tls_variables.authority)};
}

struct sml_key_source sml_ask_key_source(void)
{
	return (struct sml_key_source){.secret = value_of(sml_key_variables.secret),
				       .file = value_of(sml_key_variables.file)};
}

static int begin(struct sml_ask *ask, const char *host)
{
	const struct sml_tls_files files = sml_ask_tls_files();
	const struct sml_key_source key = sml_ask_key_source();
	int error = sml_tls_open_with_key(&ask->tls, SML_TLS_WORKER, &files, &sml_tls_variables,
					  &key, &sml_key_variables);

	if (error) {
		snprintf(ask->text, sizeof(ask->text), "%s", sml_error_last());
		return error;
	}
	error = sml_stream_open(&ask->stream, ask->tls, host, NULL, NULL);
	if (error)
		snprintf(ask->text, sizeof(ask->text), "no memory");
	return error;
}

/* ---- set-up ---- */

static int connect_to(struct sml_ask *ask, const char *host, const char *port, int timeout_ms)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *all;
	int failed = getaddrinfo(host, port, &hints, &all);
	int fd = -EHOSTUNREACH;

	if (failed) {
		snprintf(ask->text, sizeof(ask->text), "%s: %s", host, gai_strerror(failed));
		return -EHOSTUNREACH;
	}
	for (const struct addrinfo *info = all; info && fd < 0; info = info->ai_next)
		fd = connect_to_one(info, timeout_ms);
	freeaddrinfo(all);
	if (fd < 0) {
		snprintf(ask->text, sizeof(ask->text), "%s port %s: %s", host, port, strerror(-fd));
		return fd;
	}
	ask->fd = fd;
	return 0;
}

int sml_ask_open(struct sml_ask *ask, const char *address, int timeout_ms)
{
	char host[256], port[16];
	int error;

	*ask = (struct sml_ask){.fd = -1, .timeout_ms = timeout_ms};
	if (!split(address, host, port)) {
		snprintf(ask->text, sizeof(ask->text), "`%s' is not HOST:PORT", address);
		return -EINVAL;
	}
	error = begin(ask, host);
	return error ? error : connect_to(ask, host, port, timeout_ms);
}

void sml_ask_close(struct sml_ask *ask)
{
	sml_stream_close(&ask->stream);
	sml_tls_close(ask->tls);
	if (ask->fd >= 0)
		close(ask->fd);
}

/* ---- questions ---- */

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int refused(struct sml_ask *ask)
{
	snprintf(ask->text, sizeof(ask->text), "TLS failed: %s", sml_tls_reason(ask->stream.tls));
	return -EPROTO;
}

/* Not evbuffer_write(): if the switch hangs up, SIGPIPE would end the program. */
static int flush(struct sml_ask *ask)
{
	struct evbuffer *out = ask->stream.wire_out;
	size_t length;

	while ((length = evbuffer_get_length(out)) > 0) {
		ssize_t sent = send(ask->fd, evbuffer_pullup(out, (ev_ssize_t)length), length,
				    MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return -errno;
		evbuffer_drain(out, (size_t)sent);
	}
	return 0;
}

/* The TLS error is the better reason. */
static int step(struct sml_ask *ask)
{
	int error = sml_stream_step(&ask->stream) < 0 ? refused(ask) : 0;
	int unsent = flush(ask);

	return error ? error : unsent;
}

static int pull(struct sml_ask *ask)
{
	int got = evbuffer_read(ask->stream.wire_in, ask->fd, -1);

	if (got == 0)
		return -ECONNRESET;
	if (got < 0 && errno == EINTR)
		return 0; /* read_answer() checks the time, and reads again */
	if (got < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	return step(ask);
}

static int write_request(struct sml_ask *ask)
{
	SmlControl__StatusRequest request = SML_CONTROL__STATUS_REQUEST__INIT;
	int error = sml_stream_write(&ask->stream,
				     sml_envelope(STATUS_REQUEST, status_request, &request));

	return error ? error : step(ask);
}

/* 1: it is the answer, and the caller owns it. 0: not yet. Negative: the switch refuses. */
static int take(struct sml_ask *ask, SmlControl__Envelope *message, SmlControl__Envelope **answer)
{
	int result = 0;

	sml_text_clean_message(&message->base);
	if (message->body_case == SML_CONTROL__ENVELOPE__BODY_STATUS) {
		*answer = message;
		return 1;
	}
	if (message->body_case == SML_CONTROL__ENVELOPE__BODY_ABORT) {
		snprintf(ask->text, sizeof(ask->text), "%s", message->abort->text);
		result = -ECONNREFUSED;
	}
	sml_control__envelope__free_unpacked(message, NULL);
	return result;
}

/* What a switch may say to somebody who asks. A Status tells of all jobs and all their ranks. */
static const struct sml_rules rules = {
	.states = (const char *const[]){"as an answer"},
	.messages =
		{
			[SML_CONTROL__ENVELOPE__BODY_STATUS] = {1, SML_CONTROL_MAX_BYTES},
			[SML_CONTROL__ENVELOPE__BODY_ABORT] = {1, SML_RULES_HEAD_BYTES},
			[SML_CONTROL__ENVELOPE__BODY_PING] = {1, SML_RULES_HEAD_BYTES},
			[SML_CONTROL__ENVELOPE__BODY_PONG] = {1, SML_RULES_HEAD_BYTES},
		},
};

/* As sml_stream_read(), of what the rules allow: the rest is refused before it has come whole. */
static int read_message(struct sml_ask *ask, SmlControl__Envelope **message)
{
	uint8_t bytes[SML_RULES_HEAD_BYTES];
	struct sml_head head = {.bytes = bytes, .whole = sml_stream_next_bytes(&ask->stream)};
	char why[256];

	head.n = sml_stream_peek(&ask->stream, bytes, sizeof(bytes));
	if (head.whole > 0 && sml_rules_reject(&rules, 0, &head, why, sizeof(why)) != NULL) {
		snprintf(ask->text, sizeof(ask->text), "%s: is it a SwitchML switch?", why);
		return -EPROTO;
	}
	return sml_stream_read(&ask->stream, message);
}

static int read_answer(struct sml_ask *ask, SmlControl__Envelope **answer)
{
	int64_t until_ms = now_ms() + ask->timeout_ms;
	SmlControl__Envelope *message;
	int got;

	do {
		got = read_message(ask, &message);
		if (got == 1)
			got = take(ask, message, answer);
		else if (got == 0)
			got = pull(ask);
		/* It may send other messages forever. */
		if (got == 0 && now_ms() > until_ms)
			got = -ETIMEDOUT;
	} while (got == 0);
	return got < 0 ? got : 0;
}

int sml_ask_status(struct sml_ask *ask, SmlControl__Envelope **answer)
{
	int error;

	*answer = NULL;
	ask->text[0] = '\0';
	error = write_request(ask);
	if (!error)
		error = read_answer(ask, answer);
	if (error && !ask->text[0])
		snprintf(
			ask->text, sizeof(ask->text),
			"it accepts connections but does not answer (%s): is it a SwitchML switch?",
			strerror(-error));
	return error;
}
