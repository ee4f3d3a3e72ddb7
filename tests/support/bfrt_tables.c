/* SPDX-License-Identifier: BSD-3-Clause */
/* The server of BF Runtime's tables: what their schema allows, and which entries they have. */
#include "bfrt_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- errors ---- */

/* What bf_switchd adds to its text. */
static const char *words_of(grpc_status_code code)
{
	return code == GRPC_STATUS_INVALID_ARGUMENT	? " Invalid arguments"
	       : code == GRPC_STATUS_NOT_FOUND		? " Object not found"
	       : code == GRPC_STATUS_ALREADY_EXISTS	? " Already exists"
	       : code == GRPC_STATUS_RESOURCE_EXHAUSTED ? " Not enough space"
	       : code == GRPC_STATUS_UNIMPLEMENTED	? " Operation not supported"
							: "";
}

bool bfrt_refuse(struct outcome *outcome, grpc_status_code code, const char *format, ...)
{
	va_list arguments;
	size_t n;

	va_start(arguments, format);
	vsnprintf(outcome->text, sizeof(outcome->text), format, arguments);
	va_end(arguments);
	n = strlen(outcome->text);
	snprintf(outcome->text + n, sizeof(outcome->text) - n, "%s", words_of(code));
	outcome->code = code;
	return false;
}

/* ---- the schema, by numbers ---- */

const json_t *bfrt_by_id(const json_t *array, uint32_t id)
{
	for (size_t i = 0; i < json_array_size(array); i++) {
		const json_t *each = json_array_get(array, i);
		const json_t *singleton = json_object_get(each, "singleton");

		if (json_integer_value(
			    json_object_get(singleton != NULL ? singleton : each, "id")) == id)
			return singleton != NULL ? singleton : each;
	}
	return NULL;
}

const char *bfrt_text_of(const json_t *object, const char *member)
{
	const char *text = json_string_value(json_object_get(object, member));

	return text != NULL ? text : "";
}

const json_t *bfrt_table_of(const struct bfrt_server *server, uint32_t id)
{
	const json_t *table = bfrt_by_id(json_object_get(server->program, "tables"), id);

	return table != NULL ? table : bfrt_by_id(json_object_get(server->fixed, "tables"), id);
}

const json_t *bfrt_table_named(const struct bfrt_server *server, const char *name)
{
	const json_t *all[] = {json_object_get(server->program, "tables"),
			       json_object_get(server->fixed, "tables")};

	for (unsigned a = 0; a < 2; a++)
		for (size_t i = 0; i < json_array_size(all[a]); i++)
			if (strcmp(bfrt_text_of(json_array_get(all[a], i), "name"), name) == 0)
				return json_array_get(all[a], i);
	fprintf(stderr, "the schema has no table %s\n", name);
	abort();
}

uint32_t bfrt_id_of(const json_t *object)
{
	return (uint32_t)json_integer_value(json_object_get(object, "id"));
}

unsigned bfrt_bits_of(const json_t *field)
{
	const json_t *type = json_object_get(field, "type");
	const char *name = bfrt_text_of(type, "type");

	if (strcmp(name, "bytes") == 0)
		return (unsigned)json_integer_value(json_object_get(type, "width"));
	return strcmp(name, "uint8") == 0    ? 8
	       : strcmp(name, "uint16") == 0 ? 16
	       : strcmp(name, "uint32") == 0 ? 32
	       : strcmp(name, "uint64") == 0 ? 64
					     : 0;
}

bool bfrt_is_type(const json_t *table, const char *type)
{
	return strcmp(bfrt_text_of(table, "table_type"), type) == 0;
}

bool bfrt_is_indexed(const json_t *table)
{
	return bfrt_is_type(table, "Register") || bfrt_is_type(table, "Counter");
}

/* A number in its field's exact width, copied to the end of `to`. */
static bool take_number(const json_t *field, const ProtobufCBinaryData *bytes,
			uint8_t to[BFRT_BYTES], struct outcome *outcome)
{
	unsigned bits = bfrt_bits_of(field);

	if (bytes->len != (bits + 7) / 8 || bytes->len > BFRT_BYTES)
		return WRONG("%s has %u bits, not %zu bytes", bfrt_text_of(field, "name"), bits,
			     bytes->len);
	if (bits % 8 != 0 && bytes->data[0] >> bits % 8 != 0)
		return WRONG("%s has only %u bits", bfrt_text_of(field, "name"), bits);
	memset(to, 0, BFRT_BYTES);
	memcpy(to + BFRT_BYTES - bytes->len, bytes->data, bytes->len);
	return true;
}

