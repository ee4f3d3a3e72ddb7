/* SPDX-License-Identifier: BSD-3-Clause */
/* One connection's TLS: see tls.h. OpenSSL reads and writes memory, never a socket. */
#include "control/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/tls_internal.h"

/* One record: more at once would only fill memory. */
#define CHUNK_BYTES 16384
/* An honest peer changes keys after millions of messages; each change costs us an answer. */
#define MAX_KEY_UPDATES 32

#define RECORD_ALERT	 21
#define RECORD_HANDSHAKE 22

bool sml_tls_is_built(void)
{
	return true;
}

/* ---- the beginning and the end ---- */

static void on_record(int sent, int version, int type, const void *bytes, size_t n, SSL *ssl,
		      void *context)
{
	struct sml_tls_session *session = context;

	(void)version;
	(void)ssl;
	if (!sent && type == RECORD_HANDSHAKE && n > 0 &&
	    *(const unsigned char *)bytes == SSL3_MT_KEY_UPDATE)
		session->key_updates++;
}

/* What the switch's certificate must name. Only subjectAltName counts, as is usual today. */
static bool request_name(SSL *ssl, const char *peer)
{
	X509_VERIFY_PARAM *rules = SSL_get0_param(ssl);

	if (X509_VERIFY_PARAM_set1_ip_asc(rules, peer) == 1)
		return true;
	X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT |
						       X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return X509_VERIFY_PARAM_set1_host(rules, peer, 0) == 1 &&
	       SSL_set_tlsext_host_name(ssl, peer) == 1;
}

struct sml_tls_session *sml_tls_begin(struct sml_tls *tls, const char *peer)
{
	struct sml_tls_session *session = calloc(1, sizeof(*session));

	if (session == NULL)
		return NULL;
	session->end = tls->end;
	session->keyed = tls->keyed;
	session->ssl = SSL_new(tls->context);
	session->in = BIO_new(BIO_s_mem());
	session->out = BIO_new(BIO_s_mem());
	if (session->ssl == NULL || session->in == NULL || session->out == NULL) {
		BIO_free(session->in);
		BIO_free(session->out);
		goto err_free;
	}
	SSL_set_bio(session->ssl, session->in, session->out);
	SSL_set_app_data(session->ssl, session);
	SSL_set_msg_callback(session->ssl, on_record);
	SSL_set_msg_callback_arg(session->ssl, session);
	if (tls->end == SML_TLS_SWITCH)
		SSL_set_accept_state(session->ssl);
	else
		SSL_set_connect_state(session->ssl);
	/* A key has no names. */
	if (peer != NULL && !tls->keyed) {
		snprintf(session->peer, sizeof(session->peer), "%s", peer);
		if (!request_name(session->ssl, session->peer))
			goto err_free;
	}
	/* Both ends are workers: see tls.h. */
	if (peer == NULL && tls->end == SML_TLS_WORKER)
		(void)X509_VERIFY_PARAM_set_purpose(SSL_get0_param(session->ssl),
						    X509_PURPOSE_SSL_CLIENT);
	return session;

err_free:
	SSL_free(session->ssl);
	free(session);
	return NULL;
}

void sml_tls_end(struct sml_tls_session *session)
{
	if (session == NULL)
		return;
	SSL_free(session->ssl);
	free(session);
}

/* ---- bytes ---- */

static int fail(struct sml_tls_session *session)
{
	sml_tls_describe(session);
	session->over = true;
	return -EPROTO;
}

/* The first byte reveals a peer without TLS, before OpenSSL reports an obscure error. */
static bool begins_plainly(struct sml_tls_session *session, struct evbuffer *wire_in)
{
	unsigned char first;

	if (session->spoken || evbuffer_copyout(wire_in, &first, 1) != 1)
		return false;
	session->spoken = true;
	session->plain = first != RECORD_HANDSHAKE && first != RECORD_ALERT;
	return session->plain;
}

