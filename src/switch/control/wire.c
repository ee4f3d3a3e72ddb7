/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers whose TLS does not match ours: see server.h. */
#include "switch/control/server.h"

#include <stdio.h>

#include "control/envelope.h"

static void answer_plainly(struct sml_connection *connection, const char *text)
{
	SmlControl__Abort message = SML_CONTROL__ABORT__INIT;

	message.error = SML_ERROR_TLS;
	message.text = (char *)(uintptr_t)text;
	(void)sml_frame_write(connection->messages.wire_out, sml_envelope(ABORT, abort, &message));
	sml_connection_end(connection);
}

void sml_wire_failed(struct sml_connection *connection)
{
	char why[SML_SENTENCE_BYTES];

	snprintf(why, sizeof(why), "TLS failed: %s", sml_tls_reason(connection->messages.tls));
	if (connection->peer.is_parent)
		sml_uplink_failed(connection->server, why);
	if (sml_peer_is_member(&connection->peer)) {
		sml_connection_lose(connection, why);
		return;
	}
	sml_strangers_refused(connection, why, true);
	if (sml_tls_peer_is_plain(connection->messages.tls))
		answer_plainly(connection, sml_tls_demand(connection->server->tls));
	else
		sml_connection_end(connection);
}

void sml_wire_refuse_tls(struct sml_connection *connection)
{
	sml_strangers_refused(
		connection,
		"it speaks TLS, and this switch has neither a job key nor a "
		"certificate: start it with --key-file, or with --tls-certificate, "
		"--tls-key and --tls-authority; or, on the client, unset SWITCHML_JOB_KEY_FILE, or "
		"SWITCHML_TLS_CERTIFICATE, SWITCHML_TLS_KEY and SWITCHML_TLS_AUTHORITY",
		true);
	answer_plainly(connection, "the switch does not accept TLS connections");
}
