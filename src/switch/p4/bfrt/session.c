/* SPDX-License-Identifier: BSD-3-Clause */
/* A client of BF Runtime: see session.h. */
#include "switch/p4/bfrt/session.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/base.h"

#define SERVICE	   "/bfrt_proto.BfRuntime/"
#define PATIENCE_S 10
#define ALL	   0xff
/* The driver keeps a client's number in 24 bits of a word. */
#define CLIENT_BITS 0xffffff

static const struct sml_rpc_method write_method = {SERVICE "Write",
						   &bfrt_proto__write_response__descriptor};
static const struct sml_rpc_method read_method = {SERVICE "Read",
						  &bfrt_proto__read_response__descriptor};
static const struct sml_rpc_method bind_method = {
	SERVICE "SetForwardingPipelineConfig",
	&bfrt_proto__set_forwarding_pipeline_config_response__descriptor};
static const struct sml_rpc_method program_method = {
	SERVICE "GetForwardingPipelineConfig",
	&bfrt_proto__get_forwarding_pipeline_config_response__descriptor};
static const struct sml_rpc_method stream_method = {
	SERVICE "StreamChannel", &bfrt_proto__stream_message_response__descriptor};

int sml_bfrt_fail(const struct sml_bfrt *bfrt, int error, const char *what, const char *why)
{
	return bfrt->services->error_set(error, "the P4 switch at %s: %s: %s", bfrt->where, what,
					 why);
}

static int fail_rpc(const struct sml_bfrt *bfrt, int error, const char *what)
{
	return sml_bfrt_fail(bfrt, error, what, sml_rpc_why(bfrt->rpc));
}

/* ---- the stream ---- */

/* The answer to the subscription. A refusal ends the stream; other messages are passed over. */
static int take_answer(struct sml_bfrt *bfrt, bool *answered)
{
	BfrtProto__StreamMessageResponse *response;
	ProtobufCMessage *message = NULL;
	int rc = sml_rpc_stream_receive(bfrt->stream, &message, 1000 * PATIENCE_S);

	if (rc == 0)
		return sml_bfrt_fail(bfrt, -ETIMEDOUT, "connecting",
				     "no answer in time: is it BF Runtime's port?");
	if (rc < 0)
		return fail_rpc(bfrt, rc, "connecting");
	response = (BfrtProto__StreamMessageResponse *)message;
	*answered = response->update_case == BFRT_PROTO__STREAM_MESSAGE_RESPONSE__UPDATE_SUBSCRIBE;
	protobuf_c_message_free_unpacked(message, NULL);
	return 0;
}

static int open_stream(struct sml_bfrt *bfrt)
{
	BfrtProto__StreamMessageRequest request = BFRT_PROTO__STREAM_MESSAGE_REQUEST__INIT;
	BfrtProto__Subscribe subscribe = BFRT_PROTO__SUBSCRIBE__INIT;
	/* None is wanted. */
	BfrtProto__Subscribe__Notifications notifications =
		BFRT_PROTO__SUBSCRIBE__NOTIFICATIONS__INIT;
	bool answered = false;
	int rc;

	subscribe.device_id = bfrt->device;
	subscribe.notifications = &notifications;
	request.client_id = bfrt->client_id;
	request.update_case = BFRT_PROTO__STREAM_MESSAGE_REQUEST__UPDATE_SUBSCRIBE;
	request.subscribe = &subscribe;
	rc = sml_rpc_stream_open(&bfrt->stream, bfrt->rpc, &stream_method, &request.base,
				 PATIENCE_S);
	if (rc < 0)
		return fail_rpc(bfrt, rc, "connecting");
	while (rc == 0 && !answered)
		rc = take_answer(bfrt, &answered);
	return rc;
}

/* ---- the program ---- */

struct search {
	struct sml_bfrt *bfrt;
	const char *table;
	char *program; /* its name */
	bool has_text; /* an error's text is set */
};

static int take_program(struct search *search, const BfrtProto__ForwardingPipelineConfig *config,
			const BfrtProto__NonP4Config *fixed)
{
	struct sml_bfrt_schema *schema = &search->bfrt->schema;
	int rc = sml_bfrt_schema_parse(schema, config->bfruntime_info.data,
				       config->bfruntime_info.len, fixed->bfruntime_info.data,
				       fixed->bfruntime_info.len);

	search->has_text = rc < 0;
	if (rc < 0)
		return sml_bfrt_fail(search->bfrt, rc, config->p4_name,
				     "its bf-rt.json is no JSON: compile the program again");
	if (sml_bfrt_table(schema, search->table) == NULL) {
		sml_bfrt_schema_free(schema);
		return 0;
	}
	search->program = strdup(config->p4_name);
	return search->program != NULL ? 0 : -ENOMEM;
}

/* A device may run several programs. */
static int look_for_program(void *context, const ProtobufCMessage *reply)
{
	const BfrtProto__GetForwardingPipelineConfigResponse *response =
		(const BfrtProto__GetForwardingPipelineConfigResponse *)reply;
	struct search *search = context;
	int rc = 0;

	for (size_t i = 0; i < response->n_config && response->non_p4_config != NULL &&
			   search->program == NULL && rc == 0;
	     i++)
		rc = take_program(search, response->config[i], response->non_p4_config);
	return rc;
}