uint64_t bfrt_number_in(const uint8_t bytes[BFRT_BYTES])
{
	uint64_t value = 0;

	for (unsigned i = BFRT_BYTES - 8; i < BFRT_BYTES; i++)
		value = value << 8 | bytes[i];
	return value;
}

/* ---- keys and data ---- */

/* Numbers of keys are not small: the compiler gives an index 65556 or 65557. */
static size_t place_of(const json_t *fields, const json_t *field)
{
	size_t i = 0;

	while (json_array_get(fields, i) != field)
		i++;
	return i;
}

bool bfrt_take_keys(const json_t *table, const BfrtProto__TableKey *key, struct bfrt_entry *entry,
		    struct outcome *outcome)
{
	const json_t *fields = json_object_get(table, "key");

	if (key->n_fields != json_array_size(fields) || key->n_fields > BFRT_KEYS)
		return WRONG("%s has %zu keys, not %zu", bfrt_text_of(table, "name"),
			     json_array_size(fields), key->n_fields);
	for (size_t i = 0; i < key->n_fields; i++) {
		const json_t *field = bfrt_by_id(fields, key->fields[i]->field_id);

		if (field == NULL)
			return WRONG("%s has no key %u", bfrt_text_of(table, "name"),
				     key->fields[i]->field_id);
		for (size_t before = 0; before < i; before++)
			if (key->fields[before]->field_id == key->fields[i]->field_id)
				return WRONG("key %s is there twice", bfrt_text_of(field, "name"));
		if (key->fields[i]->match_type_case != BFRT_PROTO__KEY_FIELD__MATCH_TYPE_EXACT ||
		    strcmp(bfrt_text_of(field, "match_type"), "Exact") != 0)
			return WRONG("key %s is of another kind", bfrt_text_of(field, "name"));
		if (!take_number(field, &key->fields[i]->exact->value,
				 entry->keys[place_of(fields, field)], outcome))
			return false;
	}
	return true;
}

static bool take_field(const json_t *field, const BfrtProto__DataField *data,
		       struct bfrt_entry *entry, struct outcome *outcome)
{
	const char *name = bfrt_text_of(field, "name");
	bool repeated = json_is_true(json_object_get(field, "repeated"));
	bool is_bool = strcmp(bfrt_text_of(json_object_get(field, "type"), "type"), "bool") == 0;
	uint32_t at = data->field_id;

	if (at >= BFRT_DATA)
		return WRONG("%s has number %u, for which this server has no room", name, at);
	if (!repeated) {
		if (data->value_case != BFRT_PROTO__DATA_FIELD__VALUE_STREAM)
			return WRONG("%s is a number", name);
		entry->n_data_bytes[at] = (unsigned)data->stream.len;
		return take_number(field, &data->stream, entry->data[at], outcome);
	}
	if (is_bool) {
		if (data->value_case != BFRT_PROTO__DATA_FIELD__VALUE_BOOL_ARR_VAL ||
		    data->bool_arr_val->n_val > BFRT_COPIES)
			return WRONG("%s is a list of truths", name);
		entry->n_list[at] = (unsigned)data->bool_arr_val->n_val;
		for (size_t i = 0; i < data->bool_arr_val->n_val; i++)
			entry->lists[at][i] = data->bool_arr_val->val[i] != 0;
		return true;
	}
	if (data->value_case != BFRT_PROTO__DATA_FIELD__VALUE_INT_ARR_VAL ||
	    data->int_arr_val->n_val > BFRT_COPIES)
		return WRONG("%s is a list of numbers", name);
	entry->n_list[at] = (unsigned)data->int_arr_val->n_val;
	for (size_t i = 0; i < data->int_arr_val->n_val; i++)
		entry->lists[at][i] = data->int_arr_val->val[i];
	return true;
}

static bool has_field(const BfrtProto__TableData *data, uint32_t id)
{
	for (size_t i = 0; data != NULL && i < data->n_fields; i++)
		if (data->fields[i]->field_id == id)
			return true;
	return false;
}

