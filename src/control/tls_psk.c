/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The job key as an external pre-shared key of TLS 1.3 (RFC 8446, 2.2), always together with a
 * fresh key exchange, so that a key that leaks later cannot decrypt earlier sessions. There is one
 * identity and one cipher: a peer chooses nothing, and we parse nothing ourselves.
 */
#include <errno.h>
#include <openssl/err.h>
#include <stdio.h>
#include <string.h>

#include "control/tls_internal.h"

#define CIPHER "TLS_AES_128_GCM_SHA256"

/*
 * All keys have this identity, so that a peer with another key is told exactly that, and not that
 * its identity is unknown.
 */
static const unsigned char identity[] = {'s', 'w', 'i', 't', 'c', 'h', 'm', 'l'};

/* NULL: no memory. */
static SSL_SESSION *session_of_key(SSL *ssl)
{
	static const unsigned char cipher[] = {0x13, 0x01};
	const struct sml_tls *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	SSL_SESSION *made = SSL_SESSION_new();

	if (made != NULL &&
	    SSL_SESSION_set1_master_key(made, tls->key.bytes, sizeof(tls->key.bytes)) == 1 &&
	    SSL_SESSION_set_cipher(made, SSL_CIPHER_find(ssl, cipher)) == 1 &&
	    SSL_SESSION_set_protocol_version(made, TLS1_3_VERSION) == 1)
		return made;
	SSL_SESSION_free(made);
	return NULL;
}

/* The worker's side: what it presents. */
static int use_key(SSL *ssl, const EVP_MD *digest, const unsigned char **id, size_t *id_bytes,
		   SSL_SESSION **session)
{
	(void)digest; /* of our cipher, if the switch has already chosen it */
	*id = identity;
	*id_bytes = sizeof(identity);
	*session = session_of_key(ssl);
	return *session != NULL;
}

/* The switch's side: find the key of an identity. NULL: unknown, and then the handshake fails. */
static int find_key(SSL *ssl, const unsigned char *id, size_t id_bytes, SSL_SESSION **session)
{
	*session = NULL;
	if (id_bytes != sizeof(identity) || memcmp(id, identity, sizeof(identity)) != 0)
		return 1;
	*session = session_of_key(ssl);
	return *session != NULL;
}

/* Whatever it is, it is not the key. */
static int refuse_certificate(X509_STORE_CTX *chain, void *context)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx());
	struct sml_tls_session *session = SSL_get_app_data(ssl);

	(void)context;
	snprintf(session->reason, sizeof(session->reason), "%s",
		 "it uses certificates, not a job key: start it with --key-file, or unset "
		 "SWITCHML_JOB_KEY_FILE here");
	X509_STORE_CTX_set_error(chain, X509_V_ERR_APPLICATION_VERIFICATION);
	return 0;
}

int sml_tls_use_key(struct sml_tls *tls, const struct sml_key *key)
{
	tls->keyed = true;
	tls->key = *key;
	SSL_CTX_set_app_data(tls->context, tls);
	SSL_CTX_set_cert_verify_callback(tls->context, refuse_certificate, NULL);
	if (tls->end == SML_TLS_SWITCH) {
		SSL_CTX_set_psk_find_session_callback(tls->context, find_key);
		/*
		 * To OpenSSL a key is a session, and a server must set the context of its sessions.
		 */
		(void)SSL_CTX_set_session_id_context(tls->context, identity, sizeof(identity));
	} else {
		SSL_CTX_set_psk_use_session_callback(tls->context, use_key);
	}
	if (SSL_CTX_set_ciphersuites(tls->context, CIPHER) == 1)
		return 0;
	return sml_error_set(-EINVAL, "this OpenSSL has no %s, which a job key needs", CIPHER);
}

bool sml_tls_is_keyed(const struct sml_tls *tls)
{
	return tls->keyed;
}

bool sml_tls_proved(const struct sml_tls_session *session)
{
	/* Only the key can have been resumed. */
	return !session->keyed || SSL_session_reused(session->ssl) == 1;
}
