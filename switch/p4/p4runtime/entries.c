/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is written to a P4Runtime switch and read from it: entries of tables, multicast groups and
 * counters. One call has one update, so that a failure is the update's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "switch/p4/p4runtime/internal.h"

/* Ranks of a job, or ports of the flood group. */
#define MAX_REPLICAS 64

static const struct sml_rpc_method write_method = {"/p4.v1.P4Runtime/Write",
						   &p4__v1__write_response__descriptor};
static const struct sml_rpc_method read_method = {"/p4.v1.P4Runtime/Read",
						  &p4__v1__read_response__descriptor};

static int write_update(struct sml_p4_target *target, P4__V1__Update__Type type,
			P4__V1__Entity *entity, const char *what)
{
	P4__V1__Update update = P4__V1__UPDATE__INIT, *updates[] = {&update};
	P4__V1__WriteRequest request = P4__V1__WRITE_REQUEST__INIT;
	int rc;

	update.type = type;
	update.entity = entity;
	request.device_id = target->device;
	request.election_id = &target->election;
	request.updates = updates;
	request.n_updates = 1;
	rc = sml_rpc_call(target->rpc, &write_method, &request.base, NULL, NULL, CALL_SECONDS);
	return rc < 0 ? p4rt_fail(target, rc, what) : 0;
}

static int read_entity(struct sml_p4_target *target, P4__V1__Entity *entity,
		       sml_rpc_reply *on_reply, void *context)
{
	P4__V1__ReadRequest request = P4__V1__READ_REQUEST__INIT;
	P4__V1__Entity *entities[] = {entity};

	request.device_id = target->device;
	request.entities = entities;
	request.n_entities = 1;
	return sml_rpc_call(target->rpc, &read_method, &request.base, on_reply, context,
			    CALL_SECONDS);
}

/* ---- tables ---- */

/* Memory for the parts of an entry. */
struct entry {
	P4__V1__FieldMatch matches[SML_P4_KEYS], *match_list[SML_P4_KEYS];
	P4__V1__FieldMatch__Exact exacts[SML_P4_KEYS];
	P4__V1__Action__Param parameters[SML_P4_PARAMETERS], *parameter_list[SML_P4_PARAMETERS];
	P4__V1__Action action;
	P4__V1__TableAction table_action;
	P4__V1__TableEntry entry;
};

static int fill_keys(struct entry *entry, const P4__Config__V1__Table *table,
		     const struct sml_p4_row *row)
{
	if (table == NULL || table->n_match_fields != row->n_keys)
		return -EINVAL;
	entry->entry = (P4__V1__TableEntry)P4__V1__TABLE_ENTRY__INIT;
	entry->entry.table_id = table->preamble->id;
	for (unsigned i = 0; i < row->n_keys; i++) {
		entry->exacts[i] = (P4__V1__FieldMatch__Exact)P4__V1__FIELD_MATCH__EXACT__INIT;
		entry->exacts[i].value = p4rt_bytes(&row->keys[i]);
		if (!p4rt_fits(entry->exacts[i].value, table->match_fields[i]->bitwidth))
			return -EINVAL;
		entry->matches[i] = (P4__V1__FieldMatch)P4__V1__FIELD_MATCH__INIT;
		entry->matches[i].field_id = table->match_fields[i]->id;
		entry->matches[i].field_match_type_case =
			P4__V1__FIELD_MATCH__FIELD_MATCH_TYPE_EXACT;
		entry->matches[i].exact = &entry->exacts[i];
		entry->match_list[i] = &entry->matches[i];
	}
	entry->entry.match = entry->match_list;
	entry->entry.n_match = row->n_keys;
	return 0;
}

