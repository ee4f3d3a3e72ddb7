/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server of BF Runtime: see bfrt_server.h. One thread answers calls, and each client's stream has
 * a thread. All state is under one mutex. Errors of a request's parts are reported as bf_switchd
 * does: in the metadata "grpc-status-details-bin", with one part for each update or entity.
 */
#include "bfrt_server.h"

#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bfruntime.pb-c.h"
#include "status.pb-c.h"

#define MAX_ENTRIES 32768
#define MAX_CLIENTS 8
#define MAX_MEMBERS 4
#define PROGRAM	    "switchml"
#define ALL_PIPES   0xffff
#define ALL	    0xff

struct cell {
	uint32_t table_id, index;
	uint64_t values[BFRT_PIPES][MAX_MEMBERS];
};

struct client {
	struct bfrt_server *server;
	grpc_call *call;
	grpc_completion_queue *queue;
	grpc_metadata_array metadata;
	pthread_t thread;
	uint32_t id;
	bool used, subscribed, bound;
};

struct bfrt_server {
	grpc_server *server;
	grpc_completion_queue *queue;
	pthread_t thread;
	uint16_t port;
	pthread_mutex_t mutex;
	json_t *program, *fixed;
	struct bfrt_entry *entries;
	unsigned n_entries;
	struct cell *cells;
	unsigned n_cells;
	struct client clients[MAX_CLIENTS];
	bool refuses, forgets;
};

/* A call of one request that is being answered. */
struct rpc {
	struct bfrt_server *server;
	grpc_call *call;
	grpc_completion_queue *queue;
	grpc_metadata_array metadata;
	grpc_call_details details;
};

/* ---- errors ---- */

/* As bf_switchd maps its own. */
struct outcome {
	grpc_status_code code;
	char text[256];
};

__attribute__((format(printf, 3, 4))) static bool
say(struct outcome *outcome, grpc_status_code code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(outcome->text, sizeof(outcome->text), format, arguments);
	va_end(arguments);
	outcome->code = code;
	return false;
}

#define WRONG(...)   say(outcome, GRPC_STATUS_INVALID_ARGUMENT, __VA_ARGS__)
#define MISSING(...) say(outcome, GRPC_STATUS_NOT_FOUND, __VA_ARGS__)

/* ---- the schema, by numbers ---- */

static const json_t *by_id(const json_t *array, uint32_t id)
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

static const char *text_of(const json_t *object, const char *member)
{
	const char *text = json_string_value(json_object_get(object, member));

	return text != NULL ? text : "";
}

static const json_t *table_of(const struct bfrt_server *server, uint32_t id)
{
	const json_t *table = by_id(json_object_get(server->program, "tables"), id);

	return table != NULL ? table : by_id(json_object_get(server->fixed, "tables"), id);
}

static const json_t *table_named(const struct bfrt_server *server, const char *name)
{
	const json_t *all[] = {json_object_get(server->program, "tables"),
			       json_object_get(server->fixed, "tables")};

	for (unsigned a = 0; a < 2; a++)
		for (size_t i = 0; i < json_array_size(all[a]); i++)
			if (strcmp(text_of(json_array_get(all[a], i), "name"), name) == 0)
				return json_array_get(all[a], i);
	fprintf(stderr, "the schema has no table %s\n", name);
	abort();
}

static uint32_t id_of(const json_t *object)
{
	return (uint32_t)json_integer_value(json_object_get(object, "id"));
}

static unsigned bits_of(const json_t *field)
{
	const json_t *type = json_object_get(field, "type");
	const char *name = text_of(type, "type");

	if (strcmp(name, "bytes") == 0)
		return (unsigned)json_integer_value(json_object_get(type, "width"));
	return strcmp(name, "uint8") == 0    ? 8
	       : strcmp(name, "uint16") == 0 ? 16
	       : strcmp(name, "uint32") == 0 ? 32
	       : strcmp(name, "uint64") == 0 ? 64
					     : 0;
}

static bool is_type(const json_t *table, const char *type)
{
	return strcmp(text_of(table, "table_type"), type) == 0;
}

static bool is_indexed(const json_t *table)
{
	return is_type(table, "Register") || is_type(table, "Counter");
}

/* A number in its field's exact width, copied to the end of `to`. */
static bool take_number(const json_t *field, const ProtobufCBinaryData *bytes,
			uint8_t to[BFRT_BYTES], struct outcome *outcome)
{
	unsigned bits = bits_of(field);

	if (bytes->len != (bits + 7) / 8 || bytes->len > BFRT_BYTES)
		return WRONG("%s has %u bits, not %zu bytes", text_of(field, "name"), bits,
			     bytes->len);
	if (bits % 8 != 0 && bytes->data[0] >> bits % 8 != 0)
		return WRONG("%s has only %u bits", text_of(field, "name"), bits);
	memset(to, 0, BFRT_BYTES);
	memcpy(to + BFRT_BYTES - bytes->len, bytes->data, bytes->len);
	return true;
}

static uint64_t number_in(const uint8_t bytes[BFRT_BYTES])
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

static bool take_keys(const json_t *table, const BfrtProto__TableKey *key, struct bfrt_entry *entry,
		      struct outcome *outcome)
{
	const json_t *fields = json_object_get(table, "key");