static int find_program(struct sml_bfrt *bfrt, const char *table, char **program)
{
	BfrtProto__GetForwardingPipelineConfigRequest request =
		BFRT_PROTO__GET_FORWARDING_PIPELINE_CONFIG_REQUEST__INIT;
	struct search search = {.bfrt = bfrt, .table = table};
	int rc;

	request.device_id = bfrt->device;
	request.client_id = bfrt->client_id;
	rc = sml_rpc_call(bfrt->rpc, &program_method, &request.base, look_for_program, &search,
			  PATIENCE_S);
	*program = search.program;
	if (rc < 0)
		return search.has_text ? rc : fail_rpc(bfrt, rc, "its program");
	if (search.program == NULL)
		return bfrt->services->error_set(-ENOENT,
						 "the P4 switch at %s does not run "
						 "p4/tna/switchml.p4: start bf_switchd with it",
						 bfrt->where);
	return 0;
}

#define BIND_TRIES    20
#define BIND_PAUSE_MS 50

static int bind_to(struct sml_bfrt *bfrt, char *program)
{
	BfrtProto__SetForwardingPipelineConfigRequest request =
		BFRT_PROTO__SET_FORWARDING_PIPELINE_CONFIG_REQUEST__INIT;
	BfrtProto__ForwardingPipelineConfig config = BFRT_PROTO__FORWARDING_PIPELINE_CONFIG__INIT;
	BfrtProto__ForwardingPipelineConfig *configs[] = {&config};
	int rc = -EEXIST;

	config.p4_name = program;
	request.device_id = bfrt->device;
	request.client_id = bfrt->client_id;
	request.action = BFRT_PROTO__SET_FORWARDING_PIPELINE_CONFIG_REQUEST__ACTION__BIND;
	request.n_config = 1;
	request.config = configs;
	/* The server may not have seen yet that the last daemon has ended. */
	for (unsigned tries = 0; rc == -EEXIST && tries < BIND_TRIES; tries++) {
		if (tries > 0)
			poll(NULL, 0, BIND_PAUSE_MS);
		rc = sml_rpc_call(bfrt->rpc, &bind_method, &request.base, NULL, NULL, PATIENCE_S);
	}
	if (rc == -EEXIST)
		return bfrt->services->error_set(rc,
						 "the P4 switch at %s: another client controls the "
						 "program %s: end it first (%s)",
						 bfrt->where, program, sml_rpc_why(bfrt->rpc));
	return rc < 0 ? fail_rpc(bfrt, rc, program) : 0;
}

/* ---- opening ---- */

int sml_bfrt_connect(struct sml_bfrt *bfrt, const struct sml_p4_address *address, const char *table,
		     const struct sml_p4_services *services)
{
	char *program = NULL;
	const char *why;
	int rc;

	*bfrt = (struct sml_bfrt){.services = services, .device = address->device};
	snprintf(bfrt->where, sizeof(bfrt->where), "%s port %u", address->host, address->port);
	if (getrandom(&bfrt->client_id, sizeof(bfrt->client_id), 0) != sizeof(bfrt->client_id))
		return services->error_set(-errno, "no random numbers: %s", strerror(errno));
	/* Two clients of a switch must not have the same number. */
	bfrt->client_id = (bfrt->client_id & CLIENT_BITS) | 1;
	rc = sml_rpc_open(&bfrt->rpc, address->host, address->port, &why);
	if (rc < 0)
		return services->error_set(rc,
					   "the P4 switch at %s cannot be reached: %s: does "
					   "bf_switchd run there?",
					   bfrt->where, why);
	rc = open_stream(bfrt);
	if (rc == 0)
		rc = find_program(bfrt, table, &program);
	if (rc == 0)
		rc = bind_to(bfrt, program);
	free(program);
	return rc;
}

void sml_bfrt_disconnect(struct sml_bfrt *bfrt)
{
	/* With the stream ends the binding. */
	sml_rpc_stream_close(bfrt->stream);
	if (bfrt->rpc != NULL)
		sml_rpc_close(bfrt->rpc);
	sml_bfrt_schema_free(&bfrt->schema);
	*bfrt = (struct sml_bfrt){0};
}

/* ---- reading and writing ---- */

static BfrtProto__TargetDevice device_of(const struct sml_bfrt *bfrt, uint32_t pipe)
{
	BfrtProto__TargetDevice device = BFRT_PROTO__TARGET_DEVICE__INIT;

	device.device_id = bfrt->device;
	device.pipe_id = pipe;
	device.direction = ALL;
	device.prsr_id = ALL;
	return device;
}

static BfrtProto__Entity entity_of(BfrtProto__TableEntry *entry)
{
	BfrtProto__Entity entity = BFRT_PROTO__ENTITY__INIT;

	entity.entity_case = BFRT_PROTO__ENTITY__ENTITY_TABLE_ENTRY;
	entity.table_entry = entry;
	return entity;
}