static int fill_action(struct entry *entry, const P4__Config__V1__Action *action,
		       const struct sml_p4_row *row)
{
	if (action == NULL || action->n_params != row->n_parameters)
		return -EINVAL;
	entry->action = (P4__V1__Action)P4__V1__ACTION__INIT;
	entry->action.action_id = action->preamble->id;
	for (unsigned i = 0; i < row->n_parameters; i++) {
		entry->parameters[i] = (P4__V1__Action__Param)P4__V1__ACTION__PARAM__INIT;
		entry->parameters[i].param_id = action->params[i]->id;
		entry->parameters[i].value = p4rt_bytes(&row->parameters[i]);
		if (!p4rt_fits(entry->parameters[i].value, action->params[i]->bitwidth))
			return -EINVAL;
		entry->parameter_list[i] = &entry->parameters[i];
	}
	entry->action.params = entry->parameter_list;
	entry->action.n_params = row->n_parameters;
	entry->table_action = (P4__V1__TableAction)P4__V1__TABLE_ACTION__INIT;
	entry->table_action.type_case = P4__V1__TABLE_ACTION__TYPE_ACTION;
	entry->table_action.action = &entry->action;
	entry->entry.action = &entry->table_action;
	return 0;
}

int p4rt_write_row(struct sml_p4_target *target, P4__V1__Update__Type type,
		   const struct sml_p4_row *row)
{
	P4__V1__Entity entity = P4__V1__ENTITY__INIT;
	struct entry entry;
	int rc = fill_keys(&entry, p4rt_table(target->info, row->table), row);

	if (rc == 0 && type != P4__V1__UPDATE__TYPE__DELETE)
		rc = fill_action(&entry, p4rt_action(target->info, row->action), row);
	if (rc < 0)
		return target->services->error_set(
			rc,
			"the P4 program has another table %s: compile it from this version's p4/",
			row->table);
	entity.entity_case = P4__V1__ENTITY__ENTITY_TABLE_ENTRY;
	entity.table_entry = &entry.entry;
	return write_update(target, type, &entity, row->table);
}

/* ---- multicast ---- */

static int write_group(struct sml_p4_target *target, P4__V1__Update__Type type, uint32_t number,
		       P4__V1__Replica **replicas, unsigned n)
{
	P4__V1__MulticastGroupEntry group = P4__V1__MULTICAST_GROUP_ENTRY__INIT;
	P4__V1__PacketReplicationEngineEntry engine = P4__V1__PACKET_REPLICATION_ENGINE_ENTRY__INIT;
	P4__V1__Entity entity = P4__V1__ENTITY__INIT;

	group.multicast_group_id = number;
	group.replicas = replicas;
	group.n_replicas = n;
	engine.type_case = P4__V1__PACKET_REPLICATION_ENGINE_ENTRY__TYPE_MULTICAST_GROUP_ENTRY;
	engine.multicast_group_entry = &group;
	entity.entity_case = P4__V1__ENTITY__ENTITY_PACKET_REPLICATION_ENGINE_ENTRY;
	entity.packet_replication_engine_entry = &engine;
	return write_update(target, type, &entity, "a multicast group");
}

int p4rt_add_group(struct sml_p4_target *target, uint16_t group, const struct sml_p4_node *nodes,
		   unsigned n)
{
	P4__V1__Replica replicas[MAX_REPLICAS], *list[MAX_REPLICAS];

	if (n > MAX_REPLICAS)
		return target->services->error_set(-EINVAL, "%u ports in a multicast group", n);
	for (unsigned i = 0; i < n; i++) {
		replicas[i] = (P4__V1__Replica)P4__V1__REPLICA__INIT;
		replicas[i].port_kind_case = P4__V1__REPLICA__PORT_KIND_EGRESS_PORT;
		replicas[i].egress_port = nodes[i].port;
		replicas[i].instance = nodes[i].replication;
		list[i] = &replicas[i];
	}
	return write_group(target, P4__V1__UPDATE__TYPE__INSERT, group, list, n);
}

int p4rt_remove_group(struct sml_p4_target *target, uint16_t group)
{
	return write_group(target, P4__V1__UPDATE__TYPE__DELETE, group, NULL, 0);
}

struct numbers {
	uint32_t *all;
	size_t n;
};

