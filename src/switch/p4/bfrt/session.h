/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client of BF Runtime, as bf_switchd serves it: connected by a stream, and bound to the program
 * that has our tables. bf_switchd has loaded that program; nothing here loads one. The binding is
 * exclusive, so two daemons never write the same tables.
 */
#ifndef SML_SWITCH_P4_BFRT_SESSION_H
#define SML_SWITCH_P4_BFRT_SESSION_H

#include <jansson.h>

#include "bfruntime.pb-c.h"
#include "switch/p4/grpc/rpc.h"
#include "switch/p4/target.h"

/*
 * ---- names (schema.c) ----
 *
 * What a program on a Tofino switch is made of, by name: the tables of its bf-rt.json, which the
 * compiler writes, and those that every program has ("$pre.mgid"). Messages carry only the numbers
 * that are found here. Objects are jansson's, and belong to the schema.
 */

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

/*
 * ---- an entry of a table as a message (entry.c) ----
 *
 * The message points into the entry, so the entry stays where it is, and what is added here must
 * fit: a table's fields are checked before.
 */

struct sml_bfrt_entry {
	BfrtProto__TableEntry message;
	BfrtProto__TableFlags flags;
	BfrtProto__TableKey key;
	BfrtProto__KeyField keys[SML_P4_KEYS], *key_list[SML_P4_KEYS];
	BfrtProto__KeyField__Exact exact[SML_P4_KEYS];
	BfrtProto__TableData data;
	BfrtProto__DataField fields[SML_P4_PARAMETERS], *field_list[SML_P4_PARAMETERS];
	BfrtProto__DataField__IntArray numbers[SML_P4_PARAMETERS];
	BfrtProto__DataField__BoolArray flags_list[SML_P4_PARAMETERS];
	uint8_t bytes[SML_P4_KEYS + SML_P4_PARAMETERS][SML_P4_FIELD_BYTES];
};

/* Of no key and no data: all entries, for the operations that know this. */
void sml_bfrt_entry_init(struct sml_bfrt_entry *entry, const json_t *table);

/* What the hardware has, and not what the driver remembers. */
void sml_bfrt_entry_from_hardware(struct sml_bfrt_entry *entry);

/* false: the number does not fit into the field. */
bool sml_bfrt_entry_add_key(struct sml_bfrt_entry *entry, const json_t *field,
			    const struct sml_p4_field *number);
void sml_bfrt_entry_set_action(struct sml_bfrt_entry *entry, const json_t *action);
bool sml_bfrt_entry_add_data(struct sml_bfrt_entry *entry, const json_t *field,
			     const struct sml_p4_field *number);

/* Lists of n, which the caller keeps as long as the entry. */
void sml_bfrt_entry_add_numbers(struct sml_bfrt_entry *entry, const json_t *field,
				uint32_t *numbers, size_t n);
void sml_bfrt_entry_add_flags(struct sml_bfrt_entry *entry, const json_t *field,
			      protobuf_c_boolean *flags, size_t n);

/* The i-th value that a received entry has for the field, as a number. false: it has none. */
bool sml_bfrt_value(const BfrtProto__TableEntry *entry, const json_t *field, size_t i,
		    uint64_t *value);

/* The number in a received entry's key. false: it has no such key. */
bool sml_bfrt_key_value(const BfrtProto__TableEntry *entry, const json_t *field, uint64_t *value);

/* ---- the client (session.c) ---- */

#define SML_BFRT_BATCH 64 /* entries in one message */

/* All pipes of the device. */
#define SML_BFRT_ALL_PIPES 0xffff

struct sml_bfrt {
	const struct sml_p4_services *services;
	char where[300];
	struct sml_rpc *rpc;
	struct sml_rpc_stream *stream;
	uint32_t device, client_id;
	struct sml_bfrt_schema schema;
};

/*
 * Connects and binds to the program that has this table. Errors have a text. After one, too, what
 * has been opened is closed by sml_bfrt_disconnect().
 */
int sml_bfrt_connect(struct sml_bfrt *bfrt, const struct sml_p4_address *address, const char *table,
		     const struct sml_p4_services *services);
void sml_bfrt_disconnect(struct sml_bfrt *bfrt);

/* Is this client still connected, and the program still the same? `table` is any table. */
int sml_bfrt_check(struct sml_bfrt *bfrt, const json_t *table);

/*
 * Returns `error`, and sets an error text that begins with the switch and says that `what` failed.
 */
int sml_bfrt_fail(const struct sml_bfrt *bfrt, int error, const char *what, const char *why);

/* Apply `type` to these entries, in their order: at most SML_BFRT_BATCH, as for reading. */
int sml_bfrt_write(struct sml_bfrt *bfrt, const char *what, BfrtProto__Update__Type type,
		   BfrtProto__TableEntry *const *entries, size_t n);

/* The entry is valid during the call. */
typedef void sml_bfrt_on_entry(void *context, const BfrtProto__TableEntry *entry);

/* Read these entries from one pipe or all. An entry without a key stands for all of its table. */
int sml_bfrt_read(struct sml_bfrt *bfrt, const char *what, uint32_t pipe,
		  BfrtProto__TableEntry *const *entries, size_t n, sml_bfrt_on_entry *on_entry,
		  void *context);

#endif
