/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A control connection without its socket: framing, TLS if there is any, and the buffers in
 * between. The switch, the ranks and the commands all use it. It has no descriptor and no event
 * loop, and never waits.
 *
 *	wire_in  --> (decrypt) --> sml_frame_read()
 *	wire_out <-- (encrypt) <-- sml_stream_write()
 *
 * The owner moves bytes between its socket and the two wire buffers.
 */
#ifndef SML_CONTROL_STREAM_H
#define SML_CONTROL_STREAM_H

#include "control/envelope.h"
#include "control/tls.h"

/*
 * ---- frames: 4 bytes of big-endian length, then one Envelope ----
 *
 * The only place that turns bytes into messages, for both ends.
 */

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

/* ---- streams ---- */

struct sml_stream {
	struct sml_tls_session *tls; /* NULL if messages are plain */
	struct evbuffer *wire_in, *wire_out;
	/* Messages: sml_frame_head() and _read() take them. Without TLS the wire's buffers. */
	struct evbuffer *in, *out;
};

/*
 * Begin a stream. tls is NULL for plain messages; peer is as for sml_tls_begin(). Call
 * sml_stream_step() at once, because a TLS client sends first. Returns 0 or -ENOMEM; close the
 * stream in either case.
 */
int sml_stream_open(struct sml_stream *stream, struct sml_tls *tls, const char *peer);
void sml_stream_close(struct sml_stream *stream);

/*
 * Bytes have come in wire_in. Returns 0, or -EPROTO: TLS is over, and sml_stream_tls_reason() says
 * why. Send the contents of wire_out even then, because they tell the peer the reason.
 */
int sml_stream_step(struct sml_stream *stream);

/*
 * Queue a message. With TLS, it waits for the handshake. Returns 0, -ENOMEM, -EMSGSIZE (the message
 * is too long), or -EPROTO as above.
 */
int sml_stream_write(struct sml_stream *stream, const SmlControl__Envelope *message);

/* Tell the peer that no more data comes. Messages that waited for a handshake are dropped. */
void sml_stream_finish(struct sml_stream *stream);

/* Drop received bytes that have not been read. */
void sml_stream_ignore(struct sml_stream *stream);

/* The peer has proved its identity, or need not. */
bool sml_stream_is_known(const struct sml_stream *stream);

/* Why TLS is over, as sml_tls_reason(); "" if it is not, or there is none. */
const char *sml_stream_tls_reason(const struct sml_stream *stream);

/* Bytes that were written but not sent yet, and all bytes in the buffers. */
size_t sml_stream_unsent_bytes(const struct sml_stream *stream);
size_t sml_stream_held_bytes(const struct sml_stream *stream);

#endif
