/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns the user's setting into a key: see key.h. Nothing here logs, and no text contains a secret.
 */
#include "control/key.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/tls_internal.h"

/* The purpose of the key: another use of the same secret derives another key. */
#define LABEL "switchml job key 1"

static int derive(struct sml_key *key, const char *name, const char *secret, size_t bytes)
{
	char digest[] = "SHA256", label[] = LABEL;
	OSSL_PARAM parameters[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)secret,
						  bytes),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, label, sizeof(label) - 1),
		OSSL_PARAM_construct_end(),
	};
	EVP_KDF *hkdf;
	EVP_KDF_CTX *context;
	int derived;

	if (bytes < SML_KEY_SECRET_MINIMUM || bytes > SML_KEY_SECRET_MAXIMUM)
		return sml_error_set(-EINVAL,
				     "the job key of %s has %s%zu bytes: it must have %d to %d "
				     "random bytes, for example from `openssl rand -base64 32`",
				     name, bytes > SML_KEY_SECRET_MAXIMUM ? "more than " : "",
				     bytes > SML_KEY_SECRET_MAXIMUM ? (size_t)SML_KEY_SECRET_MAXIMUM
								    : bytes,
				     SML_KEY_SECRET_MINIMUM, SML_KEY_SECRET_MAXIMUM);
	sml_tls_start_library();
	ERR_clear_error();
	hkdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
	context = EVP_KDF_CTX_new(hkdf);
	derived = context != NULL
			  ? EVP_KDF_derive(context, key->bytes, sizeof(key->bytes), parameters)
			  : 0;
	EVP_KDF_CTX_free(context);
	EVP_KDF_free(hkdf);
	ERR_clear_error();
	return derived == 1
		       ? 1
		       : sml_error_set(
				 -EINVAL,
				 "no memory to derive the job key, or this OpenSSL has no HKDF");
}

/* Anyone who can read the file has the key, and anyone who can write it chooses the key. */
static int check_file(int fd, const char *name, const char *path)
{
	struct stat status;

	if (fstat(fd, &status) < 0)
		return sml_error_set(-EINVAL, "the file %s of %s cannot be read: %s", path, name,
				     strerror(errno));
	if (!S_ISREG(status.st_mode))
		return sml_error_set(-EINVAL, "%s of %s is not a regular file", path, name);
	if (status.st_mode & (S_IRWXO | S_IWGRP))
		return sml_error_set(
			-EINVAL,
			"the job key in %s of %s is open to other users (mode %03o): "
			"chmod 600 %s, and create a new key if anyone may have read this one",
			path, name, (unsigned)status.st_mode & 0777, path);
	return 0;
}

/*
 * Reading one more byte than allowed shows that there is more. Returns -errno or the number of
 * bytes.
 */
static ssize_t read_all(int fd, char *secret, size_t bytes)
{
	size_t length = 0;

	while (length < bytes) {
		ssize_t n = read(fd, secret + length, bytes - length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		length += (size_t)n;
	}
	return (ssize_t)length;
}

static size_t without_newline(const char *secret, size_t length)
{
	if (length == 0 || secret[length - 1] != '\n')
		return length;
	length--;
	return length > 0 && secret[length - 1] == '\r' ? length - 1 : length;
}

static int derive_from_file(struct sml_key *key, const char *name, const char *path)
{
	char secret[SML_KEY_SECRET_MAXIMUM +
		    3]; /* a newline (also Windows's), and one byte too many */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	ssize_t length;
	int rc;

	if (fd < 0)
		return sml_error_set(-EINVAL, "the file %s of %s cannot be read: %s", path, name,
				     strerror(errno));
	rc = check_file(fd, name, path);
	length = rc < 0 ? 0 : read_all(fd, secret, sizeof(secret));
	close(fd);
	if (rc >= 0 && length < 0)
		rc = sml_error_set(-EINVAL, "the file %s of %s cannot be read: %s", path, name,
				   strerror((int)-length));
	else if (rc >= 0)
		rc = derive(key, name, secret, without_newline(secret, (size_t)length));
	/* Also what was read before an error. */
	OPENSSL_cleanse(secret, sizeof(secret));
	return rc;
}

int sml_key_read(struct sml_key *key, const struct sml_key_source *source,
		 const struct sml_key_source *names)
{
	if (source->secret == NULL && source->file == NULL)
		return sml_key_none();
	if (source->secret != NULL && source->file != NULL)
		return sml_error_set(-EINVAL,
				     "the job key is set twice, by %s and by %s: unset one",
				     names->secret, names->file);
	if (source->file != NULL)
		return derive_from_file(key, names->file, source->file);
	return derive(key, names->secret, source->secret, strlen(source->secret));
}

void sml_key_wipe(struct sml_key *key)
{
	OPENSSL_cleanse(key, sizeof(*key));
}