	if (key->n_fields != json_array_size(fields) || key->n_fields > BFRT_KEYS)
		return WRONG("%s has %zu keys, not %zu", text_of(table, "name"),
			     json_array_size(fields), key->n_fields);
	for (size_t i = 0; i < key->n_fields; i++) {
		const json_t *field = by_id(fields, key->fields[i]->field_id);

		if (field == NULL)
			return WRONG("%s has no key %u", text_of(table, "name"),
				     key->fields[i]->field_id);
		for (size_t before = 0; before < i; before++)
			if (key->fields[before]->field_id == key->fields[i]->field_id)
				return WRONG("key %s is there twice", text_of(field, "name"));
		if (key->fields[i]->match_type_case != BFRT_PROTO__KEY_FIELD__MATCH_TYPE_EXACT ||
		    strcmp(text_of(field, "match_type"), "Exact") != 0)
			return WRONG("key %s is of another kind", text_of(field, "name"));
		if (!take_number(field, &key->fields[i]->exact->value,
				 entry->keys[place_of(fields, field)], outcome))
			return false;
	}
	return true;
}

static bool take_field(const json_t *field, const BfrtProto__DataField *data,
		       struct bfrt_entry *entry, struct outcome *outcome)
{
	const char *name = text_of(field, "name");
	bool repeated = json_is_true(json_object_get(field, "repeated"));
	bool is_bool = strcmp(text_of(json_object_get(field, "type"), "type"), "bool") == 0;
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
		    !has_field(data, id_of(field)))
			return WRONG("%s is missing", text_of(field, "name"));
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

	if (is_type(table, "MatchAction_Direct")) {
		const json_t *action = by_id(json_object_get(table, "action_specs"),
					     data != NULL ? data->action_id : 0);

		if (data == NULL || action == NULL ||
		    strcmp(text_of(action, "action_scope"), "DefaultOnly") == 0)
			return WRONG("%s has no such action", text_of(table, "name"));
		fields = json_object_get(action, "data");
		entry->action_id = data->action_id;
	}
	if (!check_fields(fields, data, outcome))
		return false;
	for (size_t i = 0; data != NULL && i < data->n_fields; i++) {
		const json_t *field = by_id(fields, data->fields[i]->field_id);

		if (field == NULL || data->fields[i]->field_id >= BFRT_DATA)
			return WRONG("%s has no field %u", text_of(table, "name"),
				     data->fields[i]->field_id);
		if (!take_field(field, data->fields[i], entry, outcome))
			return false;
	}
	return true;
}

/* ---- entries ---- */

static struct bfrt_entry *find_entry(struct bfrt_server *server, const struct bfrt_entry *wanted)
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

static struct cell *cell_of(struct bfrt_server *server, uint32_t table_id, uint32_t index)
{
	for (unsigned i = 0; i < server->n_cells; i++)
		if (server->cells[i].table_id == table_id && server->cells[i].index == index)
			return &server->cells[i];
	if (server->n_cells == MAX_ENTRIES)
		abort();
	server->cells[server->n_cells] = (struct cell){.table_id = table_id, .index = index};
	return &server->cells[server->n_cells++];
}

static const struct bfrt_entry *numbered(struct bfrt_server *server, uint32_t table_id,
					 uint64_t key)
{
	for (unsigned i = 0; i < server->n_entries; i++)
		if (server->entries[i].table_id == table_id &&
		    number_in(server->entries[i].keys[0]) == key)
			return &server->entries[i];
	return NULL;
}

#define MGID 4278321153u
#define NODE 4278321154u

/* A group's three lists are of one length, and its nodes are there. */
static bool check_group(struct bfrt_server *server, const struct bfrt_entry *entry,
			struct outcome *outcome)
{
	if (entry->n_list[1] != entry->n_list[2] || entry->n_list[1] != entry->n_list[3])
		return WRONG("the lists of a group have different lengths");
	for (unsigned i = 0; i < entry->n_list[1]; i++)
		if (numbered(server, NODE, entry->lists[1][i]) == NULL)
			return MISSING("there is no node %u", entry->lists[1][i]);
	return true;
}

/* A node in a group cannot go. */
static bool check_unused(struct bfrt_server *server, const struct bfrt_entry *node,
			 struct outcome *outcome)
{
	for (unsigned i = 0; i < server->n_entries; i++)
		for (unsigned n = 0;
		     server->entries[i].table_id == MGID && n < server->entries[i].n_list[1]; n++)
			if (server->entries[i].lists[1][n] == number_in(node->keys[0]))
				return say(outcome, GRPC_STATUS_ALREADY_EXISTS,
					   "a group has the node");
	return true;
}

static bool write_cell(struct bfrt_server *server, const json_t *table,
		       const struct bfrt_entry *entry, struct outcome *outcome)
{
	uint64_t index = number_in(entry->keys[0]);
	struct cell *cell;

	if (index >= (uint64_t)json_integer_value(json_object_get(table, "size")))
		return WRONG("index %llu is beyond the table", (unsigned long long)index);
	cell = cell_of(server, entry->table_id, (uint32_t)index);
	for (unsigned pipe = 0; pipe < BFRT_PIPES; pipe++)
		for (unsigned i = 0; i < MAX_MEMBERS; i++)
			cell->values[pipe][i] = number_in(entry->data[i + 1]);
	return true;
}

static bool add_entry(struct bfrt_server *server, const struct bfrt_entry *entry,
		      struct outcome *outcome)
{
	const json_t *table = table_of(server, entry->table_id);
	unsigned n = 0;

	if (find_entry(server, entry) != NULL)
		return say(outcome, GRPC_STATUS_ALREADY_EXISTS, "Table Add failed table:%s",
			   text_of(table, "name"));
	for (unsigned i = 0; i < server->n_entries; i++)
		n += server->entries[i].table_id == entry->table_id;
	if (n >= json_integer_value(json_object_get(table, "size")) ||
	    server->n_entries == MAX_ENTRIES)
		return say(outcome, GRPC_STATUS_RESOURCE_EXHAUSTED, "%s is full",
			   text_of(table, "name"));
	if (entry->table_id == MGID && !check_group(server, entry, outcome))
		return false;
	server->entries[server->n_entries++] = *entry;
	return true;
}

