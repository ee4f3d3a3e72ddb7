/* SPDX-License-Identifier: BSD-3-Clause */
/* Asking a running switch for its status, for `switchml status` and `switchml doctor`. */
#ifndef SML_CMD_SHARED_STATUS_CLIENT_H
#define SML_CMD_SHARED_STATUS_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "cmd/shared/talk.h"

/* A control connection, with TLS if the environment says so. */
struct sml_status_client {
	struct sml_talk talk; /* its text says why the last call failed */
	int timeout_ms;
	struct sml_tls *tls;
	const char *fix; /* what to do if there was no connection; NULL: nothing is known */
};

/* The three files of SWITCHML_TLS_CERTIFICATE and the other two variables. */
struct sml_tls_files sml_environment_tls_files(void);

/* SWITCHML_JOB_KEY_FILE. */
struct sml_key_source sml_environment_key_source(void);

/* The next switch of a list, "a,b|c,d"; *list moves past it. False if there are no more. */
bool sml_switch_list_next(const char **list, char *address, size_t bytes);

/*
 * Connect to "HOST", "HOST:PORT" or "[V6]:PORT"; of a list, to its first switch. Returns 0, or a
 * negative errno and sets the talk's text. Close the connection in both cases.
 */
int sml_status_client_open(struct sml_status_client *client, const char *address, int timeout_ms);

/*
 * Ask for the status, and wait for the answer, for at most the connection's time limit. Returns 0
 * if *answer is an envelope with a status, which the caller frees with
 * sml_control__envelope__free_unpacked(). Otherwise returns a negative errno, and sets the talk's
 * text.
 */
int sml_status_client_query(struct sml_status_client *client, SmlControl__Envelope **answer);

void sml_status_client_close(struct sml_status_client *client);

#endif
