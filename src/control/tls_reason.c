/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why a TLS connection failed, as a text that ends with the fix. All text from a peer is made
 * printable before it is shown.
 */
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>

#include "control/tls_internal.h"

/* ---- parts of a certificate ---- */

/* The contents of a memory BIO as one printable line. Frees the BIO. */
static void take_text(BIO *bio, char *text, size_t bytes)
{
	int n = bio != NULL ? BIO_read(bio, text, (int)bytes - 1) : -1;

	text[n > 0 ? n : 0] = '\0';
	for (char *c = text; *c != '\0'; c++)
		if (*c < 0x20 || *c > 0x7e)
			*c = '?';
	BIO_free(bio);
}

/* Writes a certificate's subject as "CN=gpu1", printable. */
static void name_subject(const X509 *certificate, char *text, size_t bytes)
{
	BIO *bio = BIO_new(BIO_s_mem());

	if (bio != NULL)
		X509_NAME_print_ex(bio, X509_get_subject_name(certificate), 0,
				   XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_QUOTE);
	take_text(bio, text, bytes);
}

void sml_tls_time(const ASN1_TIME *time, char *text, size_t bytes)
{
	BIO *bio = BIO_new(BIO_s_mem());

	if (bio != NULL)
		ASN1_TIME_print(bio, time);
	take_text(bio, text, bytes);
}

/* "DNS:gpu1, IP Address:10.0.0.3" */
static void names_of(const X509 *certificate, char *text, size_t bytes)
{
	int at = X509_get_ext_by_NID(certificate, NID_subject_alt_name, -1);
	BIO *bio = BIO_new(BIO_s_mem());

	if (bio != NULL && at >= 0)
		X509V3_EXT_print(bio, X509_get_ext(certificate, at), 0, 0);
	take_text(bio, text, bytes);
	if (text[0] == '\0')
		snprintf(text, bytes, "%s", "nothing");
}

/* ---- a certificate that cannot be verified ---- */

static void describe_name(struct sml_tls_session *session, const X509 *certificate)
{
	char names[160];

	names_of(certificate, names, sizeof(names));
	snprintf(session->reason, sizeof(session->reason),
		 "its certificate names %s, not %.100s: address it by a name in the certificate, "
		 "or make a certificate with this name in subjectAltName",
		 names, session->peer);
}

static void describe_certificate(struct sml_tls_session *session, const X509 *certificate,
				 int error)
{
	const char *other = session->end == SML_TLS_SWITCH ? "client" : "server";
	char subject[100], when[40];

	name_subject(certificate, subject, sizeof(subject));
	switch (error) {
	case X509_V_ERR_CERT_HAS_EXPIRED:
		sml_tls_time(X509_get0_notAfter(certificate), when, sizeof(when));
		snprintf(session->reason, sizeof(session->reason),
			 "its certificate \"%s\" expired on %s: make a new one for it", subject,
			 when);
		break;
	case X509_V_ERR_CERT_NOT_YET_VALID:
		sml_tls_time(X509_get0_notBefore(certificate), when, sizeof(when));
		snprintf(session->reason, sizeof(session->reason),
			 "its certificate \"%s\" is not valid before %s: are both clocks right?",
			 subject, when);
		break;
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		describe_name(session, certificate);
		break;
	case X509_V_ERR_INVALID_PURPOSE:
		snprintf(session->reason, sizeof(session->reason),
			 "its certificate \"%s\" is not for a %s: make one whose extendedKeyUsage "
			 "has %sAuth, or has none",
			 subject, other, other);
		break;
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
	case X509_V_ERR_CERT_SIGNATURE_FAILURE:
		snprintf(session->reason, sizeof(session->reason),
			 "its certificate \"%s\" was not issued by the authority that this end "
			 "trusts: give both ends certificates of one authority, and that "
			 "authority's file",
			 subject);
		break;
	default:
		snprintf(session->reason, sizeof(session->reason),
			 "its certificate \"%s\" cannot be verified: %s", subject,
			 X509_verify_cert_error_string(error));
		break;
	}
}

int sml_tls_on_verify(int good, X509_STORE_CTX *chain)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx());
	struct sml_tls_session *session = SSL_get_app_data(ssl);
	X509 *certificate = X509_STORE_CTX_get_current_cert(chain);

	if (!good && session->reason[0] == '\0' && certificate != NULL)
		describe_certificate(session, certificate, X509_STORE_CTX_get_error(chain));
	return good;
}

/* ---- the job key ---- */

#define SAME_KEY "give both ends the same key (SWITCHML_JOB_KEY_FILE, or --key-file at the switch)"

