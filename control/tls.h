/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS 1.3 for control connections, for both ends, with OpenSSL. It knows no
 * socket: bytes of the wire go in and come out by evbuffers, as messages do in
 * frame.h, so the switch's event loop, the library's and a blocking command all
 * drive the same code, and nothing in here ever waits or raises SIGPIPE.
 *
 *	wire in  --> decrypt --> messages in	(sml_frame_read)
 *	wire out <-- encrypt <-- messages out	(sml_frame_write)
 *
 * The invariant: not one byte of a message goes in or out before both ends have
 * proved that they have a certificate of the authority, or the job key. There is no way back to
 * plain text, and no session is ever resumed.
 */
#ifndef SML_CONTROL_TLS_H
#define SML_CONTROL_TLS_H

#include <event2/buffer.h>
#include <stdbool.h>
#include <stddef.h>

#include "control/key.h"

enum sml_tls_end { SML_TLS_SWITCH, SML_TLS_WORKER };

/* Files of PEM; or, in their place, a job key. All NULL: no TLS. */
struct sml_tls_files {
	const char *certificate;       /* this end's, and what leads from it to the authority */
	const char *key;	       /* its private key, without a passphrase */
	const char *authority;	       /* whose certificates are believed */
	const struct sml_key *job_key; /* copied by sml_tls_open() */
};

/* The names of the variables that say the three files, where no options do. */
extern const struct sml_tls_files sml_tls_variables;

/* What one end shows and believes: read once, for any number of sessions. */
struct sml_tls;

/* One connection's. */
struct sml_tls_session;

/* This program can do TLS at all. */
bool sml_tls_is_built(void);

/*
 * Read the files. Without any, 0 and NULL. Otherwise all three or the key must be there: on failure
 * a negative number, and sml_error_last() says which file is wrong and what to do. names: what the
 * three are called where the user sets them.
 */
int sml_tls_open(struct sml_tls **opened, enum sml_tls_end end, const struct sml_tls_files *files,
		 const struct sml_tls_files *names);

/* The same with a key that is read first, and wiped again; files have none of their own. */
int sml_tls_open_with_key(struct sml_tls **opened, enum sml_tls_end end,
			  const struct sml_tls_files *files, const struct sml_tls_files *names,
			  const struct sml_key_source *key, const struct sml_key_source *key_names);
void sml_tls_close(struct sml_tls *tls);

/* Both ends prove the job key, and none has a certificate. */
bool sml_tls_is_keyed(const struct sml_tls *tls);

/* What a peer that speaks plainly is to set, as a sentence of the switch's. */
const char *sml_tls_demand(const struct sml_tls *tls);

/*
 * A new connection. peer: the host or address that the switch's certificate must name; of
 * workers no name is asked (NULL). NULL: no memory. The tls must outlive it.
 */
struct sml_tls_session *sml_tls_begin(struct sml_tls *tls, const char *peer);
void sml_tls_end(struct sml_tls_session *session);

/*
 * Move what can be moved: to be called at the beginning, when bytes have come, and when there
 * is something to say (then wire_in may be NULL). Messages out wait in their buffer until the
 * handshake is done. 0; or -EPROTO: it is over, for sml_tls_reason(). Then, too, what wire_out has
 * is to be sent, for it tells the peer why.
 */
int sml_tls_step(struct sml_tls_session *session, struct evbuffer *wire_in,
		 struct evbuffer *messages_in, struct evbuffer *messages_out,
		 struct evbuffer *wire_out);

/* Tell the peer that no more comes; after the last step. */
void sml_tls_finish(struct sml_tls_session *session, struct evbuffer *wire_out);

/* The handshake is done. The worker's end sees that before the switch has looked at it. */
bool sml_tls_is_up(const struct sml_tls_session *session);

/* Why it is over, as the end of a sentence with "it" for the peer: "" while it is not. */
const char *sml_tls_reason(const struct sml_tls_session *session);

/* What came first was no TLS: the peer talks plainly, and can be answered so. */
bool sml_tls_peer_is_plain(const struct sml_tls_session *session);

/* Do these first bytes begin a TLS connection? For an end that has none. */
bool sml_tls_is_hello(struct evbuffer *wire_in);

#endif
