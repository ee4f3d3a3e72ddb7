/* SPDX-License-Identifier: BSD-3-Clause */
/* The scan of a message's bytes: see scan.h. */
#include "control/scan.h"

#include <errno.h>
#include <string.h>

#include "control.pb-c.h"

/*
 * The schema is not recursive, and its messages are nested at most this deep.
 */
#define MAX_DEPTH 8
/* Fields of a message, and oneofs of one: bits of a mask. */
#define MAX_FIELDS 64

struct bytes {
	const uint8_t *at, *end;
};

struct field {
	uint32_t number;
	ProtobufCWireType wire;
	struct bytes value; /* of a submessage, a text or a packed list: what is in it */
};

static int scan(const ProtobufCMessageDescriptor *descriptor, struct bytes bytes, unsigned depth);

/* ---- the wire format ---- */

static bool take_varint(struct bytes *bytes, uint64_t *value)
{
	*value = 0;
	for (unsigned shift = 0; shift < 64 && bytes->at < bytes->end; shift += 7) {
		uint8_t byte = *bytes->at++;

		*value |= (uint64_t)(byte & 127) << shift;
		if (byte < 128)
			return true;
	}
	return false;
}

static bool take_bytes(struct bytes *bytes, uint64_t n, struct bytes *taken)
{
	if (n > (size_t)(bytes->end - bytes->at))
		return false;
	*taken = (struct bytes){bytes->at, bytes->at + n};
	bytes->at += n;
	return true;
}

static bool take_field(struct bytes *bytes, struct field *field)
{
	const uint8_t *begin;
	uint64_t tag, n;

	if (!take_varint(bytes, &tag) || tag >> 3 == 0 || tag >> 32 != 0)
		return false;
	field->number = (uint32_t)(tag >> 3);
	field->wire = (ProtobufCWireType)(tag & 7);
	begin = bytes->at;
	switch (field->wire) {
	case PROTOBUF_C_WIRE_TYPE_VARINT:
		field->value.at = begin;
		if (!take_varint(bytes, &n))
			return false;
		field->value.end = bytes->at;
		return true;
	case PROTOBUF_C_WIRE_TYPE_64BIT:
		return take_bytes(bytes, 8, &field->value);
	case PROTOBUF_C_WIRE_TYPE_32BIT:
		return take_bytes(bytes, 4, &field->value);
	case PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED:
		return take_varint(bytes, &n) && take_bytes(bytes, n, &field->value);
	default:
		return false; /* groups, and unassigned types */
	}
}

/* ---- the schema ---- */

/* The first field that shares its oneof; its bit stands for all of them. */
static unsigned bit_of(const ProtobufCMessageDescriptor *descriptor,
		       const ProtobufCFieldDescriptor *field)
{
	unsigned i = 0;

	if (!(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF))
		return (unsigned)(field - descriptor->fields);
	while (descriptor->fields[i].quantifier_offset != field->quantifier_offset ||
	       !(descriptor->fields[i].flags & PROTOBUF_C_FIELD_FLAG_ONEOF))
		i++;
	return i;
}

static bool may_have_unknown(const ProtobufCMessageDescriptor *descriptor)
{
	return descriptor == &sml_control__join__descriptor ||
	       descriptor == &sml_control__abort__descriptor ||
	       descriptor == &sml_control__status__descriptor ||
	       descriptor == &sml_control__hello__descriptor;
}

static int scan_field(const ProtobufCFieldDescriptor *field, struct bytes value, unsigned depth)
{
	/* To C, the text would end there: a name would be another one. */
	if (field->type == PROTOBUF_C_TYPE_STRING && value.at < value.end &&
	    memchr(value.at, 0, (size_t)(value.end - value.at)) != NULL)
		return -EPROTO;
	if (field->type != PROTOBUF_C_TYPE_MESSAGE)
		return 0; /* protobuf-c checks wire types and packed lists, in linear time */
	return scan(field->descriptor, value, depth + 1);
}

static int scan(const ProtobufCMessageDescriptor *descriptor, struct bytes bytes, unsigned depth)
{
	const ProtobufCFieldDescriptor *known;
	unsigned n_unknown = 0, n_inner = 0;
	uint64_t seen = 0;
	struct field field;

	if (depth > MAX_DEPTH || descriptor->n_fields > MAX_FIELDS)
		return -EPROTO;
	while (bytes.at < bytes.end) {
		uint64_t bit;

		if (!take_field(&bytes, &field))
			return -EPROTO;
		known = protobuf_c_message_descriptor_get_field(descriptor, field.number);
		if (known == NULL) {
			if (!may_have_unknown(descriptor) || ++n_unknown > SML_SCAN_UNKNOWN)
				return -EPROTO;
			continue;
		}
		bit = known->label == PROTOBUF_C_LABEL_REPEATED
			      ? 0
			      : (uint64_t)1 << bit_of(descriptor, known);
		if (seen & bit)
			return -EPROTO;
		seen |= bit;
		if (known->type == PROTOBUF_C_TYPE_MESSAGE &&
		    field.wire != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED)
			return -EPROTO;
		if (known->type == PROTOBUF_C_TYPE_MESSAGE && ++n_inner > SML_SCAN_INNER)
			return -EPROTO;
		if (scan_field(known, field.value, depth) < 0)
			return -EPROTO;
	}
	return 0;
}

int sml_scan_message(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t n)
{
	return scan(descriptor, (struct bytes){bytes, bytes + n}, 0);
}

/* ---- the beginning of a message ---- */

int sml_scan_body(const uint8_t *bytes, size_t n)
{
	struct bytes left = {bytes, bytes + n};
	uint64_t tag;

	/* The field numbers of all messages fit in two bytes. */
	if (!take_varint(&left, &tag))
		return n < 2 ? 0 : -EPROTO;
	if ((tag & 7) != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED || tag >> 3 > INT32_MAX ||
	    protobuf_c_message_descriptor_get_field(&sml_control__envelope__descriptor,
						    (unsigned)(tag >> 3)) == NULL)
		return -EPROTO;
	return (int)(tag >> 3);
}

bool sml_scan_begins(const uint8_t *bytes, size_t n, uint32_t field)
{
	struct bytes left = {bytes, bytes + n}, before;
	struct field found;
	uint64_t tag, length;

	if (!take_varint(&left, &tag) || !take_varint(&left, &length))
		return false;
	for (before = left; take_field(&left, &found); before = left)
		if (found.number == field)
			return true;
	return take_varint(&before, &tag) && tag >> 3 == field;
}
