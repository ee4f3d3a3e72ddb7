/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages with TLS and without: see wire.h. */
#include "switch/control/wire.h"

#include <stdio.h>

bool sml_wire_init(struct sml_connection *connection)
{
	if (connection->server->tls == NULL)
		return true;
	connection->tls = sml_tls_begin(connection->server->tls, NULL);
	connection->in = evbuffer_new();
	connection->out = evbuffer_new();
	return connection->tls != NULL && connection->in != NULL && connection->out != NULL;
}

void sml_wire_fini(struct sml_connection *connection)
{
	sml_tls_end(connection->tls);
	if (connection->in != NULL)
		evbuffer_free(connection->in);
	if (connection->out != NULL)
		evbuffer_free(connection->out);
}

struct evbuffer *sml_wire_messages_in(const struct sml_connection *connection)
{
	return connection->tls != NULL ? connection->in : bufferevent_get_input(connection->stream);
}

struct evbuffer *sml_wire_messages_out(const struct sml_connection *connection)
{
	return connection->tls != NULL ? connection->out
				       : bufferevent_get_output(connection->stream);
}

void sml_wire_push(struct sml_connection *connection)
{
	/* Out of memory, the session is over, and the next bytes that come end the connection. */
	if (connection->tls != NULL)
		(void)sml_tls_step(connection->tls, NULL, connection->in, connection->out,
				   bufferevent_get_output(connection->stream));
}

int sml_wire_pull(struct sml_connection *connection)
{
	if (connection->tls == NULL)
		return 0;
	return sml_tls_step(connection->tls, bufferevent_get_input(connection->stream),
			    connection->in, connection->out,
			    bufferevent_get_output(connection->stream));
}

void sml_wire_finish(struct sml_connection *connection)
{
	if (connection->tls == NULL)
		return;
	sml_tls_finish(connection->tls, bufferevent_get_output(connection->stream));
	/* What waited for a handshake waits in vain. */
	evbuffer_drain(connection->out, evbuffer_get_length(connection->out));
}

/* ---- how much ---- */

size_t sml_wire_unsent_bytes(const struct sml_connection *connection)
{
	size_t bytes = evbuffer_get_length(bufferevent_get_output(connection->stream));

	return connection->out != NULL ? bytes + evbuffer_get_length(connection->out) : bytes;
}

size_t sml_wire_bytes(const struct sml_connection *connection)
{
	size_t bytes = evbuffer_get_length(bufferevent_get_input(connection->stream));

	if (connection->in != NULL)
		bytes += evbuffer_get_length(connection->in);
	return bytes + sml_wire_unsent_bytes(connection);
}

/* ---- who does not fit together ---- */

static void answer_plainly(struct sml_connection *connection, const char *text)
{
	SmlControl__Envelope message = SML_CONTROL__ENVELOPE__INIT;
	SmlControl__Abort abort_message = SML_CONTROL__ABORT__INIT;

	abort_message.error = SML_ERROR_TLS;
	abort_message.text = (char *)(uintptr_t)text;
	message.body_case = SML_CONTROL__ENVELOPE__BODY_ABORT;
	message.abort = &abort_message;
	(void)sml_frame_write(bufferevent_get_output(connection->stream), &message);
	sml_connection_end(connection);
}

void sml_wire_failed(struct sml_connection *connection)
{
	char why[SML_TEXT_BYTES];

	snprintf(why, sizeof(why), "TLS failed: %s", sml_tls_reason(connection->tls));
	if (connection->job != NULL) {
		sml_connection_lose(connection, why);
		return;
	}
	sml_strangers_refused(connection, why, true);
	if (sml_tls_peer_is_plain(connection->tls))
		answer_plainly(connection, "the switch takes only TLS connections: set "
					   "SWITCHML_TLS_CERTIFICATE, SWITCHML_TLS_KEY and "
					   "SWITCHML_TLS_AUTHORITY");
	else
		sml_connection_end(connection);
}

void sml_wire_refuse_tls(struct sml_connection *connection)
{
	sml_strangers_refused(connection,
			      "it speaks TLS, and this switch has no certificate: start it with "
			      "--tls-certificate, --tls-key and --tls-authority, or unset "
			      "SWITCHML_TLS_CERTIFICATE, SWITCHML_TLS_KEY and "
			      "SWITCHML_TLS_AUTHORITY there",
			      true);
	answer_plainly(connection, "the switch takes no TLS connections");
}
