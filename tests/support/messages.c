/* SPDX-License-Identifier: BSD-3-Clause */
#include "support/messages.h"

#include <string.h>

#include "control/envelope.h"
#include "core/base.h"
#include "switchml.h"

#define MAX_DEPTH 3

SmlControl__Join honest_join(const char *job, uint32_t rank, uint32_t world_size)
{
	SmlControl__Join join = SML_CONTROL__JOIN__INIT;

	join.protocol = SML_CONTROL_PROTOCOL;
	join.library_version = (char *)(uintptr_t)SML_VERSION_STRING;
	join.job = (char *)(uintptr_t)job;
	join.rank = rank;
	join.world_size = world_size;
	join.host = (char *)(uintptr_t) "testhost";
	join.pid = 1000 + rank;
	join.lanes = 352;
	join.shards = 1;
	join.stripes = 1;
	join.heartbeat_ms = 60000;
	return join;
}

const SmlControl__Envelope *message_without_fields(SmlControl__Envelope__BodyCase body,
						   uint32_t job)
{
	static _Thread_local SmlControl__Join room; /* no message is larger */
	static _Thread_local SmlControl__Envelope envelope;
	const ProtobufCMessageDescriptor *descriptor =
		protobuf_c_message_descriptor_get_field(&sml_control__envelope__descriptor,
							(unsigned)body)
			->descriptor;

	sml_assert(descriptor->sizeof_message <= sizeof(room));
	protobuf_c_message_init(descriptor, &room);
	envelope = *sml_envelope_literal(job, body, join, &room); /* all bodies are pointers */
	return &envelope;
}

const SmlControl__Envelope *message_ready(uint32_t lanes, bool shares_memory, uint32_t job)
{
	static _Thread_local SmlControl__Ready ready;
	static _Thread_local SmlControl__Envelope envelope;

	sml_control__ready__init(&ready);
	ready.lanes = lanes;
	ready.shares_memory = shares_memory;
	envelope = *sml_envelope_of(job, READY, ready, &ready);
	return &envelope;
}

const SmlControl__Envelope *message_abort(int error, const char *text, bool planned)
{
	static _Thread_local SmlControl__Abort message;
	static _Thread_local SmlControl__Envelope envelope;

	sml_control__abort__init(&message);
	message.error = error;
	message.text = (char *)(uintptr_t)text;
	message.planned = planned;
	envelope = *sml_envelope(ABORT, abort, &message);
	return &envelope;
}

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2 };

static void put(struct draft *draft, const void *bytes, size_t n)
{
	if (n > sizeof(draft->bytes) - draft->n)
		return;
	memcpy(draft->bytes + draft->n, bytes, n);
	draft->n += n;
}

static void put_varint(struct draft *draft, uint64_t value)
{
	uint8_t byte;

	do {
		byte = (uint8_t)((value & 127) | (value > 127 ? 128 : 0));
		put(draft, &byte, 1);
		value >>= 7;
	} while (value);
}

static void put_tag(struct draft *draft, uint32_t id, unsigned wire)
{
	put_varint(draft, (uint64_t)id << 3 | wire);
}

static void put_bytes(struct draft *draft, uint32_t id, const void *bytes, size_t n)
{
	/* All of it or nothing: half a field would be a different message. */
	if (n + 12 > sizeof(draft->bytes) - draft->n)
		return;
	put_tag(draft, id, WIRE_BYTES);
	put_varint(draft, n);
	put(draft, bytes, n);
}

static size_t varint_at(const struct draft *draft, size_t at, uint64_t *value)
{
	unsigned shift = 0;

	*value = 0;
	do {
		*value |= (uint64_t)(draft->bytes[at] & 127) << shift;
		shift += 7;
	} while (draft->bytes[at++] & 128);
	return at;
}

/* A singular field that occurs twice would be refused, so the old one is removed. */
static void remove_field(struct draft *draft, uint32_t id)
{
	uint64_t tag, n;
	size_t at = 0, end;

	while (at < draft->n) {
		end = varint_at(draft, at, &tag);
		if ((tag & 7) == WIRE_VARINT)
			end = varint_at(draft, end, &n);
		else if ((tag & 7) == WIRE_FIXED64)
			end += 8;
		else
			end = varint_at(draft, end, &n) + n;
		if (tag >> 3 == id) {
			memmove(draft->bytes + at, draft->bytes + end, draft->n - end);
			draft->n -= end - at;
		} else {
			at = end;
		}
	}
}

static uint64_t draw_number(struct gen *gen)
{
	static const uint64_t edges[] = {0,    1,	   2,	       64,	  352,
					 4096, 65535,	   65536,      1u << 31,  UINT32_MAX,
					 5000, UINT64_MAX, 1ull << 63, 100000000, 16};

	if (gen_below(gen, 2))
		return gen_below(gen, 9);
	return edges[gen_below(gen, sizeof(edges) / sizeof(edges[0]))];
}

