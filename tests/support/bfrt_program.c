/* SPDX-License-Identifier: BSD-3-Clause */
/* Our program for Tofino, described by hand. */
#include <stdio.h>
#include <stdlib.h>

#include "core/base.h"
#include "job/dataplane.h"
#include "p4/constants.h"
#include "support/bfrt_program.h"
#include "support/test.h"

static uint32_t next_id;

static json_t *number_type(unsigned bits)
{
	return json_pack("{s:s,s:i}", "type", "bytes", "width", (int)bits);
}

static json_t *field_of(int id, const char *name, json_t *type, bool repeated)
{
	return json_pack("{s:i,s:s,s:b,s:b,s:s,s:o}", "id", id, "name", name, "repeated", repeated,
			 "mandatory", 1, "match_type", "Exact", "type", type);
}

/* "name:bits name:bits" */
static json_t *fields_of(const char *text)
{
	json_t *fields = json_array();
	char name[64];
	unsigned bits;
	int used;

	for (int id = 1; sscanf(text, " %63[^:]:%u%n", name, &bits, &used) == 2; id++) {
		json_array_append_new(fields, field_of(id, name, number_type(bits), false));
		text += used;
	}
	return fields;
}

static json_t *table_of(const char *name, const char *type, unsigned size, json_t *keys,
			json_t *data)
{
	return json_pack("{s:s,s:I,s:s,s:i,s:o,s:o,s:[]}", "name", name, "id",
			 (json_int_t)0x2000000 + ++next_id, "table_type", type, "size", (int)size,
			 "key", keys, "data", data, "attributes");
}

static void add_action(json_t *table, const char *name, const char *scope, const char *parameters)
{
	json_t *actions = json_object_get(table, "action_specs");

	if (actions == NULL)
		json_object_set_new(table, "action_specs", actions = json_array());
	json_array_append_new(actions, json_pack("{s:s,s:i,s:s,s:o}", "name", name, "id",
						 (int)(0x1000000 + ++next_id), "action_scope",
						 scope, "data", fields_of(parameters)));
}

static json_t *match_table(json_t *tables, const char *name, const char *keys)
{
	json_t *table = table_of(name, "MatchAction_Direct", 4096, fields_of(keys), json_array());

	add_action(table, "NoAction", "DefaultOnly", "");
	json_array_append_new(tables, table);
	return table;
}

static json_t *singletons(json_t *fields)
{
	json_t *data = json_array();

	for (size_t i = 0; i < json_array_size(fields); i++)
		json_array_append_new(data, json_pack("{s:b,s:O}", "mandatory", 1, "singleton",
						      json_array_get(fields, i)));
	json_decref(fields);
	return data;
}

/* Numbers that the compiler gives to the keys of counters and registers. */
#define COUNTER_INDEX  65556
#define REGISTER_INDEX 65557

static json_t *index_key(int id, const char *name)
{
	return json_pack("[o]", field_of(id, name, json_pack("{s:s}", "type", "uint32"), false));
}

static void add_register(json_t *tables, const char *name, unsigned size, const char *members)
{
	json_array_append_new(tables, table_of(name, "Register", size,
					       index_key(REGISTER_INDEX, "$REGISTER_INDEX"),
					       singletons(fields_of(members))));
}

static void add_counter(json_t *tables, const char *name, unsigned size)
{
	json_t *fields = json_pack(
		"[oo]",
		field_of(65553, "$COUNTER_SPEC_BYTES", json_pack("{s:s}", "type", "uint64"), false),
		field_of(65554, "$COUNTER_SPEC_PKTS", json_pack("{s:s}", "type", "uint64"), false));

	json_array_append_new(tables, table_of(name, "Counter", size,
					       index_key(COUNTER_INDEX, "$COUNTER_INDEX"),
					       singletons(fields)));
}

