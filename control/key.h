/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The job key: a secret that all ends of a job share, in place of certificates. Whoever has
 * it may be a switch or any rank. tls.h proves it, as an external pre-shared key of TLS 1.3.
 *
 * The invariant: what the user has set is read once and never copied to stay. What is kept
 * is derived from it, with HKDF, and wiped when it is not needed any more.
 */
#ifndef SML_CONTROL_KEY_H
#define SML_CONTROL_KEY_H

#include <stddef.h>

#define SML_KEY_BYTES 32
/* Of the secret. Anyone who records a handshake can try out a short one at leisure. */
#define SML_KEY_SECRET_MINIMUM 16
#define SML_KEY_SECRET_MAXIMUM 1024

/* The secret itself, or a file that has it and may end in a newline. Both NULL: no key. */
struct sml_key_source {
	const char *secret, *file;
};

/* The names of the variables that say the two. */
extern const struct sml_key_source sml_key_variables;

struct sml_key {
	unsigned char bytes[SML_KEY_BYTES];
};

/*
 * Derive the key. 1; 0: there is no source; or a negative number, and sml_error_last() says what
 * is wrong and what to do. names: what the two are called where the user sets them.
 */
int sml_key_read(struct sml_key *key, const struct sml_key_source *source,
		 const struct sml_key_source *names);

/* Leave nothing of it in memory. */
void sml_key_wipe(struct sml_key *key);

#endif