static void draw_text(struct draft *draft, uint32_t id, struct gen *gen)
{
	static const char *const texts[] = {"",	    "a",	   "b",	   SML_VERSION_STRING,
					    "host", "\x1b[31mred", "a\nb", "%s%n",
					    "\"\\", "\xc3\xa4",	   "udp"};
	uint32_t which = gen_below(gen, sizeof(texts) / sizeof(texts[0]) + 2);
	char text[600];

	if (which < sizeof(texts) / sizeof(texts[0])) {
		put_bytes(draft, id, texts[which], strlen(texts[which]));
		return;
	}
	memset(text, 'x', sizeof(text));
	put_bytes(draft, id, text, gen_below(gen, sizeof(text)));
}

static void draw_bytes(struct draft *draft, uint32_t id, struct gen *gen)
{
	uint8_t bytes[256];
	uint32_t n = gen_below(gen, sizeof(bytes) + 1);

	for (uint32_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)gen_below(gen, 256);
	put_bytes(draft, id, bytes, n);
}

static void draw_field(struct draft *draft, struct gen *gen, const ProtobufCFieldDescriptor *field,
		       unsigned depth)
{
	struct draft inner;
	uint64_t number;

	switch (field->type) {
	case PROTOBUF_C_TYPE_STRING:
		draw_text(draft, field->id, gen);
		break;
	case PROTOBUF_C_TYPE_BYTES:
		draw_bytes(draft, field->id, gen);
		break;
	case PROTOBUF_C_TYPE_MESSAGE:
		inner.n = 0;
		if (depth < MAX_DEPTH)
			draft_fields(&inner, gen, field->descriptor, depth + 1);
		put_bytes(draft, field->id, inner.bytes, inner.n);
		break;
	case PROTOBUF_C_TYPE_FIXED64:
		if (draft->n + 16 > sizeof(draft->bytes))
			break;
		number = draw_number(gen);
		put_tag(draft, field->id, WIRE_FIXED64);
		put(draft, &number, sizeof(number));
		break;
	default:
		if (draft->n + 16 > sizeof(draft->bytes))
			break;
		put_tag(draft, field->id, WIRE_VARINT);
		put_varint(draft, draw_number(gen));
		break;
	}
}

void draft_fields(struct draft *draft, struct gen *gen,
		  const ProtobufCMessageDescriptor *descriptor, unsigned depth)
{
	for (unsigned i = 0; i < descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
		uint32_t n = field->label == PROTOBUF_C_LABEL_REPEATED ? gen_below(gen, 5)
								       : gen_below(gen, 2);

		if (n > 0)
			remove_field(draft, field->id);
		while (n-- > 0)
			draw_field(draft, gen, field, depth);
	}
}

bool draft_from(struct draft *draft, const ProtobufCMessage *honest)
{
	draft->n = protobuf_c_message_get_packed_size(honest);
	if (draft->n > sizeof(draft->bytes) / 2) {
		draft->n = 0;
		return false;
	}
	protobuf_c_message_pack(honest, draft->bytes);
	return true;
}

/* Of the envelope. */
#define JOB_FIELD 60

void draft_frame(const struct draft *draft, SmlControl__Envelope__BodyCase body, uint32_t job,
		 struct draft *frame)
{
	uint8_t length_be[4];
	size_t n;

	frame->n = sizeof(length_be);
	put_bytes(frame, (uint32_t)body, draft->bytes, draft->n);
	if (job != 0) {
		put_tag(frame, JOB_FIELD, WIRE_VARINT);
		put_varint(frame, job);
	}
	n = frame->n - sizeof(length_be);
	for (unsigned i = 0; i < 4; i++)
		length_be[i] = (uint8_t)(n >> (24 - 8 * i));
	memcpy(frame->bytes, length_be, sizeof(length_be));
}

void draft_any(struct draft *frame, struct gen *gen)
{
	const ProtobufCMessageDescriptor *envelope = &sml_control__envelope__descriptor;
	/* All fields but the last are bodies. */
	const ProtobufCFieldDescriptor *body =
		&envelope->fields[gen_below(gen, envelope->n_fields - 1)];
	struct draft draft = {.n = 0};

	draft_fields(&draft, gen, body->descriptor, 0);
	/* By what has been drawn: with one byte more, each corpus would mean something else. */
	draft_frame(&draft, (SmlControl__Envelope__BodyCase)body->id,
		    draft.n % 4 == 3 ? draft.bytes[draft.n - 1] : 0, frame);
}