/* All that is mandatory is there, and nothing twice. */
static bool check_fields(const json_t *fields, const BfrtProto__TableData *data,
			 struct outcome *outcome)
{
	for (size_t i = 0; i < json_array_size(fields); i++) {
		const json_t *each = json_array_get(fields, i);
		const json_t *singleton = json_object_get(each, "singleton");
		const json_t *field = singleton != NULL ? singleton : each;

		if (json_is_true(json_object_get(each, "mandatory")) &&
		    !has_field(data, bfrt_id_of(field)))
			return WRONG("%s is missing", bfrt_text_of(field, "name"));
	}
	for (size_t i = 0; data != NULL && i < data->n_fields; i++)
		for (size_t before = 0; before < i; before++)
			if (data->fields[before]->field_id == data->fields[i]->field_id)
				return WRONG("field %u is there twice", data->fields[i]->field_id);
	return true;
}

static bool take_data(const json_t *table, const BfrtProto__TableData *data,
		      struct bfrt_entry *entry, struct outcome *outcome)
{
	const json_t *fields = json_object_get(table, "data");

	if (bfrt_is_type(table, "MatchAction_Direct")) {
		const json_t *action = bfrt_by_id(json_object_get(table, "action_specs"),
						  data != NULL ? data->action_id : 0);

		if (data == NULL || action == NULL ||
		    strcmp(bfrt_text_of(action, "action_scope"), "DefaultOnly") == 0)
			return MISSING("ERROR Unable to get data field list for table : %s",
				       bfrt_text_of(table, "name"));
		fields = json_object_get(action, "data");
		entry->action_id = data->action_id;
	}
	if (!check_fields(fields, data, outcome))
		return false;
	for (size_t i = 0; data != NULL && i < data->n_fields; i++) {
		const json_t *field = bfrt_by_id(fields, data->fields[i]->field_id);

		if (field == NULL || data->fields[i]->field_id >= BFRT_DATA)
			return WRONG("%s has no field %u", bfrt_text_of(table, "name"),
				     data->fields[i]->field_id);
		if (!take_field(field, data->fields[i], entry, outcome))
			return false;
	}
	return true;
}

/* ---- entries ---- */

struct bfrt_entry *bfrt_find_entry(struct bfrt_server *server, const struct bfrt_entry *wanted)
{
	for (unsigned i = 0; i < server->n_entries; i++)
		if (server->entries[i].table_id == wanted->table_id &&
		    memcmp(server->entries[i].keys, wanted->keys, sizeof(wanted->keys)) == 0)
			return &server->entries[i];
	return NULL;
}

static void drop_entry(struct bfrt_server *server, struct bfrt_entry *entry)
{
	*entry = server->entries[--server->n_entries];
}

struct cell *bfrt_cell_of(struct bfrt_server *server, uint32_t table_id, uint32_t index)
{
	for (unsigned i = 0; i < server->n_cells; i++)
		if (server->cells[i].table_id == table_id && server->cells[i].index == index)
			return &server->cells[i];
	if (server->n_cells == MAX_ENTRIES)
		abort();
	server->cells[server->n_cells] = (struct cell){.table_id = table_id, .index = index};
	return &server->cells[server->n_cells++];
}

const struct bfrt_entry *bfrt_numbered(struct bfrt_server *server, uint32_t table_id, uint64_t key)
{
	for (unsigned i = 0; i < server->n_entries; i++)
		if (server->entries[i].table_id == table_id &&
		    bfrt_number_in(server->entries[i].keys[0]) == key)
			return &server->entries[i];
	return NULL;
}

/* A group's three lists are of one length, and its nodes are there. */
static bool check_group(struct bfrt_server *server, const struct bfrt_entry *entry,
			struct outcome *outcome)
{
	uint32_t nodes = bfrt_id_of(bfrt_table_named(server, "$pre.node"));

	if (entry->n_list[1] != entry->n_list[2] || entry->n_list[1] != entry->n_list[3])
		return WRONG("Table Add failed table:$pre.mgid");
	for (unsigned i = 0; i < entry->n_list[1]; i++)
		if (bfrt_numbered(server, nodes, entry->lists[1][i]) == NULL)
			return MISSING("Table Add failed table:$pre.mgid");
	return true;
}

static bool write_cell(struct bfrt_server *server, const json_t *table,
		       const struct bfrt_entry *entry, struct outcome *outcome)
{
	uint64_t index = bfrt_number_in(entry->keys[0]);
	struct cell *cell;

	if (index >= (uint64_t)json_integer_value(json_object_get(table, "size")))
		return WRONG("index %llu is beyond the table", (unsigned long long)index);
	cell = bfrt_cell_of(server, entry->table_id, (uint32_t)index);
	for (unsigned pipe = 0; pipe < BFRT_PIPES; pipe++)
		for (unsigned i = 0; i < MAX_MEMBERS; i++)
			cell->values[pipe][i] = bfrt_number_in(entry->data[i + 1]);
	return true;
}

