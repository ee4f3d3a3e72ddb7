/* SPDX-License-Identifier: BSD-3-Clause */
/* A control connection without its socket: see stream.h. */
#include "control/stream.h"

#include <errno.h>

static int open_wire(struct sml_stream *stream, struct evbuffer *wire_in, struct evbuffer *wire_out)
{
	stream->owns_wire = wire_in == NULL;
	stream->wire_in = wire_in != NULL ? wire_in : evbuffer_new();
	stream->wire_out = wire_out != NULL ? wire_out : evbuffer_new();
	return stream->wire_in != NULL && stream->wire_out != NULL ? 0 : -ENOMEM;
}

int sml_stream_open(struct sml_stream *stream, struct sml_tls *tls, const char *peer,
		    struct evbuffer *wire_in, struct evbuffer *wire_out)
{
	*stream = (struct sml_stream){.tls = NULL};
	if (open_wire(stream, wire_in, wire_out) < 0)
		return -ENOMEM;
	if (tls == NULL) {
		stream->in = stream->wire_in;
		stream->out = stream->wire_out;
		return 0;
	}
	stream->in = evbuffer_new();
	stream->out = evbuffer_new();
	stream->tls = sml_tls_begin(tls, peer);
	return stream->in != NULL && stream->out != NULL && stream->tls != NULL ? 0 : -ENOMEM;
}

static void free_buffer(struct evbuffer *buffer)
{
	if (buffer != NULL)
		evbuffer_free(buffer);
}

void sml_stream_close(struct sml_stream *stream)
{
	sml_tls_end(stream->tls);
	if (stream->in != stream->wire_in)
		free_buffer(stream->in);
	if (stream->out != stream->wire_out)
		free_buffer(stream->out);
	if (stream->owns_wire) {
		free_buffer(stream->wire_in);
		free_buffer(stream->wire_out);
	}
	*stream = (struct sml_stream){.tls = NULL};
}

static int move(struct sml_stream *stream, struct evbuffer *wire_in)
{
	if (stream->tls == NULL)
		return 0;
	return sml_tls_step(stream->tls, wire_in, stream->in, stream->out, stream->wire_out);
}

int sml_stream_step(struct sml_stream *stream)
{
	return move(stream, stream->wire_in);
}

int sml_stream_write(struct sml_stream *stream, const SmlControl__Envelope *message)
{
	int rc = sml_frame_write(stream->out, message);

	/* Received bytes are not read: no message is expected now. */
	return rc < 0 ? rc : move(stream, NULL);
}

int sml_stream_read(struct sml_stream *stream, SmlControl__Envelope **message)
{
	return sml_frame_read(stream->in, message);
}

size_t sml_stream_next_bytes(const struct sml_stream *stream)
{
	return sml_frame_bytes(stream->in);
}

size_t sml_stream_peek(const struct sml_stream *stream, uint8_t *bytes, size_t n)
{
	return sml_frame_peek(stream->in, bytes, n);
}

void sml_stream_finish(struct sml_stream *stream)
{
	if (stream->tls == NULL)
		return;
	sml_tls_finish(stream->tls, stream->wire_out);
	evbuffer_drain(stream->out, evbuffer_get_length(stream->out));
}

void sml_stream_ignore(struct sml_stream *stream)
{
	evbuffer_drain(stream->wire_in, evbuffer_get_length(stream->wire_in));
}

bool sml_stream_is_known(const struct sml_stream *stream)
{
	return stream->tls == NULL || sml_tls_is_up(stream->tls);
}

size_t sml_stream_unsent_bytes(const struct sml_stream *stream)
{
	size_t bytes = evbuffer_get_length(stream->wire_out);

	return stream->out != stream->wire_out ? bytes + evbuffer_get_length(stream->out) : bytes;
}

size_t sml_stream_held_bytes(const struct sml_stream *stream)
{
	size_t bytes = evbuffer_get_length(stream->wire_in);

	if (stream->in != stream->wire_in)
		bytes += evbuffer_get_length(stream->in);
	return bytes + sml_stream_unsent_bytes(stream);
}
