/* SPDX-License-Identifier: BSD-3-Clause */
/* See status_client.h. */
#include "cmd/shared/status_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "control/envelope.h"
#include "control/text.h"
#include "core/wire.h"
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

static int begin_tls(struct sml_status_client *client)
{
	const struct sml_tls_files files = sml_environment_tls_files();
	const struct sml_key_source key = sml_environment_key_source();
	int error = sml_tls_open_with_key(&client->tls, SML_TLS_WORKER, &files, &sml_tls_variables,
					  &key, &sml_key_variables);

	if (error)
		snprintf(client->talk.text, sizeof(client->talk.text), "%s", sml_error_last());
	return error;
}

/* ---- set-up ---- */

/* What a switch may say to somebody who asks. A Status tells of all jobs and all their ranks. */
static const struct sml_rules rules = {
	.states = (const char *const[]){"as an answer"},
	.messages =
		{
			[SML_CONTROL__ENVELOPE__BODY_STATUS] = {1, SML_CONTROL_MAX_BYTES},
			[SML_CONTROL__ENVELOPE__BODY_ABORT] = {1, SML_HEAD_BYTES},
			[SML_CONTROL__ENVELOPE__BODY_PING] = {1, SML_HEAD_BYTES},
			[SML_CONTROL__ENVELOPE__BODY_PONG] = {1, SML_HEAD_BYTES},
		},
};

static int connect_to(struct sml_status_client *client, const struct sml_host_port *at)
{
	struct sml_connect wish = {.host = at->host,
				   .port = at->has_port ? at->port : SML_DEFAULT_PORT,
				   .timeout_ms = client->timeout_ms};
	int fd = sml_connect(&wish);

	if (fd >= 0)
		return sml_talk_open(&client->talk, fd, client->tls, at->host, "a SwitchML switch",
				     &rules);
	if (wish.unknown) {
		snprintf(client->talk.text, sizeof(client->talk.text), "%s: %s", wish.host,
			 wish.why);
		client->fix = "correct the host's name (--switch, SWITCHML_SWITCH), or see why it "
			      "does not resolve here: `getent hosts NAME'";
	} else {
		snprintf(client->talk.text, sizeof(client->talk.text), "%s port %u: %s", wish.host,
			 wish.port, wish.why);
		client->fix = "start `switchml switch' there, correct the address (--switch, "
			      "SWITCHML_SWITCH), or let firewalls pass TCP to that port";
	}
	return fd;
}

int sml_status_client_open(struct sml_status_client *client, const char *address, int timeout_ms)
{
	struct sml_host_port at;
	int error;

	*client = (struct sml_status_client){.talk.fd = -1, .timeout_ms = timeout_ms};
	if (!sml_host_port_parse(address, strcspn(address, ",|"), &at) || !at.host[0]) {
		snprintf(client->talk.text, sizeof(client->talk.text), "`%s' is not HOST:PORT",
			 address);
		return -EINVAL;
	}
	error = begin_tls(client);
	return error ? error : connect_to(client, &at);
}

void sml_status_client_close(struct sml_status_client *client)
{
	sml_talk_close(&client->talk);
	sml_tls_close(client->tls);
}

/* ---- questions ---- */

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
		snprintf(client->talk.text, sizeof(client->talk.text), "%s", message->abort->text);
		result = -ECONNREFUSED;
	}
	sml_control__envelope__free_unpacked(message, NULL);
	return result;
}

int sml_status_client_query(struct sml_status_client *client, SmlControl__Envelope **answer)
{
	uint64_t until_ns = sml_now_ns() + (unsigned)client->timeout_ms * SML_NS_PER_MS;
	SmlControl__StatusRequest request = SML_CONTROL__STATUS_REQUEST__INIT;
	SmlControl__Envelope *message;
	int got;

	*answer = NULL;
	client->talk.text[0] = '\0';
	got = sml_talk_send(&client->talk, sml_envelope(STATUS_REQUEST, status_request, &request));
	while (got == 0) {
		got = sml_talk_receive(&client->talk, until_ns, &message);
		if (got == 0)
			got = take_answer(client, message, answer);
		/* It may send other messages forever. */
		if (got == 0 && sml_now_ns() > until_ns)
			got = -ETIMEDOUT;
	}
	if (got < 0 && !client->talk.text[0])
		snprintf(
			client->talk.text, sizeof(client->talk.text),
			"it accepts connections but does not answer (%s): is it a SwitchML switch?",
			strerror(-got));
	return got < 0 ? got : 0;
}