static bool add_entry(struct bfrt_server *server, const struct bfrt_entry *entry,
		      struct outcome *outcome)
{
	const json_t *table = bfrt_table_of(server, entry->table_id);
	unsigned n = 0;

	if (bfrt_find_entry(server, entry) != NULL)
		return bfrt_refuse(outcome, GRPC_STATUS_ALREADY_EXISTS, "Table Add failed table:%s",
				   bfrt_text_of(table, "name"));
	for (unsigned i = 0; i < server->n_entries; i++)
		n += server->entries[i].table_id == entry->table_id;
	if (n >= json_integer_value(json_object_get(table, "size")) ||
	    server->n_entries == MAX_ENTRIES)
		return bfrt_refuse(outcome, GRPC_STATUS_RESOURCE_EXHAUSTED,
				   "Table Add failed table:%s", bfrt_text_of(table, "name"));
	if (bfrt_is_type(table, "PreMgid") && !check_group(server, entry, outcome))
		return false;
	server->entries[server->n_entries++] = *entry;
	return true;
}

static bool clear_table(struct bfrt_server *server, const json_t *table, struct outcome *outcome)
{
	uint32_t id = bfrt_id_of(table);

	if (!bfrt_is_type(table, "MatchAction_Direct") && !bfrt_is_indexed(table))
		return bfrt_refuse(outcome, GRPC_STATUS_UNIMPLEMENTED,
				   "Table Entry delete all failed table:%s",
				   bfrt_text_of(table, "name"));
	for (size_t i = 0; i < json_array_size(json_object_get(table, "attributes")); i++)
		if (strcmp(json_string_value(
				   json_array_get(json_object_get(table, "attributes"), i)),
			   "ConstTable") == 0)
			return WRONG("Table Entry delete all failed table:%s",
				     bfrt_text_of(table, "name"));
	server->cleared[server->n_cleared++ % 256] = id;
	for (unsigned i = server->n_entries; i-- > 0;)
		if (server->entries[i].table_id == id)
			drop_entry(server, &server->entries[i]);
	for (unsigned i = server->n_cells; i-- > 0;)
		if (server->cells[i].table_id == id)
			server->cells[i] = server->cells[--server->n_cells];
	return true;
}

static bool delete_entry(struct bfrt_server *server, const struct bfrt_entry *wanted,
			 struct outcome *outcome)
{
	struct bfrt_entry *entry = bfrt_find_entry(server, wanted);

	if (entry == NULL)
		return MISSING("Table Entry delete failed table:%s",
			       bfrt_text_of(bfrt_table_of(server, wanted->table_id), "name"));
	drop_entry(server, entry);
	return true;
}

bool bfrt_update_entry(struct bfrt_server *server, BfrtProto__Update__Type type,
		       const BfrtProto__TableEntry *message, struct outcome *outcome)
{
	const json_t *table = bfrt_table_of(server, message->table_id);
	struct bfrt_entry entry = {.table_id = message->table_id}, *old;
	bool has_key = message->value_case == BFRT_PROTO__TABLE_ENTRY__VALUE_KEY;

	if (table == NULL)
		return MISSING("Table not found for id %u", message->table_id);
	if (has_key && !bfrt_take_keys(table, message->key, &entry, outcome))
		return false;
	if (type == BFRT_PROTO__UPDATE__TYPE__DELETE)
		return has_key ? delete_entry(server, &entry, outcome)
			       : clear_table(server, table, outcome);
	if (!has_key)
		return WRONG("Table key cannot be empty table:%s", bfrt_text_of(table, "name"));
	if (!take_data(table, message->data, &entry, outcome))
		return false;
	if (bfrt_is_indexed(table))
		return write_cell(server, table, &entry, outcome);
	if (type == BFRT_PROTO__UPDATE__TYPE__INSERT)
		return add_entry(server, &entry, outcome);
	if (type != BFRT_PROTO__UPDATE__TYPE__MODIFY)
		return WRONG("Invalid update type");
	old = bfrt_find_entry(server, &entry);
	if (old == NULL)
		return MISSING("Table Entry modify failed table:%s", bfrt_text_of(table, "name"));
	*old = entry;
	return true;
}
