/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes of a control connection, correct or not, in pieces of any size. */
#include "control/stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/properties.h"

#define MAX_BYTES    2048
#define MAX_MESSAGES 64

struct bytes {
	uint8_t bytes[MAX_BYTES];
	size_t n;
};

/* What a reader found in a stream. */
struct outcome {
	uint32_t n_messages;
	uint64_t hash[MAX_MESSAGES]; /* each message, packed again */
	int end;		     /* 0: more messages could come */
	size_t left;
};

static void *must(void *memory)
{
	if (memory == NULL)
		abort();
	return memory;
}

/* ---- drawing a stream ---- */

static void add(struct bytes *stream, const void *bytes, size_t n)
{
	if (n > MAX_BYTES - stream->n)
		n = MAX_BYTES - stream->n;
	memcpy(stream->bytes + stream->n, bytes, n);
	stream->n += n;
}

static void add_message(struct bytes *stream, struct gen *gen)
{
	SmlControl__Ping ping = SML_CONTROL__PING__INIT;
	SmlControl__Join join = SML_CONTROL__JOIN__INIT;
	SmlControl__Waiting waiting = SML_CONTROL__WAITING__INIT;
	SmlControl__Envelope envelope = SML_CONTROL__ENVELOPE__INIT;
	struct evbuffer *out = must(evbuffer_new());
	uint32_t missing[4] = {gen_below(gen, 64), 1, 2, 3};
	char job[] = "a job";

	switch (gen_below(gen, 3)) {
	case 0:
		ping.time_ns = gen_below(gen, UINT32_MAX);
		envelope.body_case = SML_CONTROL__ENVELOPE__BODY_PING;
		envelope.ping = &ping;
		break;
	case 1:
		join.job = job;
		join.rank = gen_below(gen, UINT32_MAX);
		envelope.body_case = SML_CONTROL__ENVELOPE__BODY_JOIN;
		envelope.join = &join;
		break;
	default:
		waiting.missing = missing;
		waiting.n_missing = gen_below(gen, 5);
		envelope.body_case = SML_CONTROL__ENVELOPE__BODY_WAITING;
		envelope.waiting = &waiting;
		break;
	}
	if (sml_frame_write(out, &envelope) < 0)
		abort();
	add(stream, evbuffer_pullup(out, -1), evbuffer_get_length(out));
	evbuffer_free(out);
}

static void add_garbage(struct bytes *stream, struct gen *gen, bool with_length)
{
	uint32_t n = gen_below(gen, 64), length_be = htonl(n);
	uint8_t byte;

	if (with_length)
		add(stream, &length_be, sizeof(length_be));
	for (uint32_t i = 0; i < n; i++) {
		byte = (uint8_t)gen_below(gen, 256);
		add(stream, &byte, 1);
	}
}

static void draw_stream(struct bytes *stream, struct gen *gen)
{
	stream->n = 0;
	for (uint32_t n = gen_range(gen, 1, 6); n > 0; n--) {
		uint32_t kind = gen_below(gen, 4);

		if (kind < 2)
			add_message(stream, gen);
		else
			add_garbage(stream, gen, kind == 2);
	}
}

/* ---- reading it ---- */

static void note(struct outcome *outcome, const SmlControl__Envelope *message)
{
	size_t n = sml_control__envelope__get_packed_size(message);
	uint8_t *packed = must(malloc(n + 1));
	uint64_t hash = 0xcbf29ce484222325ull;

	sml_control__envelope__pack(message, packed);
	for (size_t i = 0; i < n; i++)
		hash = (hash ^ packed[i]) * 0x100000001b3ull;
	free(packed);
	if (outcome->n_messages < MAX_MESSAGES)
		outcome->hash[outcome->n_messages] = hash;
	outcome->n_messages++;
}

static void read_all(struct evbuffer *in, struct outcome *outcome)
{
	SmlControl__Envelope *message;

	while (outcome->end == 0 && (outcome->end = sml_frame_read(in, &message)) == 1) {
		note(outcome, message);
		sml_control__envelope__free_unpacked(message, NULL);
		outcome->end = 0;
		if (evbuffer_get_length(in) == 0)
			return;
	}
}

/* gen draws the sizes of the pieces. NULL: all bytes at once. */
static void read_stream(const struct bytes *stream, struct gen *gen, struct outcome *outcome)
{
	struct evbuffer *in = must(evbuffer_new());
	size_t at = 0, piece;

	*outcome = (struct outcome){0};
	while (at < stream->n && outcome->end == 0) {
		piece = gen ? gen_range(gen, 1, 40) : stream->n;
		if (piece > stream->n - at)
			piece = stream->n - at;
		if (evbuffer_add(in, stream->bytes + at, piece) < 0)
			abort();
		at += piece;
		read_all(in, outcome);
	}
	outcome->left = outcome->end == 0 ? evbuffer_get_length(in) : 0;
	evbuffer_free(in);
}

const char *property_frame(struct gen *gen, bool tiny)
{
	struct outcome whole, pieces;
	struct bytes stream;

	(void)tiny;
	draw_stream(&stream, gen);
	read_stream(&stream, NULL, &whole);
	read_stream(&stream, gen, &pieces);
	PROPERTY_CHECK(whole.end == 0 || whole.end == -EPROTO, "an error that is not documented");
	PROPERTY_CHECK(whole.n_messages == pieces.n_messages && whole.end == pieces.end &&
			       whole.left == pieces.left &&
			       memcmp(whole.hash, pieces.hash, sizeof(whole.hash)) == 0,
		       "in pieces, a stream means something else");
	return NULL;
}
