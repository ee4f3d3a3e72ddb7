/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts from peers: see text.h. */
#include "control/text.h"

#include <stdint.h>
#include <string.h>

/*
 * U+061C, U+200E, U+200F, U+2028 to U+202E, and U+2066 to U+2069: they end a line, or reorder its
 * other characters, so that a name changes the text around it.
 */
static bool breaks_lines(const uint8_t *c)
{
	if (c[0] == 0xd8)
		return c[1] == 0x9c;
	if (c[0] != 0xe2)
		return false;
	return (c[1] == 0x80 && (c[2] == 0x8e || c[2] == 0x8f || (c[2] >= 0xa8 && c[2] <= 0xae))) ||
	       (c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9);
}

/* Bytes of the printable character at the beginning, or 0 if there is none. */
static size_t character_bytes(const char *text)
{
	const uint8_t *c = (const uint8_t *)text;
	size_t n = c[0] < 0x80 ? 1 : c[0] < 0xc2 ? 0 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;

	if (n == 0 || c[0] > 0xf4 || c[0] < 0x20 || c[0] == 0x7f)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((c[i] & 0xc0) != 0x80)
			return 0; /* the terminating zero, too */
	/*
	 * C1 controls, overlong forms, surrogates, and values beyond Unicode.
	 */
	if ((c[0] == 0xc2 && c[1] < 0xa0) || (c[0] == 0xe0 && c[1] < 0xa0) ||
	    (c[0] == 0xed && c[1] > 0x9f) || (c[0] == 0xf0 && c[1] < 0x90) ||
	    (c[0] == 0xf4 && c[1] > 0x8f))
		return 0;
	return breaks_lines(c) ? 0 : n;
}

void sml_text_copy(char *to, size_t size, const char *from)
{
	size_t used = 0;

	while (*from != '\0') {
		size_t n = character_bytes(from);

		if (used + (n ? n : 1) >= size)
			break;
		if (n == 0)
			to[used++] = '?';
		else
			memmove(to + used, from, n);
		used += n;
		from += n ? n : 1;
	}
	to[used] = '\0';
}

bool sml_text_is_clean(const char *text)
{
	for (size_t n; *text != '\0'; text += n)
		if ((n = character_bytes(text)) == 0)
			return false;
	return true;
}

void sml_text_write_label(FILE *out, const char *name, const char *value)
{
	fprintf(out, "%s=\"", name);
	for (; *value != '\0'; value++) {
		if (*value == '\\' || *value == '"' || *value == '\n')
			fputc('\\', out);
		fputc(*value == '\n' ? 'n' : *value, out);
	}
	fputc('"', out);
}

/* Default values are read-only, and clean. */
static void clean(char *text)
{
	if (text != NULL && !sml_text_is_clean(text))
		sml_text_copy(text, strlen(text) + 1, text);
}

static void clean_value(const ProtobufCFieldDescriptor *field, void *value)
{
	if (field->type == PROTOBUF_C_TYPE_STRING)
		clean(value);
	else if (value != NULL)
		sml_text_clean_message(value);
}

static void clean_field(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	uint8_t *base = (uint8_t *)message;
	const void *quantifier = base + field->quantifier_offset;
	void **values = (void **)(void *)(base + field->offset);
	size_t n = 1;

	/* In a oneof, the other members share these bytes. */
	if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
	    *(const uint32_t *)quantifier != field->id)
		return;
	if (field->label == PROTOBUF_C_LABEL_REPEATED) {
		n = *(const size_t *)quantifier;
		values = (void **)*values;
	}
	for (size_t i = 0; i < n; i++)
		clean_value(field, values[i]);
}

void sml_text_clean_message(ProtobufCMessage *message)
{
	for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];

		if (field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_MESSAGE)
			clean_field(message, field);
	}
}
