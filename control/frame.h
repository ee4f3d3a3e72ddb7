/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control messages on a byte stream: 4 bytes of big-endian length, then one
 * Envelope. The only place that turns bytes into messages, for both ends.
 */
#ifndef SML_CONTROL_FRAME_H
#define SML_CONTROL_FRAME_H

#include <event2/buffer.h>

#include "control/envelope.h"

/* A longer frame ends the connection. */
#define SML_CONTROL_MAX_BYTES (1u << 20)

/* Append one message to out. 0, or -ENOMEM. */
int sml_frame_write(struct evbuffer *out, const SmlControl__Envelope *message);

/*
 * Take one whole message off in. 1: *message is the caller's, to be freed by
 * sml_control__envelope__free_unpacked(message, NULL). 0: not all of it is
 * here yet. -EPROTO: garbage, too long, more than its length may take in memory, a
 * singular field twice, or fields that this version does not know (but see scan.h);
 * close the connection. *message is set to NULL unless the call returns 1.
 */
int sml_frame_read(struct evbuffer *in, SmlControl__Envelope **message);

/*
 * How long the message is whose beginning lies in `in`, as its sender says, so that
 * a receiver can refuse it before the rest has come. 0: not even that is here.
 */
size_t sml_frame_bytes(struct evbuffer *in);

/* Copy what has come of that message, n bytes at most, without its length. Returns how many. */
size_t sml_frame_peek(struct evbuffer *in, uint8_t *bytes, size_t n);

#endif
