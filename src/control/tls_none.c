/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tls.h and key.h in a build without OpenSSL: it accepts neither files nor keys, so no session ever
 * begins.
 */
#include <errno.h>

#include "base/error.h"
#include "control/tls.h"

bool sml_tls_is_built(void)
{
	return false;
}

int sml_tls_open(struct sml_tls **opened, enum sml_tls_end end, const struct sml_tls_files *files,
		 const struct sml_tls_files *names)
{
	(void)end;
	*opened = NULL;
	if (files->certificate == NULL && files->key == NULL && files->authority == NULL &&
	    files->job_key == NULL)
		return 0;
	return sml_error_set(-ENOTSUP,
			     "this program was built without TLS, which %s, %s and %s need: build "
			     "it with OpenSSL 3 (meson configure -Dtls=enabled)",
			     names->certificate, names->key, names->authority);
}

int sml_key_read(struct sml_key *key, const struct sml_key_source *source,
		 const struct sml_key_source *names)
{
	(void)key;
	if (source->secret == NULL && source->file == NULL)
		return sml_key_none();
	return sml_error_set(-ENOTSUP,
			     "this program was built without TLS, which a job key (%s) needs: "
			     "build it with OpenSSL 3 (meson configure -Dtls=enabled)",
			     source->secret != NULL ? names->secret : names->file);
}

void sml_key_wipe(struct sml_key *key)
{
	(void)key;
}

bool sml_tls_is_keyed(const struct sml_tls *tls)
{
	(void)tls;
	return false;
}

const char *sml_tls_demand(const struct sml_tls *tls)
{
	(void)tls;
	return "";
}

void sml_tls_close(struct sml_tls *tls)
{
	(void)tls;
}

struct sml_tls_session *sml_tls_begin(struct sml_tls *tls, const char *peer)
{
	(void)tls;
	(void)peer;
	return NULL;
}

void sml_tls_end(struct sml_tls_session *session)
{
	(void)session;
}

int sml_tls_step(struct sml_tls_session *session, struct evbuffer *wire_in,
		 struct evbuffer *messages_in, struct evbuffer *messages_out,
		 struct evbuffer *wire_out)
{
	(void)session;
	(void)wire_in;
	(void)messages_in;
	(void)messages_out;
	(void)wire_out;
	return -EPROTO;
}

void sml_tls_finish(struct sml_tls_session *session, struct evbuffer *wire_out)
{
	(void)session;
	(void)wire_out;
}

bool sml_tls_is_up(const struct sml_tls_session *session)
{
	(void)session;
	return false;
}

const char *sml_tls_reason(const struct sml_tls_session *session)
{
	(void)session;
	return "";
}

bool sml_tls_peer_is_plain(const struct sml_tls_session *session)
{
	(void)session;
	return false;
}
