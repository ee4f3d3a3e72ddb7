/* SPDX-License-Identifier: BSD-3-Clause */
/* A conversation of a command over a control connection: it waits for what it wants to know. */
#ifndef SML_CMD_SHARED_TALK_H
#define SML_CMD_SHARED_TALK_H

#include <stdint.h>

#include "control/stream.h"
#include "job/common/rules.h"

struct sml_talk {
	int fd; /* -1: there is no connection */
	struct sml_stream stream;
	const struct sml_rules *rules; /* what may come: the rest is not awaited */
	unsigned state;		       /* of the rules; the caller's to change */
	const char *who;	       /* the other end should be: "a SwitchML switch" */
	char text[512];		       /* why the last call failed; "": its errno says it */
};

/*
 * Takes the socket over, also on failure. tls and peer are as for sml_stream_open(), who and rules
 * as above. Returns 0 or -ENOMEM; close it in either case.
 */
int sml_talk_open(struct sml_talk *talk, int fd, struct sml_tls *tls, const char *peer,
		  const char *who, const struct sml_rules *rules);

/* Returns 0 or a negative errno: -EPROTO if TLS is over. */
int sml_talk_send(struct sml_talk *talk, const SmlControl__Envelope *message);

/*
 * Takes a message that has come, without waiting. Returns 1; 0 if there is none yet; or a negative
 * errno: -ECONNRESET if the other end has closed, -EPROTO if it has sent something that may not
 * come.
 */
int sml_talk_take(struct sml_talk *talk, SmlControl__Envelope **message);

/* Waits for a message. Returns 0, or a negative errno: also -ETIMEDOUT. */
int sml_talk_receive(struct sml_talk *talk, uint64_t until_ns, SmlControl__Envelope **message);

/* More than once is allowed. */
void sml_talk_close(struct sml_talk *talk);

#endif
