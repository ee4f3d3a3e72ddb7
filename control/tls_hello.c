/* SPDX-License-Identifier: BSD-3-Clause */
/* What can be said of TLS without any: see tls.h. */
#include "control/tls.h"

const struct sml_tls_files sml_tls_variables = {"SWITCHML_TLS_CERTIFICATE", "SWITCHML_TLS_KEY",
						"SWITCHML_TLS_AUTHORITY"};

bool sml_tls_is_hello(struct evbuffer *wire_in)
{
	unsigned char first[2];

	/* A record of a handshake, of any version. As a message's length it is far too long. */
	return evbuffer_copyout(wire_in, first, sizeof(first)) == sizeof(first) && first[0] == 22 &&
	       first[1] == 3;
}
