/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of TLS share: tls_files.c (set-up), key.c and tls_psk.c (the job key), tls.c
 * (sessions), tls_reason.c (words).
 */
#ifndef SML_CONTROL_TLS_INTERNAL_H
#define SML_CONTROL_TLS_INTERNAL_H

#include <openssl/ssl.h>

#include "base/error.h"
#include "control/tls.h"

#define SML_TLS_REASON_BYTES 400

struct sml_tls {
	SSL_CTX *context;
	enum sml_tls_end end;
	bool keyed; /* the two ends have a key instead of certificates */
	struct sml_key key;
};

struct sml_tls_session {
	SSL *ssl;
	BIO *in, *out; /* of the SSL's */
	enum sml_tls_end end;
	bool keyed;
	bool spoken; /* bytes have come */
	bool plain, up, over;
	unsigned key_updates;
	char peer[256]; /* the name that the certificate must have, or "" */
	char reason[SML_TLS_REASON_BYTES];
};

/* Call this before any other OpenSSL function. It may be called any number of times. */
void sml_tls_start_library(void);

/*
 * All sessions must prove this key, and nothing else. Returns 0, or -EINVAL and sets the error
 * text.
 */
int sml_tls_use_key(struct sml_tls *tls, const struct sml_key *key);

/* Has a finished handshake proved what this end requires? Always, unless OpenSSL has a defect. */
bool sml_tls_proved(const struct sml_tls_session *session);

/* OpenSSL's verify callback: notes which certificate of a chain cannot be verified, and why. */
int sml_tls_on_verify(int good, X509_STORE_CTX *chain);

/* An operation on the session has failed: describe the reason, unless that is already done. */
void sml_tls_describe(struct sml_tls_session *session);

/* Writes a time as "Jan  1 00:00:00 2030 GMT", printable. */
void sml_tls_time(const ASN1_TIME *time, char *text, size_t bytes);

#endif
