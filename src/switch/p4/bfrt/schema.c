/* SPDX-License-Identifier: BSD-3-Clause */
/* The names of a program on a Tofino switch: see session.h. The text comes from the network. */
#include "switch/p4/bfrt/session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int sml_bfrt_schema_parse(struct sml_bfrt_schema *schema, const void *program, size_t program_bytes,
			  const void *fixed, size_t fixed_bytes)
{
	schema->program = json_loadb(program, program_bytes, 0, NULL);
	schema->fixed = json_loadb(fixed, fixed_bytes, 0, NULL);
	if (schema->program != NULL && schema->fixed != NULL)
		return 0;
	sml_bfrt_schema_free(schema);
	return -EBADMSG;
}

void sml_bfrt_schema_free(struct sml_bfrt_schema *schema)
{
	json_decref(schema->program);
	json_decref(schema->fixed);
	*schema = (struct sml_bfrt_schema){0};
}

const char *sml_bfrt_name(const json_t *object)
{
	const char *name = json_string_value(json_object_get(object, "name"));

	return name != NULL ? name : "";
}

const char *sml_bfrt_short_name(const json_t *object)
{
	const char *name = sml_bfrt_name(object), *dot = strchr(name, '.');

	return name[0] == '$' || dot == NULL ? name : dot + 1;
}

const json_t *sml_bfrt_tables(const struct sml_bfrt_schema *schema)
{
	return json_object_get(schema->program, "tables");
}

const json_t *sml_bfrt_table(const struct sml_bfrt_schema *schema, const char *name)
{
	const json_t *tables =
		name[0] == '$' ? json_object_get(schema->fixed, "tables") : sml_bfrt_tables(schema);

	for (size_t i = 0; i < json_array_size(tables); i++)
		if (strcmp(sml_bfrt_short_name(json_array_get(tables, i)), name) == 0)
			return json_array_get(tables, i);
	return NULL;
}

static uint32_t number_of(const json_t *object, const char *member)
{
	json_int_t number = json_integer_value(json_object_get(object, member));

	return number > 0 && number <= UINT32_MAX ? (uint32_t)number : 0;
}

uint32_t sml_bfrt_id(const json_t *object)
{
	return number_of(object, "id");
}

uint32_t sml_bfrt_size(const json_t *table)
{
	return number_of(table, "size");
}

bool sml_bfrt_is_of_type(const json_t *table, const char *type)
{
	const char *own = json_string_value(json_object_get(table, "table_type"));

	return own != NULL && strcmp(own, type) == 0;
}

bool sml_bfrt_has_attribute(const json_t *table, const char *attribute)
{
	const json_t *attributes = json_object_get(table, "attributes");

	for (size_t i = 0; i < json_array_size(attributes); i++) {
		const char *own = json_string_value(json_array_get(attributes, i));

		if (own != NULL && strcmp(own, attribute) == 0)
			return true;
	}
	return false;
}

const json_t *sml_bfrt_action(const json_t *table, const char *name)
{
	const json_t *actions = json_object_get(table, "action_specs");

	for (size_t i = 0; i < json_array_size(actions); i++)
		if (strcmp(sml_bfrt_name(json_array_get(actions, i)), name) == 0)
			return json_array_get(actions, i);
	return NULL;
}

size_t sml_bfrt_keys(const json_t *table)
{
	return json_array_size(json_object_get(table, "key"));
}

const json_t *sml_bfrt_key(const json_t *table, size_t i)
{
	return json_array_get(json_object_get(table, "key"), i);
}

size_t sml_bfrt_data_fields(const json_t *object)
{
	return json_array_size(json_object_get(object, "data"));
}

const json_t *sml_bfrt_data_field(const json_t *object, size_t i)
{
	const json_t *field = json_array_get(json_object_get(object, "data"), i);
	const json_t *in_table = json_object_get(field, "singleton");

	return in_table != NULL ? in_table : field;
}

const json_t *sml_bfrt_data_named(const json_t *table, const char *name)
{
	for (size_t i = 0; i < sml_bfrt_data_fields(table); i++)
		if (strcmp(sml_bfrt_name(sml_bfrt_data_field(table, i)), name) == 0)
			return sml_bfrt_data_field(table, i);
	return NULL;
}

/* The width of a field that is a number; 0 if it is not, or is longer than we know. */
static unsigned bits_of(const json_t *field)
{
	const json_t *type = json_object_get(field, "type");
	const char *name = json_string_value(json_object_get(type, "type"));
	uint32_t bits;

	if (name == NULL)
		return 0;
	if (strcmp(name, "bytes") == 0)
		bits = number_of(type, "width");
	else if (sscanf(name, "uint%2u", &bits) != 1)
		return 0;
	return bits <= 8 * SML_P4_FIELD_BYTES ? bits : 0;
}

/* Of the number itself, without zeros before it. */
static unsigned bits_in(const struct sml_p4_field *number)
{
	unsigned first = 0, bits;

	while (first < number->n && number->bytes[first] == 0)
		first++;
	if (first == number->n)
		return 0;
	bits = 8u * (number->n - first);
	for (uint8_t top = number->bytes[first]; (top & 0x80) == 0; top = (uint8_t)(top << 1))
		bits--;
	return bits;
}

unsigned sml_bfrt_fit(const json_t *field, const struct sml_p4_field *number,
		      uint8_t bytes[SML_P4_FIELD_BYTES])
{
	unsigned bits = bits_of(field), n = (bits + 7) / 8;

	if (bits == 0 || number->n > SML_P4_FIELD_BYTES || bits_in(number) > bits)
		return 0;
	memset(bytes, 0, SML_P4_FIELD_BYTES);
	for (unsigned i = 0; i < n && i < number->n; i++)
		bytes[n - 1 - i] = number->bytes[number->n - 1 - i];
	return n;
}
