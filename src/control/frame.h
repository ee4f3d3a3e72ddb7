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

/* Append one message to out. Returns 0 or -ENOMEM. */
int sml_frame_write(struct evbuffer *out, const SmlControl__Envelope *message);

/*
 * Take one whole message off in. Returns
 * - 1: the caller owns *message and frees it with
 *   sml_control__envelope__free_unpacked(message, NULL);
 * - 0: the message is not complete yet;
 * - -EPROTO: close the connection. The message is garbage, is too long, would use more memory than
 *   its length permits, has a singular field twice, or has fields that this version does not know
 *   (but see scan.h).
 * *message is NULL unless the call returns 1.
 */
int sml_frame_read(struct evbuffer *in, SmlControl__Envelope **message);

/* The same for a message whose bytes are all here: 1 or -EPROTO. */
int sml_frame_unpack(const uint8_t *bytes, size_t n, SmlControl__Envelope **message);

/* This many bytes of a message, or all of a shorter one, are enough for every check. */
#define SML_HEAD_BYTES 4096

/* The first bytes of a message, by which a receiver can refuse it before the rest has come. */
struct sml_head {
	const uint8_t *bytes; /* that have come, SML_HEAD_BYTES at most */
	size_t n, whole;      /* whole: how long its sender says that it is */
};

/*
 * Of the message that begins in `in`, copied to bytes. whole is 0 if its length itself has not come
 * yet.
 */
struct sml_head sml_frame_head(struct evbuffer *in, uint8_t bytes[SML_HEAD_BYTES]);

#endif