static int note_groups(void *context, const ProtobufCMessage *message)
{
	const P4__V1__ReadResponse *reply = (const P4__V1__ReadResponse *)message;
	struct numbers *groups = context;
	uint32_t *more;

	more = reallocarray(groups->all, groups->n + reply->n_entities + 1, sizeof(*more));
	if (more == NULL)
		return -ENOMEM;
	groups->all = more;
	for (size_t i = 0; i < reply->n_entities; i++) {
		const P4__V1__Entity *entity = reply->entities[i];
		const P4__V1__PacketReplicationEngineEntry *engine;

		if (entity->entity_case != P4__V1__ENTITY__ENTITY_PACKET_REPLICATION_ENGINE_ENTRY)
			continue;
		engine = entity->packet_replication_engine_entry;
		if (engine->type_case ==
		    P4__V1__PACKET_REPLICATION_ENGINE_ENTRY__TYPE_MULTICAST_GROUP_ENTRY)
			groups->all[groups->n++] =
				engine->multicast_group_entry->multicast_group_id;
	}
	return 0;
}

int p4rt_remove_all_groups(struct sml_p4_target *target)
{
	P4__V1__MulticastGroupEntry any = P4__V1__MULTICAST_GROUP_ENTRY__INIT;
	P4__V1__PacketReplicationEngineEntry engine = P4__V1__PACKET_REPLICATION_ENGINE_ENTRY__INIT;
	P4__V1__Entity entity = P4__V1__ENTITY__INIT;
	struct numbers groups = {0};
	int rc;

	engine.type_case = P4__V1__PACKET_REPLICATION_ENGINE_ENTRY__TYPE_MULTICAST_GROUP_ENTRY;
	engine.multicast_group_entry = &any;
	entity.entity_case = P4__V1__ENTITY__ENTITY_PACKET_REPLICATION_ENGINE_ENTRY;
	entity.packet_replication_engine_entry = &engine;
	rc = read_entity(target, &entity, note_groups, &groups);
	/* A switch without a program has no groups. */
	if (rc == -ENODATA || rc == -ENOENT)
		rc = 0;
	else if (rc < 0)
		p4rt_fail(target, rc, "its multicast groups");
	for (size_t i = 0; i < groups.n && rc == 0; i++)
		rc = write_group(target, P4__V1__UPDATE__TYPE__DELETE, groups.all[i], NULL, 0);
	free(groups.all);
	return rc;
}

/* ---- counters ---- */

struct reading {
	uint32_t counter, index;
	uint64_t packets, bytes;
	bool found;
};

static int note_counter(void *context, const ProtobufCMessage *message)
{
	const P4__V1__ReadResponse *reply = (const P4__V1__ReadResponse *)message;
	struct reading *reading = context;

	for (size_t i = 0; i < reply->n_entities; i++) {
		const P4__V1__CounterEntry *entry =
			reply->entities[i]->entity_case == P4__V1__ENTITY__ENTITY_COUNTER_ENTRY
				? reply->entities[i]->counter_entry
				: NULL;

		if (entry == NULL || entry->counter_id != reading->counter ||
		    entry->index == NULL || entry->index->index != reading->index)
			continue;
		/* Without data, it has counted nothing. */
		if (entry->data != NULL) {
			reading->packets = (uint64_t)entry->data->packet_count;
			reading->bytes = (uint64_t)entry->data->byte_count;
		}
		reading->found = true;
	}
	return 0;
}

int p4rt_read_counter(struct sml_p4_target *target, const char *name, uint32_t index,
		      uint64_t *packets, uint64_t *bytes)
{
	const P4__Config__V1__Counter *counter = p4rt_counter(target->info, name);
	P4__V1__CounterEntry entry = P4__V1__COUNTER_ENTRY__INIT;
	P4__V1__Index where = P4__V1__INDEX__INIT;
	P4__V1__Entity entity = P4__V1__ENTITY__INIT;
	struct reading reading = {.index = index};
	int rc;

	if (counter == NULL || index >= counter->size)
		return target->services->error_set(
			-EINVAL,
			"the P4 program has another counter %s: compile it from this version's p4/",
			name);
	reading.counter = entry.counter_id = counter->preamble->id;
	where.index = index;
	entry.index = &where;
	entity.entity_case = P4__V1__ENTITY__ENTITY_COUNTER_ENTRY;
	entity.counter_entry = &entry;
	rc = read_entity(target, &entity, note_counter, &reading);
	if (rc < 0)
		return p4rt_fail(target, rc, name);
	if (!reading.found)
		return target->services->error_set(
			-EBADMSG, "the P4 switch at %s: %s: it has no value", target->where, name);
	*packets = reading.packets;
	*bytes = reading.bytes;
	return 0;
}
