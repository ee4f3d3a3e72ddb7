/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program on a Tofino switch is made of, by name: the tables of its bf-rt.json, which the
 * compiler writes, and those that every program has ("$pre.mgid"). Messages carry only the numbers
 * that are found here. Objects are jansson's, and belong to the schema.
 */
#ifndef SML_SWITCH_P4_BFRT_SCHEMA_H
#define SML_SWITCH_P4_BFRT_SCHEMA_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "switch/p4/target.h"

struct sml_bfrt_schema {
	json_t *program, *fixed;
};

/* Both as the switch sends them. -EBADMSG: they are not JSON. */
int sml_bfrt_schema_parse(struct sml_bfrt_schema *schema, const void *program, size_t program_bytes,
			  const void *fixed, size_t fixed_bytes);

void sml_bfrt_schema_free(struct sml_bfrt_schema *schema);

/*
 * The name is the program's, without the pipe that bf-rt.json puts before it: "pipe.A.b" is "A.b".
 * NULL if there is none.
 */
const json_t *sml_bfrt_table(const struct sml_bfrt_schema *schema, const char *name);

/* All tables of the program. */
const json_t *sml_bfrt_tables(const struct sml_bfrt_schema *schema);

const char *sml_bfrt_name(const json_t *object);

/* Without the pipe. */
const char *sml_bfrt_short_name(const json_t *object);

/* 0 if it has none, which no object of a proper schema lacks. */
uint32_t sml_bfrt_id(const json_t *object);

uint32_t sml_bfrt_size(const json_t *table);

bool sml_bfrt_is_of_type(const json_t *table, const char *type);
bool sml_bfrt_has_attribute(const json_t *table, const char *attribute);

const json_t *sml_bfrt_action(const json_t *table, const char *name);

/* As many as it has, in the program's order. */
size_t sml_bfrt_keys(const json_t *table);
const json_t *sml_bfrt_key(const json_t *table, size_t i);

/* The same of an action's parameters, or of the data fields of a table that has no actions. */
size_t sml_bfrt_data_fields(const json_t *object);
const json_t *sml_bfrt_data_field(const json_t *object, size_t i);
const json_t *sml_bfrt_data_named(const json_t *table, const char *name);

/* The number as the field has it, big-endian, in whole bytes. 0 if it does not fit. */
unsigned sml_bfrt_fit(const json_t *field, const struct sml_p4_field *number,
		      uint8_t bytes[SML_P4_FIELD_BYTES]);

#endif
