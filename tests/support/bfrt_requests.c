/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests to the server of BF Runtime. Errors have the codes and the texts that bf_switchd was
 * seen to give (November 2026), with one part for each update or entity, except where a comment
 * says so. bf_switchd takes more than this server: a parameter that is missing, and more bits than
 * a field has.
 */
#include "bfrt_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- answers ---- */

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
		size_t n = (bfrt_bits_of(json_array_get(fields, i)) + 7) / 8;

		bfrt_proto__key_field__init(field);
		field->field_id = bfrt_id_of(json_array_get(fields, i));
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
	BfrtProto__DataField *answer = calloc(1, sizeof(*answer));
	size_t n = (bfrt_bits_of(field) + 7) / 8;

	bfrt_proto__data_field__init(answer);
	answer->field_id = bfrt_id_of(field);
	answer->value_case = BFRT_PROTO__DATA_FIELD__VALUE_STREAM;
	answer->stream.len = n;
	answer->stream.data = malloc(n + 1);
	for (size_t i = 0; i < n; i++)
		answer->stream.data[i] = (uint8_t)(value >> 8 * (n - 1 - i));
	data->fields = realloc(data->fields, (data->n_fields + 1) * sizeof(BfrtProto__DataField *));
	data->fields[data->n_fields++] = answer;
}

/* Of each member, one value for each pipe that is asked; of a counter, one. */
static void answer_cell(const json_t *table, const struct cell *cell, uint32_t pipe,
			BfrtProto__TableData *data)
{
	const json_t *fields = json_object_get(table, "data");

	for (size_t i = 0; i < json_array_size(fields); i++) {
		const json_t *field = json_object_get(json_array_get(fields, i), "singleton");

		for (unsigned p = 0; p < BFRT_PIPES; p++)
			if (bfrt_is_type(table, "Counter") ? p == 0
							   : pipe == ALL_PIPES || pipe == p)
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
	uint64_t index = bfrt_number_in(wanted->keys[0]);
	BfrtProto__TableEntry *answer;

	/* A counter has no pipes. */
	if (index >= (uint64_t)json_integer_value(json_object_get(table, "size")) ||
	    (pipe != ALL_PIPES && (pipe >= BFRT_PIPES || bfrt_is_type(table, "Counter"))))
		return WRONG("Entry not found in table:%s", bfrt_text_of(table, "name"));
	answer = answer_entry(table, wanted);
	/* The driver remembers nothing. */
	answer_cell(table,
		    from_hardware ? bfrt_cell_of(server, wanted->table_id, (uint32_t)index)
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
		return bfrt_table_of(server, entity->table_usage->table_id) != NULL ||
		       MISSING("Unable to find table");
	if (entity->entity_case != BFRT_PROTO__ENTITY__ENTITY_TABLE_ENTRY)
		return WRONG("Invalid Read entity received");
	table = bfrt_table_of(server, message->table_id);
	if (table == NULL)
		return MISSING("Table not found for id %u", message->table_id);
	wanted.table_id = message->table_id;
	if (message->value_case != BFRT_PROTO__TABLE_ENTRY__VALUE_KEY) {
		for (unsigned i = 0; i < server->n_entries; i++)
			if (server->entries[i].table_id == message->table_id)
				add_entity(response, answer_entry(table, &server->entries[i]));
		return true;
	}
	if (!bfrt_take_keys(table, message->key, &wanted, outcome))
		return false;
	if (bfrt_is_indexed(table))
		return read_indexed(server, table, &wanted, pipe,
				    message->table_flags != NULL && message->table_flags->from_hw,
				    response, outcome);
	if (bfrt_find_entry(server, &wanted) == NULL)
		return MISSING("Entry not found in table:%s", bfrt_text_of(table, "name"));
	add_entity(response, answer_entry(table, bfrt_find_entry(server, &wanted)));
	return true;
}

/* ---- requests ---- */

struct client *bfrt_client_of(struct bfrt_server *server, uint32_t id)
{
	for (unsigned i = 0; i < MAX_CLIENTS; i++)
		if (server->clients[i].subscribed && server->clients[i].id == id)
			return &server->clients[i];
	return NULL;
}

static bool check_client(struct bfrt_server *server, uint32_t id,
			 const BfrtProto__TargetDevice *target, struct outcome *outcome)
{
	const struct client *client = bfrt_client_of(server, id);

	if (client == NULL)
		return MISSING("Unable to obtain BF_RT info for ()");
	if (!client->bound)
		return bfrt_refuse(outcome, GRPC_STATUS_UNKNOWN,
				   "Unable to get bound_program Unexpected error");
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

grpc_status_code bfrt_do_write(struct bfrt_server *server, const BfrtProto__WriteRequest *request,
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
			bfrt_refuse(&one, GRPC_STATUS_UNIMPLEMENTED, "Invalid update.");
		else
			bfrt_update_entry(server, update->type, update->entity->table_entry, &one);
		add_part(status, &one);
	}
	if (status->code != GRPC_STATUS_OK)
		bfrt_refuse(outcome, GRPC_STATUS_UNKNOWN, "Write Error Status");
	return outcome->code;
}

grpc_status_code bfrt_do_read(struct bfrt_server *server, const BfrtProto__ReadRequest *request,
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
		bfrt_refuse(outcome, GRPC_STATUS_UNKNOWN, "Read Error Status");
	return outcome->code;
}

bool bfrt_do_bind(struct bfrt_server *server,
		  const BfrtProto__SetForwardingPipelineConfigRequest *request,
		  struct outcome *outcome)
{
	struct client *client = bfrt_client_of(server, request->client_id);

	/* bf_switchd binds a client without a stream, too, but nothing would end that: our text. */
	if (client == NULL)
		return WRONG("a client without a stream");
	if (request->action != BFRT_PROTO__SET_FORWARDING_PIPELINE_CONFIG_REQUEST__ACTION__BIND ||
	    request->n_config != 1 || request->device_id != 0)
		return WRONG("Exactly one config message required.");
	if (strcmp(request->config[0]->p4_name, PROGRAM) != 0)
		return MISSING("Failed to find BfRtInfo for program %s",
			       request->config[0]->p4_name);
	for (unsigned i = 0; i < MAX_CLIENTS; i++)
		if (server->clients[i].bound)
			return bfrt_refuse(
				outcome, GRPC_STATUS_ALREADY_EXISTS,
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

void bfrt_get_programs(struct bfrt_server *server,
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
