/* SPDX-License-Identifier: BSD-3-Clause */
/* The program that BMv2 runs, by its JSON, and what it keeps: see internal.h. */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "switch/p4/thrift/internal.h"

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

/* NULL, and an error with a text. */
static json_t *load(struct sml_p4_target *target, int *rc)
{
	GError *error = NULL;
	gchar *text = NULL;
	json_t *program;

	if (!bm_standard_if_bm_get_config(target->standard, &text, &error)) {
		*rc = sml_bmv2_fail(target, "its program", error);
		return NULL;
	}
	program = json_loads(text, 0, NULL);
	g_free(text);
	*rc = 0;
	return program;
}

int sml_bmv2_limits(struct sml_p4_target *target, struct sml_p4_limits *limits)
{
	int rc;
	json_t *program = load(target, &rc);
	json_t *lanes = named(json_object_get(program, "header_types"), "lanes_t");
	json_t *arrays = json_object_get(program, "register_arrays");
	json_t *use = named(arrays, "SmlIngress.slot_step.slot_use");

	limits->lanes = bits_of(lanes) / 32;
	limits->slots = (uint32_t)json_integer_value(json_object_get(use, "size")) / 2;
	limits->staged = named(arrays, "SmlIngress.slot_step.slot_seen_0") != NULL;
	limits->rounds = named(json_object_get(program, "header_types"), "int8_t") != NULL;
	json_decref(program);
	if (rc < 0 || (limits->lanes > 0 && limits->slots > 0))
		return rc;
	return target->services->error_set(
		-ENOENT,
		"the P4 switch at %s runs another program: start simple_switch with "
		"switchml-256.json (p4/v1model/switchml.p4)",
		target->where);
}

/* ---- forgetting what an earlier controller has left ---- */

/* Without a key, a table is what p4c makes of statements. */
static int forget_table(struct sml_p4_target *target, const char *name, json_t *table)
{
	if (json_array_size(json_object_get(table, "key")) == 0 ||
	    json_object_get(table, "entries") != NULL)
		return 0;
	return sml_bmv2_need(target, name, sml_bmv2_owner_clear(target, name));
}

static int forget_registers(struct sml_p4_target *target, const char *name, json_t *array)
{
	BmInvalidRegisterOperation *refusal = NULL;
	GError *error = NULL;
	gboolean ok = bm_standard_if_bm_register_reset(target->standard, SML_BMV2_CONTEXT, name,
						       &refusal, &error);

	(void)array;
	SML_BMV2_CALL(ok, name, refusal);
	return 0;
}

static int forget_counters(struct sml_p4_target *target, const char *name, json_t *array)
{
	BmInvalidCounterOperation *refusal = NULL;
	GError *error = NULL;
	gboolean ok = bm_standard_if_bm_counter_reset_all(target->standard, SML_BMV2_CONTEXT, name,
							  &refusal, &error);

	(void)array;
	SML_BMV2_CALL(ok, name, refusal);
	return 0;
}

static int forget_each(struct sml_p4_target *target, json_t *array,
		       int (*forget)(struct sml_p4_target *target, const char *name, json_t *one))
{
	json_t *one;
	size_t i;
	int rc = 0;

	json_array_foreach(array, i, one)
	{
		const char *name = json_string_value(json_object_get(one, "name"));

		if (name != NULL && rc == 0)
			rc = sml_bmv2_owner_keep(target);
		if (name != NULL && rc == 0)
			rc = forget(target, name, one);
	}
	return rc;
}

/*
 * BMv2's own reset would also delete the constant entries of tables, which nobody can add again.
 * Tables come first, because without their entries, no packet writes into the rest.
 */
int sml_bmv2_forget_program(struct sml_p4_target *target)
{
	int rc;
	json_t *program = load(target, &rc), *pipeline;
	size_t i;

	json_array_foreach(json_object_get(program, "pipelines"), i, pipeline)
	{
		if (rc == 0)
			rc = forget_each(target, json_object_get(pipeline, "tables"), forget_table);
	}
	if (rc == 0)
		rc = forget_each(target, json_object_get(program, "register_arrays"),
				 forget_registers);
	if (rc == 0)
		rc = forget_each(target, json_object_get(program, "counter_arrays"),
				 forget_counters);
	json_decref(program);
	return rc;
}
