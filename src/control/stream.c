/* SPDX-License-Identifier: BSD-3-Clause */
/* A control connection without its socket: see stream.h. */
#include "control/stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/scan.h"

/* ---- frames ---- */

#define LENGTH_BYTES 4
/*
 * The memory that a message of n bytes may use. A field of two bytes can become a submessage of 48
 * bytes, its pointer, and 40 bytes of protobuf-c's bookkeeping; honest messages take less than ten
 * times their length.
 */
#define MEMORY_LEAST  (64u << 10)
#define MEMORY_FACTOR 32
#define MEMORY_MOST   (8u << 20)

int sml_frame_write(struct evbuffer *out, const SmlControl__Envelope *message)
{
	size_t bytes = sml_control__envelope__get_packed_size(message);
	uint32_t length_be = htonl((uint32_t)bytes);
	struct evbuffer_iovec space;

	if (bytes > SML_CONTROL_MAX_BYTES)
		return -EMSGSIZE;
	if (evbuffer_reserve_space(out, (ev_ssize_t)(LENGTH_BYTES + bytes), &space, 1) < 1)
		return -ENOMEM;
	memcpy(space.iov_base, &length_be, LENGTH_BYTES);
	sml_control__envelope__pack(message, (uint8_t *)space.iov_base + LENGTH_BYTES);
	space.iov_len = LENGTH_BYTES + bytes;
	return evbuffer_commit_space(out, &space, 1) < 0 ? -ENOMEM : 0;
}

struct sml_head sml_frame_head(struct evbuffer *in, uint8_t bytes[SML_HEAD_BYTES])
{
	size_t here = evbuffer_get_length(in);
	struct sml_head head = {.bytes = bytes};
	struct evbuffer_ptr begin;
	uint32_t length_be;

	if (evbuffer_copyout(in, &length_be, LENGTH_BYTES) < LENGTH_BYTES ||
	    evbuffer_ptr_set(in, &begin, LENGTH_BYTES, EVBUFFER_PTR_SET) < 0)
		return head;
	head.whole = ntohl(length_be);
	head.n = head.whole < SML_HEAD_BYTES ? head.whole : SML_HEAD_BYTES;
	if (head.n > here - LENGTH_BYTES)
		head.n = here - LENGTH_BYTES;
	if (evbuffer_copyout_from(in, &begin, bytes, head.n) != (ev_ssize_t)head.n)
		head.n = 0;
	return head;
}

struct budget {
	size_t left;
};

static void *take_memory(void *data, size_t size)
{
	struct budget *budget = data;

	if (size > budget->left)
		return NULL;
	budget->left -= size;
	return malloc(size);
}

static void give_back(void *data, void *pointer)
{
	(void)data;
	free(pointer);
}

static size_t budget_for(size_t n)
{
	size_t bytes = MEMORY_LEAST + MEMORY_FACTOR * n;

	return bytes < MEMORY_MOST ? bytes : MEMORY_MOST;
}

int sml_frame_unpack(const uint8_t *bytes, size_t n, SmlControl__Envelope **message)
{
	struct budget budget = {.left = budget_for(n)};
	ProtobufCAllocator allocator = {take_memory, give_back, &budget};

	*message = NULL;
	if (sml_scan_message(&sml_control__envelope__descriptor, bytes, n) < 0)
		return -EPROTO;
	*message = sml_control__envelope__unpack(&allocator, n, bytes);
	/* protobuf-c does not report a lack of memory separately: the connection ends then, too. */
	if (*message == NULL)
		return -EPROTO;
	if ((*message)->body_case != SML_CONTROL__ENVELOPE__BODY__NOT_SET)
		return 1;
	sml_control__envelope__free_unpacked(*message, NULL);
	*message = NULL;
	return -EPROTO;
}

int sml_frame_read(struct evbuffer *in, SmlControl__Envelope **message)
{
	uint32_t length_be;
	size_t bytes;
	const uint8_t *whole;
	int rc;

	*message = NULL;
	if (evbuffer_copyout(in, &length_be, LENGTH_BYTES) < LENGTH_BYTES)
		return 0;
	bytes = ntohl(length_be);
	if (bytes > SML_CONTROL_MAX_BYTES)
		return -EPROTO;
	if (evbuffer_get_length(in) < LENGTH_BYTES + bytes)
		return 0;
	whole = evbuffer_pullup(in, (ev_ssize_t)(LENGTH_BYTES + bytes));
	if (whole == NULL)
		return -ENOMEM;
	rc = sml_frame_unpack(whole + LENGTH_BYTES, bytes, message);
	evbuffer_drain(in, LENGTH_BYTES + bytes);
	return rc;
}

/* ---- streams ---- */

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