const char *sml_tls_demand(const struct sml_tls *tls)
{
	return tls->keyed ? "this switch requires a job key: set SWITCHML_JOB_KEY_FILE "
			    "to a file with the switch's key"
			  : "this switch requires TLS with certificates: set "
			    "SWITCHML_TLS_CERTIFICATE, "
			    "SWITCHML_TLS_KEY and SWITCHML_TLS_AUTHORITY";
}

/* What went wrong if this end has a key; NULL: nothing specific to keys. */
static const char *key_reason(enum sml_tls_end end, int reason)
{
	if (reason == SSL_R_BINDER_DOES_NOT_VERIFY ||
	    reason == SSL_AD_REASON_OFFSET + SSL_AD_ILLEGAL_PARAMETER ||
	    reason == SSL_AD_REASON_OFFSET + SSL_AD_DECRYPT_ERROR)
		return "it has another job key: " SAME_KEY;
	/* Without the key, OpenSSL looks for our certificate, and there is none. */
	if (end == SML_TLS_SWITCH &&
	    (reason == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM || reason == SSL_R_NO_SHARED_CIPHER))
		return "it offered no job key: set SWITCHML_JOB_KEY_FILE there, instead of "
		       "certificates";
	return NULL;
}

/* ---- the peer's alert: it rejects our certificate ---- */

static const struct {
	int alert;
	const char *what;
} alerts[] = {
	{SSL_AD_CERTIFICATE_REQUIRED, "it requires a certificate, but this end sent none"},
	{SSL_AD_CERTIFICATE_EXPIRED,
	 "it says that this end's certificate has expired: make a new one"},
	{SSL_AD_UNKNOWN_CA, "it does not trust the authority of this end's certificate: give both "
			    "ends certificates of one authority, and that authority's file"},
	{SSL_AD_UNSUPPORTED_CERTIFICATE, "it says that this end's certificate is not valid for "
					 "this purpose: check its extendedKeyUsage"},
	{SSL_AD_BAD_CERTIFICATE, "it does not accept this end's certificate: its log says why"},
	{SSL_AD_CERTIFICATE_UNKNOWN, "it does not accept this end's certificate: its log says why"},
	{SSL_AD_PROTOCOL_VERSION, "it does not speak TLS 1.3"},
	{SSL_AD_HANDSHAKE_FAILURE,
	 "it accepts nothing that this end offers: does one end have a "
	 "job key (SWITCHML_JOB_KEY_FILE) and the other end certificates?"},
};

static bool describe_alert(struct sml_tls_session *session, int alert)
{
	for (size_t i = 0; i < sizeof(alerts) / sizeof(alerts[0]); i++) {
		if (alerts[i].alert != alert)
			continue;
		snprintf(session->reason, sizeof(session->reason), "%s", alerts[i].what);
		return true;
	}
	return false;
}

/* ---- anything ---- */

static const char *plain_reason(enum sml_tls_end end, bool keyed)
{
	if (keyed)
		return end == SML_TLS_SWITCH
			       ? "it did not use a job key: set SWITCHML_JOB_KEY_FILE there"
			       : "it has no job key: start it with --key-file, or unset "
				 "SWITCHML_JOB_KEY_FILE here";
	return end == SML_TLS_SWITCH
		       ? "it did not use TLS: set SWITCHML_TLS_CERTIFICATE, SWITCHML_TLS_KEY and "
			 "SWITCHML_TLS_AUTHORITY there"
		       : "it does not use TLS: start it with --tls-certificate, --tls-key and "
			 "--tls-authority, or unset SWITCHML_TLS_CERTIFICATE, SWITCHML_TLS_KEY and "
			 "SWITCHML_TLS_AUTHORITY here";
}

void sml_tls_describe(struct sml_tls_session *session)
{
	unsigned long error = ERR_peek_error();
	int reason = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
	const char *text = ERR_reason_error_string(error);

	if (session->reason[0] != '\0')
		return;
	if (session->plain)
		text = plain_reason(session->end, session->keyed);
	else if (session->keyed && key_reason(session->end, reason) != NULL)
		text = key_reason(session->end, reason);
	else if (reason > SSL_AD_REASON_OFFSET &&
		 describe_alert(session, reason - SSL_AD_REASON_OFFSET))
		return;
	else if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
		text = "it sent no certificate: set SWITCHML_TLS_CERTIFICATE and "
		       "SWITCHML_TLS_KEY there";
	else if (reason == SSL_R_UNSUPPORTED_PROTOCOL || reason == SSL_R_WRONG_VERSION_NUMBER)
		text = "it does not speak TLS 1.3";
	else if (reason == SSL_R_NO_SUITABLE_KEY_SHARE || reason == SSL_R_BAD_KEY_SHARE)
		text = "it supports neither of the key exchange groups X25519 and P-256";
	snprintf(session->reason, sizeof(session->reason), "%s",
		 text != NULL ? text : "no memory, or it broke the protocol");
}
