/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A control connection without its socket: framing, TLS where there is one, and
 * the buffers between. The switch, the ranks and the commands all talk by it; it
 * knows no descriptor and no event loop, and never waits.
 *
 *	wire_in  --> (decrypt) --> sml_stream_read()
 *	wire_out <-- (encrypt) <-- sml_stream_write()
 *
 * The owner moves bytes between its socket and the two wire buffers.
 */
#ifndef SML_CONTROL_STREAM_H
#define SML_CONTROL_STREAM_H

#include "control/frame.h"
#include "control/tls.h"

struct sml_stream {
	struct sml_tls_session *tls; /* NULL: messages are plain */
	struct evbuffer *wire_in, *wire_out;
	/* Messages. Without TLS the wire's buffers. */
	struct evbuffer *in, *out;
	bool owns_wire;
};

/*
 * Begin. wire_in and wire_out are the owner's, or both NULL: then the stream has its own.
 * tls: NULL for plain messages; peer as for sml_tls_begin(). Call sml_stream_step() at once: a
 * client's TLS has something to say. 0 or -ENOMEM; close the stream in either case.
 */
int sml_stream_open(struct sml_stream *stream, struct sml_tls *tls, const char *peer,
		    struct evbuffer *wire_in, struct evbuffer *wire_out);
void sml_stream_close(struct sml_stream *stream);

/*
 * Bytes have come in wire_in. 0; or -EPROTO: TLS is over, and sml_tls_reason() says why. Then, too,
 * send what wire_out has, because it tells the peer why.
 */
int sml_stream_step(struct sml_stream *stream);

/*
 * Queue a message; with TLS, it waits for the handshake. 0, -ENOMEM, -EMSGSIZE (too long), or
 * -EPROTO as above.
 */
int sml_stream_write(struct sml_stream *stream, const SmlControl__Envelope *message);

/* As sml_frame_read(). */
int sml_stream_read(struct sml_stream *stream, SmlControl__Envelope **message);

/* How long the next message is, as its sender says; 0: that has not come yet. */
size_t sml_stream_next_bytes(const struct sml_stream *stream);

/* Copy what has come of the next message, n bytes at most, without its length. Returns how many. */
size_t sml_stream_peek(const struct sml_stream *stream, uint8_t *bytes, size_t n);

/* Tell the peer that no more comes. What waited for a handshake is dropped. */
void sml_stream_finish(struct sml_stream *stream);

/* Drop what has come and has not been read. */
void sml_stream_ignore(struct sml_stream *stream);

/* The peer has proved who it is, or need not. */
bool sml_stream_is_known(const struct sml_stream *stream);

/* What was written and has not left; and all bytes that the buffers hold. */
size_t sml_stream_unsent_bytes(const struct sml_stream *stream);
size_t sml_stream_held_bytes(const struct sml_stream *stream);

#endif