static bool clear_table(struct bfrt_server *server, const json_t *table, struct outcome *outcome)
{
	uint32_t id = id_of(table);

	if (!is_type(table, "MatchAction_Direct") && !is_indexed(table))
		return say(outcome, GRPC_STATUS_UNIMPLEMENTED, "%s cannot be cleared",
			   text_of(table, "name"));
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
	struct bfrt_entry *entry = find_entry(server, wanted);

	if (entry == NULL)
		return MISSING("Table Entry delete failed table:%s",
			       text_of(table_of(server, wanted->table_id), "name"));
	if (entry->table_id == NODE && !check_unused(server, entry, outcome))
		return false;
	drop_entry(server, entry);
	return true;
}

static bool update_entry(struct bfrt_server *server, BfrtProto__Update__Type type,
			 const BfrtProto__TableEntry *message, struct outcome *outcome)
{
	const json_t *table = table_of(server, message->table_id);
	struct bfrt_entry entry = {.table_id = message->table_id}, *old;
	bool has_key = message->value_case == BFRT_PROTO__TABLE_ENTRY__VALUE_KEY;

	if (table == NULL)
		return MISSING("Table not found for id %u", message->table_id);
	if (has_key && !take_keys(table, message->key, &entry, outcome))
		return false;
	if (type == BFRT_PROTO__UPDATE__TYPE__DELETE)
		return has_key ? delete_entry(server, &entry, outcome)
			       : clear_table(server, table, outcome);
	if (!has_key)
		return WRONG("Table key cannot be empty");
	if (!take_data(table, message->data, &entry, outcome))
		return false;
	if (is_indexed(table))
		return write_cell(server, table, &entry, outcome);
	if (type == BFRT_PROTO__UPDATE__TYPE__INSERT)
		return add_entry(server, &entry, outcome);
	if (type != BFRT_PROTO__UPDATE__TYPE__MODIFY)
		return WRONG("Invalid update type");
	old = find_entry(server, &entry);
	if (old == NULL)
		return MISSING("Table Entry modify failed table:%s", text_of(table, "name"));
	*old = entry;
	return true;
}

/* ---- answers ---- */

static BfrtProto__DataField *data_field(uint32_t id, const uint8_t *bytes, size_t n)
{
	BfrtProto__DataField *field = calloc(1, sizeof(*field));

	bfrt_proto__data_field__init(field);
	field->field_id = id;
	field->value_case = BFRT_PROTO__DATA_FIELD__VALUE_STREAM;
	field->stream.len = n;
	field->stream.data = malloc(n + 1);
	memcpy(field->stream.data, bytes, n);
	return field;
}

static void add_field(BfrtProto__TableData *data, BfrtProto__DataField *field)
{
	data->fields = realloc(data->fields, (data->n_fields + 1) * sizeof(BfrtProto__DataField *));
	data->fields[data->n_fields++] = field;
}

static BfrtProto__TableEntry *answer_entry(const json_t *table, const struct bfrt_entry *entry)
{
	const json_t *fields = json_object_get(table, "key");
	BfrtProto__TableEntry *answer = calloc(1, sizeof(*answer));

	bfrt_proto__table_entry__init(answer);
	answer->table_id = entry->table_id;
	answer->value_case = BFRT_PROTO__TABLE_ENTRY__VALUE_KEY;
	answer->key = calloc(1, sizeof(*answer->key));
	bfrt_proto__table_key__init(answer->key);
	answer->key->fields = calloc(json_array_size(fields), sizeof(BfrtProto__KeyField *));
	for (size_t i = 0; i < json_array_size(fields); i++) {
		BfrtProto__KeyField *field = calloc(1, sizeof(*field));
		size_t n = (bits_of(json_array_get(fields, i)) + 7) / 8;

		bfrt_proto__key_field__init(field);
		field->field_id = id_of(json_array_get(fields, i));
		field->match_type_case = BFRT_PROTO__KEY_FIELD__MATCH_TYPE_EXACT;
		field->exact = calloc(1, sizeof(*field->exact));
		bfrt_proto__key_field__exact__init(field->exact);
		field->exact->value.len = n;
		field->exact->value.data = malloc(n + 1);
		memcpy(field->exact->value.data, entry->keys[i] + BFRT_BYTES - n, n);
		answer->key->fields[answer->key->n_fields++] = field;
	}
	answer->data = calloc(1, sizeof(*answer->data));
	bfrt_proto__table_data__init(answer->data);
	answer->data->action_id = entry->action_id;
	return answer;
}

