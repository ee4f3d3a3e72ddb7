/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The job key: a secret that all ends of a job share, instead of certificates. Anyone who has it
 * can act as the switch or as any rank. TLS proves it as an external pre-shared key (tls.h).
 *
 * The invariant: the user's secret is read once, and no copy of it is kept. The key that is kept is
 * derived from it with HKDF, and wiped when it is no longer needed.
 */
#ifndef SML_CONTROL_KEY_H
#define SML_CONTROL_KEY_H

#define SML_KEY_BYTES 32
/* Length of the secret. Anyone who records a handshake can guess a short secret offline. */
#define SML_KEY_SECRET_MINIMUM 16
#define SML_KEY_SECRET_MAXIMUM 1024

/* The secret itself, or a file that contains it and may end in a newline. Both NULL for no key. */
struct sml_key_source {
	const char *secret, *file;
};

/* What the user calls them: a program passes the first, and the second is a variable. */
extern const struct sml_key_source sml_key_variables;

struct sml_key {
	unsigned char bytes[SML_KEY_BYTES];
};

/*
 * Derive the key. Returns 1; 0 if there is no source; or a negative number, and sml_error_last()
 * says what is wrong and what to do. names: what the user calls the two settings.
 */
int sml_key_read(struct sml_key *key, const struct sml_key_source *source,
		 const struct sml_key_source *names);

/*
 * No key. Returns 0, or a negative number if the user means to set one all the same: as a variable,
 * which other processes can read, and which no end does.
 */
int sml_key_none(void);

/* Wipe it from memory. */
void sml_key_wipe(struct sml_key *key);

#endif
