/* SPDX-License-Identifier: BSD-3-Clause */
/* See status_client.h. Blocking sockets with a time limit are enough for a command line. */
#include "cmd/shared/status_client.h"

#include <errno.h>
#include <event2/buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "control/envelope.h"
#include "control/text.h"
#include "core/wire.h"
#include "job/common/rules.h"
#include "net/connect.h"

bool sml_switch_list_next(const char **list, char *address, size_t bytes)
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

/* ---- TLS ---- */

static const char *value_of(const char *variable)
{
	const char *value = getenv(variable);

	return value && *value ? value : NULL;
}

struct sml_tls_files sml_environment_tls_files(void)
{
	return (struct sml_tls_files){.certificate = value_of(sml_tls_variables.certificate),
				      .key = value_of(sml_tls_variables.key),
				      .authority = value_of(sml_tls_variables.authority)};
}

struct sml_key_source sml_environment_key_source(void)
{
	return (struct sml_key_source){.file = value_of(sml_key_variables.file)};
}

static int begin_stream(struct sml_status_client *client, const char *host)
{
	const struct sml_tls_files files = sml_environment_tls_files();
	const struct sml_key_source key = sml_environment_key_source();
	int error = sml_tls_open_with_key(&client->tls, SML_TLS_WORKER, &files, &sml_tls_variables,
					  &key, &sml_key_variables);

	if (error) {
		snprintf(client->text, sizeof(client->text), "%s", sml_error_last());
		return error;
	}
	error = sml_stream_open(&client->stream, client->tls, host, NULL, NULL);
	if (error)
		snprintf(client->text, sizeof(client->text), "no memory");
	return error;
}

/* ---- set-up ---- */

static int connect_to(struct sml_status_client *client, const struct sml_host_port *at)
{
	struct sml_connect wish = {.host = at->host,
				   .port = at->has_port ? at->port : SML_DEFAULT_PORT,
				   .timeout_ms = client->timeout_ms};

	client->fd = sml_connect(&wish);
	if (wish.unknown) {
		snprintf(client->text, sizeof(client->text), "%s: %s", wish.host, wish.why);
		client->fix = "correct the host's name (--switch, SWITCHML_SWITCH), or see why it "
			      "does not resolve here: `getent hosts NAME'";
	} else if (client->fd < 0) {
		snprintf(client->text, sizeof(client->text), "%s port %u: %s", wish.host, wish.port,
			 wish.why);
		client->fix = "start `switchml switch' there, correct the address (--switch, "
			      "SWITCHML_SWITCH), or let firewalls pass TCP to that port";
	}
	return client->fd < 0 ? client->fd : 0;
}

int sml_status_client_open(struct sml_status_client *client, const char *address, int timeout_ms)
{
	struct sml_host_port at;
	int error;

	*client = (struct sml_status_client){.fd = -1, .timeout_ms = timeout_ms};
	if (!sml_host_port_parse(address, strcspn(address, ",|"), &at) || !at.host[0]) {
		snprintf(client->text, sizeof(client->text), "`%s' is not HOST:PORT", address);
		return -EINVAL;
	}
	error = begin_stream(client, at.host);
	return error ? error : connect_to(client, &at);
}

void sml_status_client_close(struct sml_status_client *client)
{
	sml_stream_close(&client->stream);
	sml_tls_close(client->tls);
	if (client->fd >= 0)
		close(client->fd);
}

/* ---- questions ---- */

static int refused(struct sml_status_client *client)
{
	snprintf(client->text, sizeof(client->text), "TLS failed: %s",
		 sml_tls_reason(client->stream.tls));
	return -EPROTO;
}

/* Not evbuffer_write(): if the switch hangs up, SIGPIPE would end the program. */
static int flush(struct sml_status_client *client)
{
	struct evbuffer *out = client->stream.wire_out;
	size_t length;

	while ((length = evbuffer_get_length(out)) > 0) {
		ssize_t sent = send(client->fd, evbuffer_pullup(out, (ev_ssize_t)length), length,
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
static int step(struct sml_status_client *client)
{
	int error = sml_stream_step(&client->stream) < 0 ? refused(client) : 0;
	int unsent = flush(client);

	return error ? error : unsent;
}

static int pull(struct sml_status_client *client)
{
	int got = evbuffer_read(client->stream.wire_in, client->fd, -1);

	if (got == 0)
		return -ECONNRESET;
	if (got < 0 && errno == EINTR)
		return 0; /* read_answer() checks the time, and reads again */
	if (got < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	return step(client);
}

static int write_request(struct sml_status_client *client)
{
	SmlControl__StatusRequest request = SML_CONTROL__STATUS_REQUEST__INIT;
	int error = sml_stream_write(&client->stream,
				     sml_envelope(STATUS_REQUEST, status_request, &request));

	return error ? error : step(client);
}

/* 1: it is the answer, and the caller owns it. 0: not yet. Negative: the switch refuses. */
static int take_answer(struct sml_status_client *client, SmlControl__Envelope *message,
		       SmlControl__Envelope **answer)
{
	int result = 0;

	sml_text_clean_message(&message->base);
	if (message->body_case == SML_CONTROL__ENVELOPE__BODY_STATUS) {
		*answer = message;
		return 1;
	}
	if (message->body_case == SML_CONTROL__ENVELOPE__BODY_ABORT) {
		snprintf(client->text, sizeof(client->text), "%s", message->abort->text);
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
static int read_message(struct sml_status_client *client, SmlControl__Envelope **message)
{
	uint8_t bytes[SML_RULES_HEAD_BYTES];
	struct sml_head head = {.bytes = bytes, .whole = sml_stream_next_bytes(&client->stream)};
	char why[256];

	head.n = sml_stream_peek(&client->stream, bytes, sizeof(bytes));
	if (head.whole > 0 && sml_rules_reject(&rules, 0, &head, why, sizeof(why)) != NULL) {
		snprintf(client->text, sizeof(client->text), "%s: is it a SwitchML switch?", why);
		return -EPROTO;
	}
	return sml_stream_read(&client->stream, message);
}

static int read_answer(struct sml_status_client *client, SmlControl__Envelope **answer)
{
	uint64_t until_ns = sml_now_ns() + (unsigned)client->timeout_ms * SML_NS_PER_MS;
	SmlControl__Envelope *message;
	int got;

	do {
		got = read_message(client, &message);
		if (got == 1)
			got = take_answer(client, message, answer);
		else if (got == 0)
			got = pull(client);
		/* It may send other messages forever. */
		if (got == 0 && sml_now_ns() > until_ns)
			got = -ETIMEDOUT;
	} while (got == 0);
	return got < 0 ? got : 0;
}

int sml_status_client_query(struct sml_status_client *client, SmlControl__Envelope **answer)
{
	int error;

	*answer = NULL;
	client->text[0] = '\0';
	error = write_request(client);
	if (!error)
		error = read_answer(client, answer);
	if (error && !client->text[0])
		snprintf(
			client->text, sizeof(client->text),
			"it accepts connections but does not answer (%s): is it a SwitchML switch?",
			strerror(-error));
	return error;
}