static void add_number(BfrtProto__TableData *data, const json_t *field, uint64_t value)
{
	size_t n = (bits_of(field) + 7) / 8;
	uint8_t bytes[8];

	for (unsigned i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(value >> (56 - 8 * i));
	add_field(data, data_field(id_of(field), bytes + 8 - n, n));
}

/* Of each member, one value for each pipe that is asked; of a counter, one. */
static void answer_cell(const json_t *table, const struct cell *cell, uint32_t pipe,
			BfrtProto__TableData *data)
{
	const json_t *fields = json_object_get(table, "data");

	for (size_t i = 0; i < json_array_size(fields); i++) {
		const json_t *field = json_object_get(json_array_get(fields, i), "singleton");

		for (unsigned p = 0; p < BFRT_PIPES; p++)
			if (is_type(table, "Counter") ? p == 0 : pipe == ALL_PIPES || pipe == p)
				add_number(data, field, cell->values[p][i]);
	}
}

static void add_entity(BfrtProto__ReadResponse *response, BfrtProto__TableEntry *entry)
{
	BfrtProto__Entity *entity = calloc(1, sizeof(*entity));

	bfrt_proto__entity__init(entity);
	entity->entity_case = BFRT_PROTO__ENTITY__ENTITY_TABLE_ENTRY;
	entity->table_entry = entry;
	response->entities = realloc(response->entities,
				     (response->n_entities + 1) * sizeof(BfrtProto__Entity *));
	response->entities[response->n_entities++] = entity;
}

static bool read_indexed(struct bfrt_server *server, const json_t *table,
			 const struct bfrt_entry *wanted, uint32_t pipe, bool from_hardware,
			 BfrtProto__ReadResponse *response, struct outcome *outcome)
{
	uint64_t index = number_in(wanted->keys[0]);
	BfrtProto__TableEntry *answer;

	if (index >= (uint64_t)json_integer_value(json_object_get(table, "size")))
		return WRONG("index %llu is beyond the table", (unsigned long long)index);
	if (pipe != ALL_PIPES && pipe >= BFRT_PIPES)
		return WRONG("there is no pipe %u", pipe);
	answer = answer_entry(table, wanted);
	/* The driver remembers nothing. */
	answer_cell(table,
		    from_hardware ? cell_of(server, wanted->table_id, (uint32_t)index)
				  : &(struct cell){0},
		    pipe, answer->data);
	add_entity(response, answer);
	return true;
}

static bool read_entity(struct bfrt_server *server, const BfrtProto__Entity *entity, uint32_t pipe,
			BfrtProto__ReadResponse *response, struct outcome *outcome)
{
	const BfrtProto__TableEntry *message = entity->table_entry;
	struct bfrt_entry wanted = {0};
	const json_t *table;

	if (entity->entity_case == BFRT_PROTO__ENTITY__ENTITY_TABLE_USAGE)
		return table_of(server, entity->table_usage->table_id) != NULL ||
		       MISSING("Table not found");
	if (entity->entity_case != BFRT_PROTO__ENTITY__ENTITY_TABLE_ENTRY)
		return WRONG("Invalid Read entity received");
	table = table_of(server, message->table_id);
	if (table == NULL)
		return MISSING("Table not found for id %u", message->table_id);
	wanted.table_id = message->table_id;
	if (message->value_case != BFRT_PROTO__TABLE_ENTRY__VALUE_KEY) {
		for (unsigned i = 0; i < server->n_entries; i++)
			if (server->entries[i].table_id == message->table_id)
				add_entity(response, answer_entry(table, &server->entries[i]));
		return true;
	}
	if (!take_keys(table, message->key, &wanted, outcome))
		return false;
	if (is_indexed(table))
		return read_indexed(server, table, &wanted, pipe,
				    message->table_flags != NULL && message->table_flags->from_hw,
				    response, outcome);
	if (find_entry(server, &wanted) == NULL)
		return MISSING("Entry not found in table:%s", text_of(table, "name"));
	add_entity(response, answer_entry(table, find_entry(server, &wanted)));
	return true;
}

/* ---- requests ---- */

static struct client *client_of(struct bfrt_server *server, uint32_t id)
{
	for (unsigned i = 0; i < MAX_CLIENTS; i++)
		if (server->clients[i].subscribed && server->clients[i].id == id)
			return &server->clients[i];
	return NULL;
}

static bool check_client(struct bfrt_server *server, uint32_t id,
			 const BfrtProto__TargetDevice *target, struct outcome *outcome)
{
	const struct client *client = client_of(server, id);

	if (client == NULL || !client->bound)
		return say(outcome, GRPC_STATUS_UNKNOWN, "Unable to get bound_program");
	if (target == NULL || target->device_id != 0 || target->direction != ALL ||
	    target->prsr_id != ALL)
		return WRONG("another device, direction or parser");
	return true;
}

static Google__Rpc__Status__Any *part_of(const struct outcome *outcome)
{
	BfrtProto__Error error = BFRT_PROTO__ERROR__INIT;
	Google__Rpc__Status__Any *any = calloc(1, sizeof(*any));

	google__rpc__status__any__init(any);
	error.canonical_code = (int32_t)outcome->code;
	error.message = (char *)(uintptr_t)outcome->text;
	any->type_url = strdup("type.googleapis.com/bfrt_proto.Error");
	any->value.len = bfrt_proto__error__get_packed_size(&error);
	any->value.data = malloc(any->value.len + 1);
	bfrt_proto__error__pack(&error, any->value.data);
	return any;
}

/* One part of the request is done. */
static void add_part(Google__Rpc__Status *status, const struct outcome *outcome)
{
	status->details = realloc(status->details,
				  (status->n_details + 1) * sizeof(Google__Rpc__Status__Any *));
	status->details[status->n_details++] = part_of(outcome);
	if (outcome->code != GRPC_STATUS_OK)
		status->code = GRPC_STATUS_UNKNOWN;
}

static grpc_status_code do_write(struct bfrt_server *server, const BfrtProto__WriteRequest *request,
				 Google__Rpc__Status *status, struct outcome *outcome)
{
	if (!check_client(server, request->client_id, request->target, outcome))
		return outcome->code;
	if (request->target->pipe_id != ALL_PIPES)
		return WRONG("a single pipe"), outcome->code;
	for (size_t i = 0; i < request->n_updates; i++) {
		const BfrtProto__Update *update = request->updates[i];
		struct outcome one = {GRPC_STATUS_OK, ""};

		if (update->entity == NULL ||
		    update->entity->entity_case != BFRT_PROTO__ENTITY__ENTITY_TABLE_ENTRY)
			say(&one, GRPC_STATUS_UNIMPLEMENTED, "Invalid update.");
		else
			update_entry(server, update->type, update->entity->table_entry, &one);
		add_part(status, &one);
	}
	if (status->code != GRPC_STATUS_OK)
		say(outcome, GRPC_STATUS_UNKNOWN, "Write Error Status");
	return outcome->code;
}

static grpc_status_code do_read(struct bfrt_server *server, const BfrtProto__ReadRequest *request,
				BfrtProto__ReadResponse *response, Google__Rpc__Status *status,
				struct outcome *outcome)
{
	if (!check_client(server, request->client_id, request->target, outcome))
		return outcome->code;
	for (size_t i = 0; i < request->n_entities; i++) {
		struct outcome one = {GRPC_STATUS_OK, ""};

		read_entity(server, request->entities[i], request->target->pipe_id, response, &one);
		add_part(status, &one);
	}
	if (server->forgets && response->n_entities > 0)
		bfrt_proto__entity__free_unpacked(response->entities[--response->n_entities], NULL);
	if (status->code != GRPC_STATUS_OK)
		say(outcome, GRPC_STATUS_UNKNOWN, "Read Error Status");
	return outcome->code;
}

static bool do_bind(struct bfrt_server *server,
		    const BfrtProto__SetForwardingPipelineConfigRequest *request,
		    struct outcome *outcome)
{
	struct client *client = client_of(server, request->client_id);

	if (client == NULL)
		return say(outcome, GRPC_STATUS_UNAVAILABLE, "Unknown client. Client_id:%u",
			   request->client_id);
	if (request->action != BFRT_PROTO__SET_FORWARDING_PIPELINE_CONFIG_REQUEST__ACTION__BIND ||
	    request->n_config != 1 || request->device_id != 0)
		return WRONG("Exactly one config message required.");
	if (strcmp(request->config[0]->p4_name, PROGRAM) != 0)
		return MISSING("Failed to find BfRtInfo for program %s",
			       request->config[0]->p4_name);
	for (unsigned i = 0; i < MAX_CLIENTS; i++)
		if (server->clients[i].bound)
			return say(outcome, GRPC_STATUS_ALREADY_EXISTS,
				   "Client ID %u trying to bind but Client ID %u already owns this "
				   "P4",
				   request->client_id, server->clients[i].id);
	client->bound = true;
	return true;
}

static void set_text(ProtobufCBinaryData *bytes, json_t *json)
{
	bytes->data = (uint8_t *)json_dumps(json, 0);
	bytes->len = strlen((const char *)bytes->data);
}

static void get_programs(struct bfrt_server *server,
			 BfrtProto__GetForwardingPipelineConfigResponse *response)
{
	json_t *other = json_pack("{s:[{s:s,s:i}]}", "tables", "name", "pipe.Other.table", "id", 9);

	response->n_config = 2;
	response->config = calloc(2, sizeof(BfrtProto__ForwardingPipelineConfig *));
	for (unsigned i = 0; i < 2; i++) {
		response->config[i] = calloc(1, sizeof(*response->config[i]));
		bfrt_proto__forwarding_pipeline_config__init(response->config[i]);
		response->config[i]->p4_name = strdup(i == 0 ? "other" : PROGRAM);
		set_text(&response->config[i]->bfruntime_info, i == 0 ? other : server->program);
	}
	response->non_p4_config = calloc(1, sizeof(*response->non_p4_config));
	bfrt_proto__non_p4_config__init(response->non_p4_config);
	set_text(&response->non_p4_config->bfruntime_info, server->fixed);
	json_decref(other);
}

/* ---- gRPC ---- */

static void run_batch(grpc_call *call, grpc_completion_queue *queue, const grpc_op *ops, size_t n)
{
	/* Any address that no other batch has. */
	void *tag = (void *)(uintptr_t)ops;

	if (grpc_call_start_batch(call, ops, n, tag, NULL) != GRPC_CALL_OK)
		abort();
	grpc_completion_queue_pluck(queue, tag, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
}

/* The next message, or NULL if the client has ended. */
static ProtobufCMessage *receive(grpc_call *call, grpc_completion_queue *queue,
				 const ProtobufCMessageDescriptor *type)
{
	grpc_byte_buffer *buffer = NULL;
	grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &buffer};
	grpc_byte_buffer_reader reader;
	ProtobufCMessage *message;
	grpc_slice all;

	run_batch(call, queue, &op, 1);
	if (buffer == NULL || !grpc_byte_buffer_reader_init(&reader, buffer))
		return NULL;
	all = grpc_byte_buffer_reader_readall(&reader);
	message = protobuf_c_message_unpack(type, NULL, GRPC_SLICE_LENGTH(all),
					    GRPC_SLICE_START_PTR(all));
	grpc_slice_unref(all);
	grpc_byte_buffer_reader_destroy(&reader);
	grpc_byte_buffer_destroy(buffer);
	return message;
}

static grpc_slice pack(const ProtobufCMessage *message)
{
	grpc_slice slice = grpc_slice_malloc(protobuf_c_message_get_packed_size(message));

	protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));
	return slice;
}

