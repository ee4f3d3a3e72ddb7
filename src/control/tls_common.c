/* SPDX-License-Identifier: BSD-3-Clause */
/* The part that is the same in builds with and without TLS: see tls.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "control/tls.h"

const struct sml_tls_files sml_tls_variables = {"SWITCHML_TLS_CERTIFICATE", "SWITCHML_TLS_KEY",
						"SWITCHML_TLS_AUTHORITY", NULL};

const struct sml_key_source sml_key_variables = {"job_key", "SWITCHML_JOB_KEY_FILE"};

int sml_key_none(void)
{
	const char *text = secure_getenv("SWITCHML_JOB_KEY");

	if (text == NULL || *text == '\0')
		return 0;
	return sml_error_set(-EINVAL, "SWITCHML_JOB_KEY is not a setting, because others can read "
				      "a process's variables: write the key to a file, and set "
				      "SWITCHML_JOB_KEY_FILE to its name");
}

int sml_tls_open_with_key(struct sml_tls **opened, enum sml_tls_end end,
			  const struct sml_tls_files *files, const struct sml_tls_files *names,
			  const struct sml_key_source *key, const struct sml_key_source *key_names)
{
	struct sml_tls_files shown = *files;
	struct sml_key derived = {{0}};
	int rc = sml_key_read(&derived, key, key_names);

	*opened = NULL;
	if (rc < 0)
		return rc;
	if (rc > 0)
		shown.job_key = &derived;
	rc = sml_tls_open(opened, end, &shown, names);
	sml_key_wipe(&derived);
	return rc;
}

bool sml_tls_is_hello(struct evbuffer *wire_in)
{
	unsigned char first[2];

	/*
	 * A handshake record, of any version. As a message's length, these bytes would be far too
	 * long.
	 */
	return evbuffer_copyout(wire_in, first, sizeof(first)) == sizeof(first) && first[0] == 22 &&
	       first[1] == 3;
}
