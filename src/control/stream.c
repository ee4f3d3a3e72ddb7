/* SPDX-License-Identifier: BSD-3-Clause */
/* A control connection without its socket: see stream.h. */
#include "control/stream.h"

#include <errno.h>

int sml_stream_open(struct sml_stream *stream, struct sml_tls *tls, const char *peer)
{
	*stream = (struct sml_stream){.wire_in = evbuffer_new(), .wire_out = evbuffer_new()};
	if (stream->wire_in == NULL || stream->wire_out == NULL)
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
	free_buffer(stream->wire_in);
	free_buffer(stream->wire_out);
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

struct sml_head sml_stream_head(const struct sml_stream *stream, uint8_t bytes[SML_HEAD_BYTES])
{
	return sml_frame_head(stream->in, bytes);
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

const char *sml_stream_tls_reason(const struct sml_stream *stream)
{
	return stream->tls != NULL ? sml_tls_reason(stream->tls) : "";
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