static grpc_byte_buffer *pack_buffer(const ProtobufCMessage *message)
{
	grpc_slice slice = pack(message);
	grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);

	grpc_slice_unref(slice);
	return buffer;
}

static void answer(const struct rpc *rpc, const ProtobufCMessage *response,
		   const Google__Rpc__Status *details, const struct outcome *outcome)
{
	grpc_byte_buffer *buffer = pack_buffer(response);
	grpc_slice text = grpc_slice_from_copied_string(outcome->text);
	grpc_metadata trailing = {.key = grpc_slice_from_static_string("grpc-status-details-bin"),
				  .value = pack(&details->base)};
	int cancelled;
	grpc_op ops[] = {
		{.op = GRPC_OP_SEND_INITIAL_METADATA},
		{.op = GRPC_OP_SEND_STATUS_FROM_SERVER,
		 .data.send_status_from_server = {.trailing_metadata_count =
							  details->code != GRPC_STATUS_OK,
						  .trailing_metadata = &trailing,
						  .status = outcome->code,
						  .status_details = &text}},
		{.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
		 .data.recv_close_on_server.cancelled = &cancelled},
		{.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = buffer},
	};

	run_batch(rpc->call, rpc->queue, ops, outcome->code == GRPC_STATUS_OK ? 4 : 3);
	grpc_slice_unref(trailing.value);
	grpc_slice_unref(text);
	grpc_byte_buffer_destroy(buffer);
}

