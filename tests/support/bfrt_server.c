/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server of BF Runtime: see bfrt_server.h. One thread answers calls, and each client's stream has
 * a thread. All state is under one mutex. What was wrong with a request's parts is in the metadata
 * "grpc-status-details-bin".
 */
#include "bfrt_server.h"

#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bfrt_internal.h"

/* A call of one request that is being answered. */
struct rpc {
	struct bfrt_server *server;
	grpc_call *call;
	grpc_completion_queue *queue;
	grpc_metadata_array metadata;
	grpc_call_details details;
};

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
		bfrt_do_write(server, (BfrtProto__WriteRequest *)request, &details, &outcome);
	} else if (is_method(&rpc->details.method, "Read")) {
		request = RECEIVE(read_request);
		response = &read.base;
		bfrt_do_read(server, (BfrtProto__ReadRequest *)request, &read, &details, &outcome);
	} else if (is_method(&rpc->details.method, "SetForwardingPipelineConfig")) {
		request = RECEIVE(set_forwarding_pipeline_config_request);
		response = &bound.base;
		bfrt_do_bind(server, (BfrtProto__SetForwardingPipelineConfigRequest *)request,
			     &outcome);
	} else {
		request = RECEIVE(get_forwarding_pipeline_config_request);
		response = &programs.base;
		bfrt_get_programs(server, &programs);
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

	if (request->update_case != BFRT_PROTO__STREAM_MESSAGE_REQUEST__UPDATE_SUBSCRIBE ||
	    request->subscribe->device_id != 0 || request->subscribe->notifications == NULL)
		return WRONG("this is no subscription");
	if (client->server->numbers_are_taken ||
	    bfrt_client_of(client->server, request->client_id) != NULL)
		return WRONG("Can't have two clients with the same client id");
	client->id = request->client_id;
	client->subscribed = true;
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
	uint32_t id = bfrt_id_of(bfrt_table_named(server, table));
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
	found = bfrt_numbered(server, bfrt_id_of(bfrt_table_named(server, table)), key);
	return found;
}

uint64_t bfrt_server_number(struct bfrt_server *server, const struct bfrt_entry *entry,
			    const char *parameter)
{
	const json_t *actions =
		json_object_get(bfrt_table_of(server, entry->table_id), "action_specs");
	const json_t *fields = json_object_get(bfrt_by_id(actions, entry->action_id), "data");

	for (size_t i = 0; i < json_array_size(fields); i++)
		if (strcmp(bfrt_text_of(json_array_get(fields, i), "name"), parameter) == 0)
			return bfrt_number_in(entry->data[bfrt_id_of(json_array_get(fields, i))]);
	fprintf(stderr, "the entry has no parameter %s\n", parameter);
	abort();
}

void bfrt_server_leave(struct bfrt_server *server, const char *table, uint32_t key)
{
	struct bfrt_entry entry = {.table_id = bfrt_id_of(bfrt_table_named(server, table))};

	for (unsigned i = 0; i < 4; i++)
		entry.keys[0][BFRT_BYTES - 1 - i] = (uint8_t)(key >> 8 * i);
	LOCKED(server)
	server->entries[server->n_entries++] = entry;
}

void bfrt_server_set_register(struct bfrt_server *server, const char *table, unsigned pipe,
			      uint32_t index, unsigned i, uint64_t value)
{
	LOCKED(server)
	bfrt_cell_of(server, bfrt_id_of(bfrt_table_named(server, table)), index)->values[pipe][i] =
		value;
}

uint64_t bfrt_server_register(struct bfrt_server *server, const char *table, unsigned pipe,
			      uint32_t index, unsigned i)
{
	uint64_t value = 0;

	LOCKED(server)
	value = bfrt_cell_of(server, bfrt_id_of(bfrt_table_named(server, table)), index)
			->values[pipe][i];
	return value;
}

void bfrt_server_set_counter(struct bfrt_server *server, const char *table, uint32_t index,
			     uint64_t packets, uint64_t bytes)
{
	const json_t *fields = json_object_get(bfrt_table_named(server, table), "data");

	for (size_t i = 0; i < json_array_size(fields); i++) {
		const json_t *field = json_object_get(json_array_get(fields, i), "singleton");
		bool is_bytes = strcmp(bfrt_text_of(field, "name"), "$COUNTER_SPEC_BYTES") == 0;

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

void bfrt_server_take_numbers(struct bfrt_server *server)
{
	LOCKED(server)
	server->numbers_are_taken = true;
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

unsigned bfrt_server_cleared(struct bfrt_server *server, const char *table)
{
	uint32_t id = bfrt_id_of(bfrt_table_named(server, table));
	unsigned n = 0;

	LOCKED(server)
	for (n = server->n_cleared; n > 0 && server->cleared[(n - 1) % 256] != id;)
		n--;
	return n;
}

void bfrt_server_forget_answers(struct bfrt_server *server)
{
	LOCKED(server)
	server->forgets = true;
}
