/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one end presents: its three files, or the job key. Any defect of the files is reported here,
 * once, when a program starts, and not as an obscure error of the first handshake.
 */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "control/tls_internal.h"

/* A peer's chain: a few certificates of 2 KiB each. OpenSSL's own bound is 100 KiB. */
#define MAX_CHAIN_BYTES (16 << 10)

static bool has_files(const struct sml_tls_files *files)
{
	return files->certificate != NULL || files->key != NULL || files->authority != NULL;
}

static int refuse_missing(const char *name, const char *what, const char *other,
			  const char *another)
{
	return sml_error_set(
		-EINVAL,
		"TLS needs three files, and %s is not set: it is %s (the other two: %s and %s)",
		name, what, other, another);
}

static int check_given(const struct sml_tls_files *files, const struct sml_tls_files *names)
{
	if (files->job_key != NULL && has_files(files))
		return sml_error_set(-EINVAL,
				     "both a job key and certificates are set, but only one of "
				     "them can be used: unset the key, or %s, %s and %s",
				     names->certificate, names->key, names->authority);
	if (files->job_key != NULL)
		return 0;
	if (files->certificate == NULL)
		return refuse_missing(names->certificate, "this end's certificate", names->key,
				      names->authority);
	if (files->key == NULL)
		return refuse_missing(names->key, "the private key of this end's certificate",
				      names->certificate, names->authority);
	if (files->authority == NULL)
		return refuse_missing(names->authority,
				      "the certificate of the authority that both ends trust",
				      names->certificate, names->key);
	return 0;
}

static int check_readable(const char *name, const char *path)
{
	const char *why;
	FILE *file = sml_file_read(path, &why);

	if (file == NULL)
		return sml_error_set(-EINVAL, "the file %s of %s cannot be read: %s", path, name,
				     why);
	fclose(file);
	return 0;
}

/* A program without a terminal must not ask for a passphrase. */
static int no_passphrase(char *text, int bytes, int writing, void *context)
{
	(void)text;
	(void)bytes;
	(void)writing;
	*(bool *)context = true;
	return 0;
}

static int load_key(SSL_CTX *context, const char *name, const char *path)
{
	bool encrypted = false;
	int loaded;

	SSL_CTX_set_default_passwd_cb(context, no_passphrase);
	SSL_CTX_set_default_passwd_cb_userdata(context, &encrypted);
	loaded = SSL_CTX_use_PrivateKey_file(context, path, SSL_FILETYPE_PEM);
	SSL_CTX_set_default_passwd_cb_userdata(context, NULL);
	SSL_CTX_set_default_passwd_cb(context, NULL);
	if (loaded == 1)
		return 0;
	if (encrypted)
		return sml_error_set(
			-EINVAL,
			"the private key %s of %s has a passphrase, which cannot be entered here: "
			"run openssl pkey -in %s -out OTHER, and protect the new file",
			path, name, path);
	if (ERR_GET_LIB(ERR_peek_last_error()) == ERR_LIB_X509 &&
	    ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH)
		return sml_error_set(-EINVAL,
				     "the private key %s of %s does not belong to the certificate",
				     path, name);
	return sml_error_set(-EINVAL, "the file %s of %s is not a private key in PEM format", path,
			     name);
}

/* Otherwise each peer in turn would report that our own certificate is out of date. */
static int check_dates(SSL_CTX *context, const char *name, const char *path)
{
	const X509 *certificate = SSL_CTX_get0_certificate(context);
	char when[40];

	if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) {
		sml_tls_time(X509_get0_notAfter(certificate), when, sizeof(when));
		return sml_error_set(-EINVAL,
				     "the certificate %s of %s expired on %s: make a new one", path,
				     name, when);
	}
	if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0) {
		sml_tls_time(X509_get0_notBefore(certificate), when, sizeof(when));
		return sml_error_set(
			-EINVAL,
			"the certificate %s of %s is not valid before %s: is this clock "
			"right?",
			path, name, when);
	}
	return 0;
}

static int load(SSL_CTX *context, const struct sml_tls_files *files,
		const struct sml_tls_files *names)
{
	int rc = check_readable(names->certificate, files->certificate);

	if (rc == 0)
		rc = check_readable(names->key, files->key);
	if (rc == 0)
		rc = check_readable(names->authority, files->authority);
	if (rc < 0)
		return rc;
	if (SSL_CTX_use_certificate_chain_file(context, files->certificate) != 1)
		return sml_error_set(-EINVAL,
				     "the file %s of %s is not a certificate in PEM format",
				     files->certificate, names->certificate);
	rc = load_key(context, names->key, files->key);
	if (rc < 0)
		return rc;
	if (SSL_CTX_load_verify_locations(context, files->authority, NULL) != 1)
		return sml_error_set(-EINVAL, "the file %s of %s has no certificate in PEM format",
				     files->authority, names->authority);
	return check_dates(context, names->certificate, files->certificate);
}

void sml_tls_start_library(void)
{
	/* OpenSSL's clean-up at exit() would free memory that running threads still use. */
	OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL);
}

static bool set_rules(SSL_CTX *context)
{
	/*
	 * Anyone can ask for a key exchange, and some of OpenSSL's default groups cost 100 ms each.
	 */
	if (SSL_CTX_set1_groups_list(context, "X25519:P-256") != 1)
		return false;
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
			   sml_tls_on_verify);
	/*
	 * Every connection proves everything again, so there is no session state to steal or to
	 * keep.
	 */
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY);
	SSL_CTX_set_max_cert_list(context, MAX_CHAIN_BYTES);
	return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
	       SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
	       SSL_CTX_set_num_tickets(context, 0) == 1;
}

int sml_tls_open(struct sml_tls **opened, enum sml_tls_end end, const struct sml_tls_files *files,
		 const struct sml_tls_files *names)
{
	struct sml_tls *tls;
	int rc;

	*opened = NULL;
	if (files->job_key == NULL && !has_files(files))
		return 0;
	rc = check_given(files, names);
	if (rc < 0)
		return rc;
	sml_tls_start_library();
	ERR_clear_error();
	tls = calloc(1, sizeof(*tls));
	if (tls != NULL)
		tls->context = SSL_CTX_new(end == SML_TLS_SWITCH ? TLS_server_method()
								 : TLS_client_method());
	if (tls == NULL || tls->context == NULL || !set_rules(tls->context)) {
		rc = sml_error_set(-EINVAL, "no memory for TLS, or this OpenSSL has no TLS 1.3");
		goto err_free;
	}
	tls->end = end;
	rc = files->job_key != NULL ? sml_tls_use_key(tls, files->job_key)
				    : load(tls->context, files, names);
	if (rc < 0)
		goto err_free;
	*opened = tls;
	return 0;

err_free:
	ERR_clear_error();
	sml_tls_close(tls);
	return rc;
}

void sml_tls_close(struct sml_tls *tls)
{
	if (tls == NULL)
		return;
	SSL_CTX_free(tls->context);
	sml_key_wipe(&tls->key);
	free(tls);
}