static void end_call(grpc_call *call, grpc_completion_queue *queue, grpc_metadata_array *metadata)
{
	grpc_metadata_array_destroy(metadata);
	grpc_call_unref(call);
	grpc_completion_queue_shutdown(queue);
	grpc_completion_queue_destroy(queue);
}

static bool is_method(const grpc_slice *method, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/bfrt_proto.BfRuntime/%s", name);
	return grpc_slice_str_cmp(*method, path) == 0;
}

#define RECEIVE(type) receive(rpc->call, rpc->queue, &bfrt_proto__##type##__descriptor)

static void serve_call(struct rpc *rpc)
{
	struct bfrt_server *server = rpc->server;
	BfrtProto__WriteResponse written = BFRT_PROTO__WRITE_RESPONSE__INIT;
	BfrtProto__ReadResponse read = BFRT_PROTO__READ_RESPONSE__INIT;
	BfrtProto__SetForwardingPipelineConfigResponse bound =
		BFRT_PROTO__SET_FORWARDING_PIPELINE_CONFIG_RESPONSE__INIT;
	BfrtProto__GetForwardingPipelineConfigResponse programs =
		BFRT_PROTO__GET_FORWARDING_PIPELINE_CONFIG_RESPONSE__INIT;
	Google__Rpc__Status details = GOOGLE__RPC__STATUS__INIT;
	struct outcome outcome = {GRPC_STATUS_OK, ""};
	ProtobufCMessage *request, *response;

	pthread_mutex_lock(&server->mutex);
	if (is_method(&rpc->details.method, "Write")) {
		request = RECEIVE(write_request);
		response = &written.base;
		do_write(server, (BfrtProto__WriteRequest *)request, &details, &outcome);
	} else if (is_method(&rpc->details.method, "Read")) {
		request = RECEIVE(read_request);
		response = &read.base;
		do_read(server, (BfrtProto__ReadRequest *)request, &read, &details, &outcome);
	} else if (is_method(&rpc->details.method, "SetForwardingPipelineConfig")) {
		request = RECEIVE(set_forwarding_pipeline_config_request);
		response = &bound.base;
		do_bind(server, (BfrtProto__SetForwardingPipelineConfigRequest *)request, &outcome);
	} else {
		request = RECEIVE(get_forwarding_pipeline_config_request);
		response = &programs.base;
		get_programs(server, &programs);
	}
	pthread_mutex_unlock(&server->mutex);
	answer(rpc, response, &details, &outcome);
	protobuf_c_message_free_unpacked(request, NULL);
	/* The messages are on the stack, and what they have is not. */
	for (size_t i = 0; i < read.n_entities; i++)
		bfrt_proto__entity__free_unpacked(read.entities[i], NULL);
	free(read.entities);
	for (size_t i = 0; i < programs.n_config; i++)
		bfrt_proto__forwarding_pipeline_config__free_unpacked(programs.config[i], NULL);
	free(programs.config);
	if (programs.non_p4_config != NULL)
		bfrt_proto__non_p4_config__free_unpacked(programs.non_p4_config, NULL);
	for (size_t i = 0; i < details.n_details; i++)
		protobuf_c_message_free_unpacked(&details.details[i]->base, NULL);
	free(details.details);
	end_call(rpc->call, rpc->queue, &rpc->metadata);
}

/* ---- streams ---- */

static void send_on_stream(struct client *client, BfrtProto__StreamMessageResponse *response)
{
	grpc_byte_buffer *buffer = pack_buffer(&response->base);
	grpc_op op = {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = buffer};

	run_batch(client->call, client->queue, &op, 1);
	grpc_byte_buffer_destroy(buffer);
}

/* false: the stream ends with this outcome. */
static bool subscribe(struct client *client, const BfrtProto__StreamMessageRequest *request,
		      struct outcome *outcome)
{
	BfrtProto__StreamMessageResponse response = BFRT_PROTO__STREAM_MESSAGE_RESPONSE__INIT;
	BfrtProto__Subscribe answer = BFRT_PROTO__SUBSCRIBE__INIT;
	Google__Rpc__Status status = GOOGLE__RPC__STATUS__INIT;

