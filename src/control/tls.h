/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS 1.3 for control connections, for both ends, with OpenSSL. It knows no socket: wire bytes go
 * in and out through evbuffers, like messages in stream.h. So the switch's event loop, the
 *library's and a blocking command all drive the same code, and nothing here waits or raises
 *SIGPIPE.
 *
 *	wire in  --> decrypt --> messages in	(sml_frame_read)
 *	wire out <-- encrypt <-- messages out	(sml_frame_write)
 *
 * The invariant: no byte of a message passes before both ends have proved that they have a
 * certificate of the authority, or the job key. TLS never falls back to plain text, and no session
 * is ever resumed.
 */
#ifndef SML_CONTROL_TLS_H
#define SML_CONTROL_TLS_H

#include <event2/buffer.h>
#include <stdbool.h>
#include <stddef.h>

#include "control/key.h"

enum sml_tls_end { SML_TLS_SWITCH, SML_TLS_WORKER };

/* PEM files, or a job key instead of them. All NULL for no TLS. */
struct sml_tls_files {
	const char *certificate;       /* this end's certificate, and its chain to the authority */
	const char *key;	       /* its private key, without a passphrase */
	const char *authority;	       /* the authority whose certificates are trusted */
	const struct sml_key *job_key; /* copied by sml_tls_open() */
};

/* The names of the variables for the three files, where there are no options for them. */
extern const struct sml_tls_files sml_tls_variables;

/* What one end presents and trusts: read once, for any number of sessions. */
struct sml_tls;

/* The state of one connection. */
struct sml_tls_session;

/* Was this program built with TLS? */
bool sml_tls_is_built(void);

/*
 * Read the files. Without any, 0 and NULL. Otherwise all three or the key must be there: on
 * failure, the result is a negative number, and sml_error_last() says which file is wrong and what
 * to do. names: what the user calls the three settings.
 */
int sml_tls_open(struct sml_tls **opened, enum sml_tls_end end, const struct sml_tls_files *files,
		 const struct sml_tls_files *names);

/* The same, but reads a job key first, and wipes it afterwards; `files` has no job key. */
int sml_tls_open_with_key(struct sml_tls **opened, enum sml_tls_end end,
			  const struct sml_tls_files *files, const struct sml_tls_files *names,
			  const struct sml_key_source *key, const struct sml_key_source *key_names);
void sml_tls_close(struct sml_tls *tls);

/* Both ends prove the job key, and none has a certificate. */
bool sml_tls_is_keyed(const struct sml_tls *tls);

/* What a peer without TLS must set, as a sentence of the switch. */
const char *sml_tls_demand(const struct sml_tls *tls);

/*
 * A new connection. peer: the host or address that the switch's certificate must name; NULL if the
 * peer is a worker, whose certificate needs no name. Returns NULL if there is no memory. `tls` must
 * outlive the session.
 */
struct sml_tls_session *sml_tls_begin(struct sml_tls *tls, const char *peer);
void sml_tls_end(struct sml_tls_session *session);

/*
 * Move all data that can be moved. Call it at the beginning, when bytes have come, and when there
 * is something to send (then wire_in may be NULL). Messages out wait in their buffer until the
 * handshake is done. Returns 0, or -EPROTO: TLS is over, and sml_tls_reason() says why. Send the
 * contents of wire_out even then, because they tell the peer the reason.
 */
int sml_tls_step(struct sml_tls_session *session, struct evbuffer *wire_in,
		 struct evbuffer *messages_in, struct evbuffer *messages_out,
		 struct evbuffer *wire_out);

/* Tell the peer that no more data comes; after the last step. */
void sml_tls_finish(struct sml_tls_session *session, struct evbuffer *wire_out);

/* Is the handshake done? The worker sees that before the switch has checked the worker. */
bool sml_tls_is_up(const struct sml_tls_session *session);

/*
 * Why TLS is over, as the end of a sentence in which "it" means the peer; "" while it is not over.
 */
const char *sml_tls_reason(const struct sml_tls_session *session);

/* The first bytes were not TLS: the peer speaks plain text, and can be answered in plain text. */
bool sml_tls_peer_is_plain(const struct sml_tls_session *session);

/* Do these first bytes begin a TLS connection? For an end without TLS. */
bool sml_tls_is_hello(struct evbuffer *wire_in);

#endif
