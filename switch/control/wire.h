/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Between a connection's stream and its messages. Without TLS messages lie in
 * the stream's own buffers; with it they have two buffers of their own, and a
 * session (control/tls.h) goes between.
 */
#ifndef SML_SWITCH_WIRE_H
#define SML_SWITCH_WIRE_H

#include "switch/control/server.h"

/* Its server is set. False: no memory; to be finished in any case. */
bool sml_wire_init(struct sml_connection *connection);
void sml_wire_fini(struct sml_connection *connection);

struct evbuffer *sml_wire_messages_in(const struct sml_connection *connection);
struct evbuffer *sml_wire_messages_out(const struct sml_connection *connection);

/* Messages have been written: they go out, or wait for the handshake. */
void sml_wire_push(struct sml_connection *connection);

/* Bytes have come. 0, or -EPROTO: for sml_wire_failed(). */
int sml_wire_pull(struct sml_connection *connection);

/* No more is said. */
void sml_wire_finish(struct sml_connection *connection);

/* What has been said and has not left; and all bytes that the connection holds. */
size_t sml_wire_unsent_bytes(const struct sml_connection *connection);
size_t sml_wire_bytes(const struct sml_connection *connection);

/* TLS is over: a member is lost, a stranger is told why, by an alert or in plain words. */
void sml_wire_failed(struct sml_connection *connection);

/* A stranger speaks TLS, and this switch was not told to. */
void sml_wire_refuse_tls(struct sml_connection *connection);

#endif