	if (request->update_case != BFRT_PROTO__STREAM_MESSAGE_REQUEST__UPDATE_SUBSCRIBE ||
	    request->subscribe->device_id != 0 || request->subscribe->notifications == NULL)
		return WRONG("this is no subscription");
	if (client_of(client->server, request->client_id) != NULL)
		return WRONG("Can't have two clients with the same client id");
	status.code = client->server->refuses ? GRPC_STATUS_RESOURCE_EXHAUSTED : GRPC_STATUS_OK;
	client->id = request->client_id;
	client->subscribed = true;
	answer.status = &status;
	response.update_case = BFRT_PROTO__STREAM_MESSAGE_RESPONSE__UPDATE_SUBSCRIBE;
	response.subscribe = &answer;
	send_on_stream(client, &response);
	return true;
}

static bool serve_message(struct client *client, struct outcome *outcome)
{
	ProtobufCMessage *message = receive(client->call, client->queue,
					    &bfrt_proto__stream_message_request__descriptor);
	bool goes_on = message != NULL;

	pthread_mutex_lock(&client->server->mutex);
	if (message != NULL && !client->subscribed)
		goes_on = subscribe(client, (BfrtProto__StreamMessageRequest *)message, outcome);
	pthread_mutex_unlock(&client->server->mutex);
	if (message != NULL)
		protobuf_c_message_free_unpacked(message, NULL);
	return goes_on;
}

static void *serve_stream(void *argument)
{
	struct client *client = argument;
	struct outcome outcome = {GRPC_STATUS_OK, ""};
	grpc_op begin = {.op = GRPC_OP_SEND_INITIAL_METADATA};
	grpc_slice text;
	int cancelled;

	run_batch(client->call, client->queue, &begin, 1);
	while (serve_message(client, &outcome))
		;
	text = grpc_slice_from_copied_string(outcome.text);
	grpc_op end[] = {
		{.op = GRPC_OP_SEND_STATUS_FROM_SERVER,
		 .data.send_status_from_server = {.status = outcome.code, .status_details = &text}},
		{.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
		 .data.recv_close_on_server.cancelled = &cancelled},
	};
	run_batch(client->call, client->queue, end, 2);
	grpc_slice_unref(text);
	/* As bf_switchd: with the stream goes the binding. The call goes with the thread. */
	pthread_mutex_lock(&client->server->mutex);
	client->subscribed = client->bound = false;
	pthread_mutex_unlock(&client->server->mutex);
	return NULL;
}

static void begin_stream(struct rpc *rpc)
{
	struct bfrt_server *server = rpc->server;

	for (unsigned i = 0; i < MAX_CLIENTS; i++) {
		struct client *client = &server->clients[i];

		if (client->used)
			continue;
		*client = (struct client){.server = server,
					  .call = rpc->call,
					  .queue = rpc->queue,
					  .metadata = rpc->metadata,
					  .used = true};
		if (pthread_create(&client->thread, NULL, serve_stream, client) != 0)
			abort();
		return;
	}
	abort();
}