int sml_bfrt_write(struct sml_bfrt *bfrt, const char *what, BfrtProto__Update__Type type,
		   BfrtProto__TableEntry *const *entries, size_t n)
{
	BfrtProto__WriteRequest request = BFRT_PROTO__WRITE_REQUEST__INIT;
	BfrtProto__TargetDevice device = device_of(bfrt, SML_BFRT_ALL_PIPES);
	BfrtProto__Update updates[SML_BFRT_BATCH], *pointers[SML_BFRT_BATCH];
	BfrtProto__Entity entities[SML_BFRT_BATCH];
	int rc;

	sml_assert(n <= SML_BFRT_BATCH);
	for (size_t i = 0; i < n; i++) {
		bfrt_proto__update__init(&updates[i]);
		entities[i] = entity_of(entries[i]);
		updates[i].type = type;
		updates[i].entity = &entities[i];
		pointers[i] = &updates[i];
	}
	request.target = &device;
	request.client_id = bfrt->client_id;
	request.n_updates = n;
	request.updates = pointers;
	rc = sml_rpc_call(bfrt->rpc, &write_method, &request.base, NULL, NULL, PATIENCE_S);
	return rc < 0 ? fail_rpc(bfrt, rc, what) : 0;
}

struct reading {
	sml_bfrt_on_entry *on_entry;
	void *context;
};

static int pass_entries(void *context, const ProtobufCMessage *reply)
{
	const BfrtProto__ReadResponse *response = (const BfrtProto__ReadResponse *)reply;
	const struct reading *reading = context;

	for (size_t i = 0; i < response->n_entities; i++) {
		const BfrtProto__Entity *entity = response->entities[i];

		if (entity->entity_case == BFRT_PROTO__ENTITY__ENTITY_TABLE_ENTRY)
			reading->on_entry(reading->context, entity->table_entry);
	}
	return 0;
}

/* reading: NULL if no entries are wanted. */
static int call_read(struct sml_bfrt *bfrt, const char *what, uint32_t pipe,
		     BfrtProto__Entity **entities, size_t n, struct reading *reading)
{
	BfrtProto__ReadRequest request = BFRT_PROTO__READ_REQUEST__INIT;
	BfrtProto__TargetDevice device = device_of(bfrt, pipe);
	int rc;

	request.target = &device;
	request.client_id = bfrt->client_id;
	request.n_entities = n;
	request.entities = entities;
	rc = sml_rpc_call(bfrt->rpc, &read_method, &request.base,
			  reading != NULL ? pass_entries : NULL, reading, PATIENCE_S);
	return rc < 0 ? fail_rpc(bfrt, rc, what) : 0;
}

int sml_bfrt_read(struct sml_bfrt *bfrt, const char *what, uint32_t pipe,
		  BfrtProto__TableEntry *const *entries, size_t n, sml_bfrt_on_entry *on_entry,
		  void *context)
{
	struct reading reading = {.on_entry = on_entry, .context = context};
	BfrtProto__Entity entities[SML_BFRT_BATCH], *pointers[SML_BFRT_BATCH];

	sml_assert(n <= SML_BFRT_BATCH);
	for (size_t i = 0; i < n; i++) {
		entities[i] = entity_of(entries[i]);
		pointers[i] = &entities[i];
	}
	return call_read(bfrt, what, pipe, pointers, n, &reading);
}

/* ---- is it still there? ---- */

/* Messages on the stream are about the program. */
static int check_stream(struct sml_bfrt *bfrt)
{
	ProtobufCMessage *message = NULL;
	int rc;

	while ((rc = sml_rpc_stream_receive(bfrt->stream, &message, 0)) > 0) {
		const BfrtProto__StreamMessageResponse *response =
			(const BfrtProto__StreamMessageResponse *)message;
		bool changes =
			response->update_case ==
			BFRT_PROTO__STREAM_MESSAGE_RESPONSE__UPDATE_SET_FORWARDING_PIPELINE_CONFIG_RESPONSE;

		protobuf_c_message_free_unpacked(message, NULL);
		if (changes)
			return sml_bfrt_fail(bfrt, -ESTALE, "its program",
					     "another client has replaced it");
	}
	return rc < 0 ? fail_rpc(bfrt, rc, "no answer") : 0;
}

int sml_bfrt_check(struct sml_bfrt *bfrt, const json_t *table)
{
	BfrtProto__TableUsage usage = BFRT_PROTO__TABLE_USAGE__INIT;
	BfrtProto__Entity entity = BFRT_PROTO__ENTITY__INIT, *entities[] = {&entity};
	int stream, rc;

	usage.table_id = sml_bfrt_id(table);
	entity.entity_case = BFRT_PROTO__ENTITY__ENTITY_TABLE_USAGE;
	entity.table_usage = &usage;
	/* What the switch had to say before it answers has come with the answer. */
	rc = call_read(bfrt, "no answer", SML_BFRT_ALL_PIPES, entities, 1, NULL);
	stream = check_stream(bfrt);
	return stream < 0 ? stream : rc;
}