static bool feed(struct sml_tls_session *session, struct evbuffer *wire_in)
{
	unsigned char bytes[CHUNK_BYTES];
	int n = wire_in != NULL ? evbuffer_remove(wire_in, bytes, sizeof(bytes)) : 0;

	return n <= 0 || BIO_write(session->in, bytes, n) == n;
}

/* After an operation that made no progress: does it only need more bytes from the wire? */
static bool waits(const struct sml_tls_session *session, int result)
{
	int error = SSL_get_error(session->ssl, result);

	/* Describe the end of TLS; the caller notices the end of the connection itself. */
	return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_ZERO_RETURN;
}

static int shake_hands(struct sml_tls_session *session)
{
	int result;

	if (session->up)
		return 0;
	ERR_clear_error();
	result = SSL_do_handshake(session->ssl);
	if (result != 1)
		return waits(session, result) ? 0 : fail(session);
	session->up = sml_tls_proved(session);
	return session->up ? 0 : fail(session);
}

static int read_messages(struct sml_tls_session *session, struct evbuffer *messages_in)
{
	struct evbuffer_iovec space;
	int n = 1;

	while (session->up && n > 0) {
		if (evbuffer_reserve_space(messages_in, CHUNK_BYTES, &space, 1) != 1)
			return fail(session);
		ERR_clear_error();
		n = SSL_read(session->ssl, space.iov_base, CHUNK_BYTES);
		space.iov_len = n > 0 ? (size_t)n : 0;
		if (evbuffer_commit_space(messages_in, &space, 1) < 0)
			return fail(session);
		if (n <= 0 && !waits(session, n))
			return fail(session);
	}
	if (session->key_updates <= MAX_KEY_UPDATES)
		return 0;
	snprintf(session->reason, sizeof(session->reason), "%s", "it changes its keys too often");
	return fail(session);
}

static int write_messages(struct sml_tls_session *session, struct evbuffer *messages_out)
{
	size_t left;

	while (session->up && (left = evbuffer_get_length(messages_out)) > 0) {
		int n = (int)(left < CHUNK_BYTES ? left : CHUNK_BYTES);
		const unsigned char *bytes = evbuffer_pullup(messages_out, n);

		ERR_clear_error();
		if (bytes == NULL || SSL_write(session->ssl, bytes, n) != n)
			return fail(session);
		evbuffer_drain(messages_out, (size_t)n);
	}
	return 0;
}

static int carry_out(struct sml_tls_session *session, struct evbuffer *wire_out)
{
	char *bytes;
	long n = BIO_get_mem_data(session->out, &bytes);

	if (n > 0 && evbuffer_add(wire_out, bytes, (size_t)n) < 0)
		return fail(session);
	(void)BIO_reset(session->out);
	return 0;
}

int sml_tls_step(struct sml_tls_session *session, struct evbuffer *wire_in,
		 struct evbuffer *messages_in, struct evbuffer *messages_out,
		 struct evbuffer *wire_out)
{
	int rc = 0, carried;

	if (session->over)
		return -EPROTO;
	if (wire_in != NULL && begins_plainly(session, wire_in))
		return fail(session);
	do {
		rc = feed(session, wire_in) ? shake_hands(session) : fail(session);
		if (rc == 0)
			rc = read_messages(session, messages_in);
	} while (rc == 0 && wire_in != NULL && evbuffer_get_length(wire_in) > 0);
	if (rc == 0)
		rc = write_messages(session, messages_out);
	carried = carry_out(session, wire_out);
	return rc < 0 ? rc : carried;
}

void sml_tls_finish(struct sml_tls_session *session, struct evbuffer *wire_out)
{
	if (session->over || !session->up)
		return;
	ERR_clear_error();
	(void)SSL_shutdown(session->ssl);
	(void)carry_out(session, wire_out);
	session->over = true;
}

/* ---- questions ---- */

bool sml_tls_is_up(const struct sml_tls_session *session)
{
	return session->up;
}

const char *sml_tls_reason(const struct sml_tls_session *session)
{
	return session->reason;
}

bool sml_tls_peer_is_plain(const struct sml_tls_session *session)
{
	return session->plain;
}