static void *serve(void *argument)
{
	struct bfrt_server *server = argument;
	struct rpc rpc;

	for (;;) {
		grpc_event event;

		rpc = (struct rpc){.server = server,
				   .queue = grpc_completion_queue_create_for_pluck(NULL)};
		grpc_metadata_array_init(&rpc.metadata);
		grpc_call_details_init(&rpc.details);
		if (grpc_server_request_call(server->server, &rpc.call, &rpc.details, &rpc.metadata,
					     rpc.queue, server->queue, &rpc) != GRPC_CALL_OK)
			abort();
		event = grpc_completion_queue_next(server->queue,
						   gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
		if (!event.success || event.tag != &rpc)
			break;
		if (is_method(&rpc.details.method, "StreamChannel"))
			begin_stream(&rpc);
		else
			serve_call(&rpc);
		grpc_call_details_destroy(&rpc.details);
	}
	/* Shut down: this request has failed, and the server's own event is the other one. */
	grpc_call_details_destroy(&rpc.details);
	grpc_metadata_array_destroy(&rpc.metadata);
	grpc_completion_queue_shutdown(rpc.queue);
	grpc_completion_queue_destroy(rpc.queue);
	return NULL;
}

struct bfrt_server *bfrt_server_open(json_t *program, json_t *fixed)
{
	struct bfrt_server *server = calloc(1, sizeof(*server));
	grpc_server_credentials *none;

	grpc_init();
	none = grpc_insecure_server_credentials_create();
	pthread_mutex_init(&server->mutex, NULL);
	server->program = program;
	server->fixed = fixed;
	server->entries = calloc(MAX_ENTRIES, sizeof(server->entries[0]));
	server->cells = calloc(MAX_ENTRIES, sizeof(server->cells[0]));
	server->queue = grpc_completion_queue_create_for_next(NULL);
	server->server = grpc_server_create(NULL, NULL);
	grpc_server_register_completion_queue(server->server, server->queue, NULL);
	server->port = (uint16_t)grpc_server_add_http2_port(server->server, "127.0.0.1:0", none);
	grpc_server_credentials_release(none);
	if (server->port == 0)
		abort();
	grpc_server_start(server->server);
	if (pthread_create(&server->thread, NULL, serve, server) != 0)
		abort();
	return server;
}

void bfrt_server_close(struct bfrt_server *server)
{
	/* Both events come: of the request that waits, and of the server. */
	grpc_server_shutdown_and_notify(server->server, server->queue, server);
	grpc_server_cancel_all_calls(server->server);
	for (unsigned i = 0; i < MAX_CLIENTS; i++)
		if (server->clients[i].used) {
			struct client *client = &server->clients[i];

			pthread_join(client->thread, NULL);
			end_call(client->call, client->queue, &client->metadata);
		}
	pthread_join(server->thread, NULL);
	grpc_completion_queue_next(server->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
	grpc_server_destroy(server->server);
	grpc_completion_queue_shutdown(server->queue);
	grpc_completion_queue_destroy(server->queue);
	pthread_mutex_destroy(&server->mutex);
	json_decref(server->program);
	json_decref(server->fixed);
	free(server->entries);
	free(server->cells);
	free(server);
	grpc_shutdown();
}

uint16_t bfrt_server_port(const struct bfrt_server *server)
{
	return server->port;
}

/* ---- for the test ---- */

#define LOCKED(server)                                                                             \
	for (bool once = (pthread_mutex_lock(&(server)->mutex), true); once;                       \
	     once = (pthread_mutex_unlock(&(server)->mutex), false))

const struct bfrt_entry *bfrt_server_nth(struct bfrt_server *server, const char *table, unsigned i)
{
	uint32_t id = id_of(table_named(server, table));
	const struct bfrt_entry *found = NULL;

	LOCKED(server)
	for (unsigned each = 0; each < server->n_entries && found == NULL; each++)
		if (server->entries[each].table_id == id && i-- == 0)
			found = &server->entries[each];
	return found;
}

unsigned bfrt_server_entries(struct bfrt_server *server, const char *table)
{
	unsigned n = 0;

	while (bfrt_server_nth(server, table, n) != NULL)
		n++;
	return n;
}

const struct bfrt_entry *bfrt_server_entry(struct bfrt_server *server, const char *table,
					   uint64_t key)
{
	const struct bfrt_entry *found = NULL;

	LOCKED(server)
	found = numbered(server, id_of(table_named(server, table)), key);
	return found;
}

uint64_t bfrt_server_number(struct bfrt_server *server, const struct bfrt_entry *entry,
			    const char *parameter)
{
	const json_t *actions = json_object_get(table_of(server, entry->table_id), "action_specs");
	const json_t *fields = json_object_get(by_id(actions, entry->action_id), "data");

	for (size_t i = 0; i < json_array_size(fields); i++)
		if (strcmp(text_of(json_array_get(fields, i), "name"), parameter) == 0)
			return number_in(entry->data[id_of(json_array_get(fields, i))]);
	fprintf(stderr, "the entry has no parameter %s\n", parameter);
	abort();
}

void bfrt_server_leave(struct bfrt_server *server, const char *table, uint32_t key)
{
	struct bfrt_entry entry = {.table_id = id_of(table_named(server, table))};

	for (unsigned i = 0; i < 4; i++)
		entry.keys[0][BFRT_BYTES - 1 - i] = (uint8_t)(key >> 8 * i);
	LOCKED(server)
	server->entries[server->n_entries++] = entry;
}

void bfrt_server_set_register(struct bfrt_server *server, const char *table, unsigned pipe,
			      uint32_t index, unsigned i, uint64_t value)
{
	LOCKED(server)
	cell_of(server, id_of(table_named(server, table)), index)->values[pipe][i] = value;
}

uint64_t bfrt_server_register(struct bfrt_server *server, const char *table, unsigned pipe,
			      uint32_t index, unsigned i)
{
	uint64_t value = 0;

	LOCKED(server)
	value = cell_of(server, id_of(table_named(server, table)), index)->values[pipe][i];
	return value;
}

void bfrt_server_set_counter(struct bfrt_server *server, const char *table, uint32_t index,
			     uint64_t packets, uint64_t bytes)
{
	const json_t *fields = json_object_get(table_named(server, table), "data");

	for (size_t i = 0; i < json_array_size(fields); i++) {
		const json_t *field = json_object_get(json_array_get(fields, i), "singleton");
		bool is_bytes = strcmp(text_of(field, "name"), "$COUNTER_SPEC_BYTES") == 0;

		bfrt_server_set_register(server, table, 0, index, (unsigned)i,
					 is_bytes ? bytes : packets);
	}
}

unsigned bfrt_server_clients(struct bfrt_server *server)
{
	unsigned n = 0;

	LOCKED(server)
	for (unsigned i = 0; i < MAX_CLIENTS; i++)
		n += server->clients[i].subscribed;
	return n;
}

void bfrt_server_disconnect(struct bfrt_server *server)
{
	LOCKED(server)
	for (unsigned i = 0; i < MAX_CLIENTS; i++)
		if (server->clients[i].subscribed)
			grpc_call_cancel(server->clients[i].call, NULL);
}

void bfrt_server_replace_program(struct bfrt_server *server)
{
	BfrtProto__StreamMessageResponse response = BFRT_PROTO__STREAM_MESSAGE_RESPONSE__INIT;
	BfrtProto__SetForwardingPipelineConfigResponse begins =
		BFRT_PROTO__SET_FORWARDING_PIPELINE_CONFIG_RESPONSE__INIT;

	response.update_case =
		BFRT_PROTO__STREAM_MESSAGE_RESPONSE__UPDATE_SET_FORWARDING_PIPELINE_CONFIG_RESPONSE;
	response.set_forwarding_pipeline_config_response = &begins;
	LOCKED(server)
	for (unsigned i = 0; i < MAX_CLIENTS; i++)
		if (server->clients[i].subscribed)
			send_on_stream(&server->clients[i], &response);
}

void bfrt_server_refuse_clients(struct bfrt_server *server)
{
	LOCKED(server)
	server->refuses = true;
}

void bfrt_server_forget_answers(struct bfrt_server *server)
{
	LOCKED(server)
	server->forgets = true;
}
