/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs as BMv2 runs them: see bmv2.h. */
#include "switch/p4/bmv2.h"

#include <jansson.h>
#include <string.h>

/* The member of an array of objects whose "name" begins with this. */
static json_t *named(json_t *array, const char *name)
{
	size_t i;
	json_t *each;

	json_array_foreach(array, i, each)
	{
		const char *own = json_string_value(json_object_get(each, "name"));

		if (own != NULL && strncmp(own, name, strlen(name)) == 0)
			return each;
	}
	return NULL;
}

/* Fields are [name, bits, signed]. */
static uint32_t bits_of(json_t *header_type)
{
	uint32_t bits = 0;
	json_t *field;
	size_t i;

	json_array_foreach(json_object_get(header_type, "fields"), i, field) bits +=
		(uint32_t)json_integer_value(json_array_get(field, 1));
	return bits;
}

bool sml_p4_bmv2_limits(const char *json, size_t bytes, struct sml_p4_limits *limits)
{
	json_t *program = json_loadb(json, bytes, 0, NULL);
	json_t *lanes = named(json_object_get(program, "header_types"), "lanes_t");
	json_t *use =
		named(json_object_get(program, "register_arrays"), "SmlIngress.slot_step.slot_use");

	limits->lanes = bits_of(lanes) / 32;
	limits->slots = (uint32_t)json_integer_value(json_object_get(use, "size")) / 2;
	limits->staged = named(json_object_get(program, "register_arrays"),
			       "SmlIngress.slot_step.slot_seen_0") != NULL;
	limits->rounds = named(json_object_get(program, "header_types"), "int8_t") != NULL;
	json_decref(program);
	return limits->lanes > 0 && limits->slots > 0;
}

/* Without a key, a table is what p4c makes of statements. */
static bool takes_entries(json_t *table)
{
	return json_array_size(json_object_get(table, "key")) > 0 &&
	       json_object_get(table, "entries") == NULL;
}

static int each_of(json_t *array, enum sml_p4_bmv2_kind kind, sml_p4_bmv2_on_state *each,
		   void *context)
{
	json_t *one;
	size_t i;
	int rc = 0;

	json_array_foreach(array, i, one)
	{
		const char *name = json_string_value(json_object_get(one, "name"));

		if (name == NULL || (kind == SML_P4_BMV2_TABLE && !takes_entries(one)))
			continue;
		rc = each(context, kind, name);
		if (rc != 0)
			break;
	}
	return rc;
}

int sml_p4_bmv2_each_state(const char *json, size_t bytes, sml_p4_bmv2_on_state *each,
			   void *context)
{
	json_t *program = json_loadb(json, bytes, 0, NULL), *pipeline;
	size_t i;
	int rc = 0;

	json_array_foreach(json_object_get(program, "pipelines"), i, pipeline)
	{
		if (rc == 0)
			rc = each_of(json_object_get(pipeline, "tables"), SML_P4_BMV2_TABLE, each,
				     context);
	}
	if (rc == 0)
		rc = each_of(json_object_get(program, "register_arrays"), SML_P4_BMV2_REGISTERS,
			     each, context);
	if (rc == 0)
		rc = each_of(json_object_get(program, "counter_arrays"), SML_P4_BMV2_COUNTERS, each,
			     context);
	json_decref(program);
	return rc;
}