/* The keys and parameters of p4/include/tables.p4. */
static void add_tables(json_t *tables)
{
	json_t *table = match_table(tables, JOBS, "hdr.sml.job:32");

	add_action(table, "SmlIngress.job_lookup.job", "TableAndDefault",
		   "place:16 epoch:32 tag:64 daemon_key:64 incarnation:32 all:64 first_buffer:32 "
		   "head_slots:16 data_slots:16 shards:8 shards_inverse:32 started:8 group:16");
	table = match_table(tables, RANKS, "hdr.sml.job:32 hdr.sml.rank:8");
	add_action(table, "SmlIngress.admission.rank", "TableAndDefault", "rank_bit:64 port:16");
	table = match_table(tables, MEMBERS,
			    "hdr.sml.job:32 hdr.sml.epoch:32 hdr.sml.rank:8 hdr.sml.key:64");
	add_action(table, "SmlIngress.admission.member", "TableAndDefault", "");
	table = match_table(tables, PLACES, "hdr.sml.job:32 hdr.sml.slot:16 hdr.sml.shard:8");
	add_action(table, "SmlIngress.placement.slot", "TableAndDefault",
		   "buffer:16 stream:16 first_ticket:32");
	table = match_table(tables, HOSTS, "hdr.ethernet.dst:48");
	add_action(table, "SmlIngress.forwarding.to_port", "TableAndDefault", "port:16");
	table = match_table(tables, PEERS, "meta.place:16 meta.to_rank:8 hdr.sml.shard:8");
	add_action(table, "SmlEgress.addressing.to_ipv4", "TableAndDefault",
		   "mac:48 tagged:8 tci:16 src:32 dst:32 src_port:16 dst_port:16");
	add_action(table, "SmlEgress.addressing.to_ipv6", "TableAndDefault",
		   "mac:48 tagged:8 tci:16 src:128 dst:128 src_port:16 dst_port:16");
	/* The compiler's own entries are not ours to delete. */
	table = match_table(tables, "pipe.SmlIngress.slot_step.decide", "phase:8");
	json_array_append_new(json_object_get(table, "attributes"), json_string("ConstTable"));
}

static json_t *written_program(void)
{
	json_t *program = json_pack("{s:s,s:[]}", "schema_version", "1.0.0", "tables");
	json_t *tables = json_object_get(program, "tables");
	char name[80], members[2 * sizeof(name) + 16];

	next_id = 0;
	add_tables(tables);
	add_counter(tables, FATES, SML_MAX_JOBS * SML_P4_FATES);
	add_counter(tables, "pipe.SmlIngress.contributions", SML_MAX_JOBS * SML_MAX_CHILDREN);
	add_counter(tables, "pipe.SmlIngress.resends", SML_MAX_JOBS * SML_MAX_CHILDREN);
	add_counter(tables, "pipe.SmlEgress.sent", SML_MAX_JOBS);
	add_register(tables, USES, 2 * SLOTS,
		     "SmlIngress.slot_step.slot_use.lo:32 SmlIngress.slot_step.slot_use.hi:32");
	add_register(tables, SEEN_0, 2 * SLOTS, "SmlIngress.slot_step.slot_seen_0.f1:32");
	add_register(tables, SEEN_1, 2 * SLOTS, "SmlIngress.slot_step.slot_seen_1.f1:32");
	for (unsigned i = 0; i < 32; i++) {
		snprintf(name, sizeof(name), "pipe.SmlIngress.slot_step.lanes_%02o", i);
		snprintf(members, sizeof(members), "%s.lo:32 %s.hi:32", name + 5, name + 5);
		add_register(tables, name, 2 * SLOTS, members);
	}
	return program;
}

json_t *bfrt_program(void)
{
	const char *file = getenv("SML_BF_RT");
	json_error_t error;
	json_t *program;

	if (file == NULL)
		return written_program();
	program = json_load_file(file, 0, &error);
	if (program == NULL)
		fail_msg("%s: %s", file, error.text);
	return program;
}

json_t *bfrt_fixed_tables(void)
{
	json_t *u16 = json_pack("{s:s}", "type", "uint16"),
	       *u32 = json_pack("{s:s}", "type", "uint32");
	json_t *group =
		json_pack("[ooo]", field_of(1, "$MULTICAST_NODE_ID", json_incref(u32), true),
			  field_of(2, "$MULTICAST_NODE_L1_XID_VALID",
				   json_pack("{s:s}", "type", "bool"), true),
			  field_of(3, "$MULTICAST_NODE_L1_XID", json_incref(u16), true));
	json_t *node = json_pack(
		"[ooo]", field_of(1, "$MULTICAST_RID", json_incref(u16), false),
		field_of(2, "$MULTICAST_LAG_ID", json_pack("{s:s}", "type", "uint8"), true),
		field_of(3, "$DEV_PORT", json_incref(u32), true));
	json_t *mgid =
		table_of("$pre.mgid", "PreMgid", 65536,
			 json_pack("[o]", field_of(1, "$MGID", u16, false)), singletons(group));
	json_t *nodes = table_of("$pre.node", "PreNode", 16777216,
				 json_pack("[o]", field_of(1, "$MULTICAST_NODE_ID", u32, false)),
				 singletons(node));

	json_object_set_new(mgid, "id", json_integer(4278321153));
	json_object_set_new(nodes, "id", json_integer(4278321154));
	return json_pack("{s:[oo]}", "tables", mgid, nodes);
}
