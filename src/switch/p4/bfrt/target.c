/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A Tofino switch as a target, through BF Runtime's gRPC port of bf_switchd: a module of its own,
 * because only its users need gRPC. It was written against the published interface and never run
 * against a bf_switchd (docs/p4.md).
 *
 * A multicast group consists of nodes with numbers of their own, one for each copy. Ours are in one
 * range, so what an earlier daemon has left is known by its number.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base.h"
#include "p4/constants.h"
#include "switch/p4/bfrt/session.h"

#define JOBS	    "SmlIngress.job_lookup.jobs"
#define USES	    "SmlIngress.slot_step.slot_use"
#define SEEN	    "SmlIngress.slot_step.slot_seen_0"
#define LANES	    "lanes_"
#define GROUPS	    (SML_P4_FIRST_GROUP + SML_MAX_JOBS)
#define GROUP_NODES SML_MAX_CHILDREN
#define FIRST_NODE  0x530000u
#define NODES	    ((uint32_t)GROUPS * GROUP_NODES)
#define BATCH	    64 /* entries in one message */
#define PIPE_PORTS  128
/* The traffic manager has megabytes for the packets of a port that are late. */
#define WINDOW	   4096
#define NO_PROGRAM "compile p4/tna/switchml.p4 of this version, and start bf_switchd with it"

struct sml_p4_target {
	struct sml_bfrt bfrt;
	uint8_t group_nodes[GROUPS];
	/* One message's. */
	struct sml_bfrt_entry entries[BATCH];
	BfrtProto__TableEntry *messages[BATCH];
};

_Static_assert(GROUP_NODES <= BATCH, "the nodes of a group fit into one message");

static struct sml_p4_field number_of(uint32_t value)
{
	return (struct sml_p4_field){.n = 4,
				     .bytes = {(uint8_t)(value >> 24), (uint8_t)(value >> 16),
					       (uint8_t)(value >> 8), (uint8_t)value}};
}

/* ---- what the program lacks ---- */

static int lacks(const struct sml_p4_target *target, const char *what)
{
	return sml_bfrt_fail(&target->bfrt, -EINVAL, what,
			     "the switch's program differs: " NO_PROGRAM);
}

static int find_table(const struct sml_p4_target *target, const char *name, const json_t **table)
{
	*table = sml_bfrt_table(&target->bfrt.schema, name);
	return *table != NULL && sml_bfrt_id(*table) != 0 ? 0 : lacks(target, name);
}

/* A table whose only key is an index or a number. */
static int find_indexed(const struct sml_p4_target *target, const char *name, const json_t **table)
{
	int rc = find_table(target, name, table);

	return rc == 0 && sml_bfrt_keys(*table) != 1 ? lacks(target, name) : rc;
}

/* ---- rows ---- */

static struct sml_bfrt_entry *next_entry(struct sml_p4_target *target, size_t i,
					 const json_t *table)
{
	sml_assert(i < BATCH);
	sml_bfrt_entry_init(&target->entries[i], table);
	target->messages[i] = &target->entries[i].message;
	return &target->entries[i];
}

/* Fields have no names in a row: their order is that of the program. */
static int add_keys(struct sml_p4_target *target, struct sml_bfrt_entry *entry, const json_t *table,
		    const struct sml_p4_row *row)
{
	if (sml_bfrt_keys(table) != row->n_keys)
		return lacks(target, row->table);
	for (unsigned i = 0; i < row->n_keys; i++)
		if (!sml_bfrt_entry_add_key(entry, sml_bfrt_key(table, i), &row->keys[i]))
			return lacks(target, row->table);
	return 0;
}

static int add_action(struct sml_p4_target *target, struct sml_bfrt_entry *entry,
		      const json_t *table, const struct sml_p4_row *row)
{
	const json_t *action = sml_bfrt_action(table, row->action);

	if (action == NULL || sml_bfrt_parameters(action) != row->n_parameters)
		return lacks(target, row->action);
	sml_bfrt_entry_set_action(entry, action);
	for (unsigned i = 0; i < row->n_parameters; i++)
		if (!sml_bfrt_entry_add_data(entry, sml_bfrt_parameter(action, i),
					     &row->parameters[i]))
			return lacks(target, row->action);
	return 0;
}

static int make_entry(struct sml_p4_target *target, size_t i, BfrtProto__Update__Type type,
		      const struct sml_p4_row *row)
{
	struct sml_bfrt_entry *entry;
	const json_t *table;
	int rc = find_table(target, row->table, &table);

	if (rc < 0)
		return rc;
	entry = next_entry(target, i, table);
	rc = add_keys(target, entry, table, row);
	return rc == 0 && type != BFRT_PROTO__UPDATE__TYPE__DELETE
		       ? add_action(target, entry, table, row)
		       : rc;
}

static int write_rows(struct sml_p4_target *target, BfrtProto__Update__Type type,
		      const struct sml_p4_row *rows, unsigned n)
{
	int rc = 0;

	for (unsigned done = 0, batch; rc == 0 && done < n; done += batch) {
		batch = n - done < BATCH ? n - done : BATCH;
		for (unsigned i = 0; rc == 0 && i < batch; i++)
			rc = make_entry(target, i, type, &rows[done + i]);
		if (rc == 0)
			rc = sml_bfrt_write(&target->bfrt, rows[done].table, type, target->messages,
					    batch);
	}
	return rc;
}

static int bfrt_insert_many(struct sml_p4_target *target, const struct sml_p4_row *rows, unsigned n)
{
	return write_rows(target, BFRT_PROTO__UPDATE__TYPE__INSERT, rows, n);
}

static int bfrt_remove_many(struct sml_p4_target *target, const struct sml_p4_row *rows, unsigned n)
{
	return write_rows(target, BFRT_PROTO__UPDATE__TYPE__DELETE, rows, n);
}

static int bfrt_insert(struct sml_p4_target *target, const struct sml_p4_row *row)
{
	return write_rows(target, BFRT_PROTO__UPDATE__TYPE__INSERT, row, 1);
}

static int bfrt_modify(struct sml_p4_target *target, const struct sml_p4_row *row)
{
	return write_rows(target, BFRT_PROTO__UPDATE__TYPE__MODIFY, row, 1);
}

static int bfrt_remove(struct sml_p4_target *target, const struct sml_p4_row *row)
{
	return write_rows(target, BFRT_PROTO__UPDATE__TYPE__DELETE, row, 1);
}

/* ---- multicast ---- */

static const json_t *field_of(const struct sml_p4_target *target, const json_t *table,
			      const char *name, int *rc)
{
	const json_t *field = sml_bfrt_data_named(table, name);

	if (field == NULL && *rc == 0)
		*rc = sml_bfrt_fail(&target->bfrt, -EINVAL, name,
				    "the switch has no such field: use bf_switchd 9.9 or later");
	return field;
}

static uint32_t node_id(uint16_t group, unsigned i)
{
	return FIRST_NODE + (uint32_t)group * GROUP_NODES + i;
}

static int write_nodes(struct sml_p4_target *target, uint16_t group,
		       const struct sml_p4_node *nodes, unsigned n)
{
	uint32_t ports[GROUP_NODES];
	const json_t *table, *replication, *lags, *port;
	int rc = find_indexed(target, "$pre.node", &table);

	if (rc < 0)
		return rc;
	replication = field_of(target, table, "$MULTICAST_RID", &rc);
	lags = field_of(target, table, "$MULTICAST_LAG_ID", &rc);
	port = field_of(target, table, "$DEV_PORT", &rc);
	for (unsigned i = 0; rc == 0 && i < n; i++) {
		struct sml_bfrt_entry *entry = next_entry(target, i, table);
		struct sml_p4_field id = number_of(node_id(group, i)),
				    rid = number_of(nodes[i].replication);

		ports[i] = nodes[i].port;
		sml_bfrt_entry_add_numbers(entry, lags, NULL, 0);
		sml_bfrt_entry_add_numbers(entry, port, &ports[i], 1);
		if (!sml_bfrt_entry_add_key(entry, sml_bfrt_key(table, 0), &id) ||
		    !sml_bfrt_entry_add_data(entry, replication, &rid))
			rc = lacks(target, "$pre.node");
	}
	return rc == 0 ? sml_bfrt_write(&target->bfrt, "multicast nodes",
					BFRT_PROTO__UPDATE__TYPE__INSERT, target->messages, n)
		       : rc;
}

static int write_group(struct sml_p4_target *target, uint16_t group, unsigned n)
{
	/* Without exclusion: every node gets its copy. */
	protobuf_c_boolean excludes[GROUP_NODES] = {false};
	uint32_t ids[GROUP_NODES], exclusions[GROUP_NODES] = {0};
	struct sml_p4_field number = number_of(group);
	const json_t *table, *nodes, *valid, *exclusion;
	struct sml_bfrt_entry *entry;
	int rc = find_indexed(target, "$pre.mgid", &table);

	if (rc < 0)
		return rc;
	nodes = field_of(target, table, "$MULTICAST_NODE_ID", &rc);
	valid = field_of(target, table, "$MULTICAST_NODE_L1_XID_VALID", &rc);
	exclusion = field_of(target, table, "$MULTICAST_NODE_L1_XID", &rc);
	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < n; i++)
		ids[i] = node_id(group, i);
	entry = next_entry(target, 0, table);
	sml_bfrt_entry_add_numbers(entry, nodes, ids, n);
	sml_bfrt_entry_add_flags(entry, valid, excludes, n);
	sml_bfrt_entry_add_numbers(entry, exclusion, exclusions, n);
	if (!sml_bfrt_entry_add_key(entry, sml_bfrt_key(table, 0), &number))
		return lacks(target, "$pre.mgid");
	return sml_bfrt_write(&target->bfrt, "a multicast group", BFRT_PROTO__UPDATE__TYPE__INSERT,
			      target->messages, 1);
}

static int bfrt_add_group(struct sml_p4_target *target, uint16_t group,
			  const struct sml_p4_node *nodes, unsigned n)
{
	int rc;

	if (group >= GROUPS || n > GROUP_NODES)
		return target->bfrt.services->error_set(
			-EINVAL, "%u ports in multicast group %u: there can be %u", n, group,
			GROUP_NODES);
	rc = write_nodes(target, group, nodes, n);
	if (rc == 0)
		rc = write_group(target, group, n);
	if (rc == 0)
		target->group_nodes[group] = (uint8_t)n;
	return rc;
}

/* Delete `n` entries whose numbers are these, from a table of the multicast engine. */
static int delete_numbered(struct sml_p4_target *target, const char *name, const uint32_t *ids,
			   size_t n)
{
	const json_t *table;
	int rc = find_indexed(target, name, &table);

	while (rc == 0 && n > 0) {
		size_t batch = n < BATCH ? n : BATCH;

		for (size_t i = 0; i < batch; i++) {
			struct sml_p4_field id = number_of(ids[i]);

			if (!sml_bfrt_entry_add_key(next_entry(target, i, table),
						    sml_bfrt_key(table, 0), &id))
				return lacks(target, name);
		}
		rc = sml_bfrt_write(&target->bfrt, name, BFRT_PROTO__UPDATE__TYPE__DELETE,
				    target->messages, batch);
		ids += batch;
		n -= batch;
	}
	return rc;
}

static int bfrt_remove_group(struct sml_p4_target *target, uint16_t group)
{
	uint32_t ids[GROUP_NODES], number = group;
	unsigned n = group < GROUPS ? target->group_nodes[group] : 0;
	int rc;

	if (n == 0)
		return 0;
	for (unsigned i = 0; i < n; i++)
		ids[i] = node_id(group, i);
	target->group_nodes[group] = 0;
	/* A node goes after the group that it is in. */
	rc = delete_numbered(target, "$pre.mgid", &number, 1);
	return rc == 0 ? delete_numbered(target, "$pre.node", ids, n) : rc;
}

/* ---- counters and registers ---- */

struct counting {
	const struct sml_p4_target *target;
	const char *name;
	const json_t *table;
	uint64_t *packets, *bytes;
	bool found;
};

static int take_counter(void *context, const BfrtProto__TableEntry *entry)
{
	struct counting *counting = context;
	const json_t *packets = sml_bfrt_data_named(counting->table, "$COUNTER_SPEC_PKTS");
	const json_t *bytes = sml_bfrt_data_named(counting->table, "$COUNTER_SPEC_BYTES");

	*counting->bytes = 0;
	counting->found = sml_bfrt_value(entry, packets, 0, counting->packets);
	if (bytes != NULL && !sml_bfrt_value(entry, bytes, 0, counting->bytes))
		counting->found = false;
	return 0;
}

static int bfrt_read_counter(struct sml_p4_target *target, const char *name, uint32_t index,
			     uint64_t *packets, uint64_t *bytes)
{
	struct counting counting = {.packets = packets, .bytes = bytes};
	struct sml_p4_field number = number_of(index);
	struct sml_bfrt_entry *entry;
	int rc = find_indexed(target, name, &counting.table);

	if (rc < 0)
		return rc;
	entry = next_entry(target, 0, counting.table);
	sml_bfrt_entry_ask_hardware(entry);
	if (!sml_bfrt_entry_add_key(entry, sml_bfrt_key(counting.table, 0), &number))
		return lacks(target, name);
	rc = sml_bfrt_read(&target->bfrt, name, SML_BFRT_ALL_PIPES, target->messages, 1,
			   take_counter, &counting);
	if (rc == 0 && !counting.found)
		rc = sml_bfrt_fail(&target->bfrt, -EBADMSG, name, "an answer without the counter");
	return rc;
}

struct registers {
	const json_t *table, *member;
	uint64_t *values;
	uint32_t first, n, found;
};

/*
 * A register is a number, or a pair of them: "name_lo" and "name_hi" are the members "lo" and "hi"
 * of the register "name", as BMv2's form of the program has two registers for it.
 */
static int find_register(const struct sml_p4_target *target, const char *name,
			 struct registers *registers)
{
	char own[128], member[sizeof(own) + 4];
	size_t length = strlen(name);

	registers->table = sml_bfrt_table(&target->bfrt.schema, name);
	if (registers->table != NULL && sml_bfrt_data_fields(registers->table) == 1) {
		registers->member = sml_bfrt_data_field(registers->table, 0);
	} else if (registers->table == NULL && length > 3 && name[length - 3] == '_') {
		snprintf(own, sizeof(own), "%.*s", (int)length - 3, name);
		snprintf(member, sizeof(member), "%s.%.2s", own, name + length - 2);
		registers->table = sml_bfrt_table(&target->bfrt.schema, own);
		registers->member = sml_bfrt_data_named(registers->table, member);
	}
	return registers->member != NULL && sml_bfrt_keys(registers->table) == 1
		       ? 0
		       : lacks(target, name);
}

static int take_register(void *context, const BfrtProto__TableEntry *entry)
{
	struct registers *registers = context;
	uint64_t index, value;

	/* From one pipe, so there is one value. */
	if (sml_bfrt_key_value(entry, sml_bfrt_key(registers->table, 0), &index) &&
	    index >= registers->first && index - registers->first < registers->n &&
	    sml_bfrt_value(entry, registers->member, 0, &value)) {
		registers->values[index - registers->first] = value;
		registers->found++;
	}
	return 0;
}

static int read_batch(struct sml_p4_target *target, const char *name, unsigned pipe,
		      struct registers *registers)
{
	int rc;

	for (uint32_t i = 0; i < registers->n; i++) {
		struct sml_bfrt_entry *entry = next_entry(target, i, registers->table);
		struct sml_p4_field index = number_of(registers->first + i);

		sml_bfrt_entry_ask_hardware(entry);
		if (!sml_bfrt_entry_add_key(entry, sml_bfrt_key(registers->table, 0), &index))
			return lacks(target, name);
	}
	rc = sml_bfrt_read(&target->bfrt, name, pipe, target->messages, registers->n, take_register,
			   registers);
	if (rc == 0 && registers->found != registers->n)
		rc = sml_bfrt_fail(&target->bfrt, -EBADMSG, name,
				   "an answer without all the registers");
	return rc;
}

static int bfrt_read_registers(struct sml_p4_target *target, const char *name, unsigned pipe,
			       uint32_t first, uint64_t *values, uint32_t n)
{
	struct registers registers = {.values = values, .first = first};
	int rc = find_register(target, name, &registers);

	while (rc == 0 && n > 0) {
		registers.n = n < BATCH ? n : BATCH;
		registers.found = 0;
		rc = read_batch(target, name, pipe, &registers);
		n -= registers.n;
		registers.first += registers.n;
		registers.values += registers.n;
	}
	return rc;
}

/* The other member of a pair gets 0. */
static int bfrt_write_register(struct sml_p4_target *target, const char *name, uint32_t index,
			       uint64_t value)
{
	struct sml_p4_field number = number_of(index), none = {.n = 1}, own = {.n = sizeof(value)};
	struct registers registers = {.first = index};
	struct sml_bfrt_entry *entry;
	bool fits;
	int rc = find_register(target, name, &registers);

	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < sizeof(value); i++)
		own.bytes[i] = (uint8_t)(value >> (56 - 8 * i));
	entry = next_entry(target, 0, registers.table);
	fits = sml_bfrt_data_fields(registers.table) <= 2 &&
	       sml_bfrt_entry_add_key(entry, sml_bfrt_key(registers.table, 0), &number);
	for (size_t i = 0; fits && i < sml_bfrt_data_fields(registers.table); i++) {
		const json_t *field = sml_bfrt_data_field(registers.table, i);

		fits = sml_bfrt_entry_add_data(entry, field,
					       field == registers.member ? &own : &none);
	}
	return fits ? sml_bfrt_write(&target->bfrt, name, BFRT_PROTO__UPDATE__TYPE__INSERT,
				     target->messages, 1)
		    : lacks(target, name);
}

/* ---- the program ---- */

/* Each lane is a member of a register, which has two where an ALU serves two lanes. */
static int bfrt_limits(struct sml_p4_target *target, struct sml_p4_limits *limits)
{
	const json_t *tables = sml_bfrt_tables(&target->bfrt.schema), *uses;
	int rc = find_table(target, USES, &uses);

	if (rc < 0)
		return rc;
	*limits = (struct sml_p4_limits){
		.slots = sml_bfrt_size(uses) / 2,
		.staged = sml_bfrt_table(&target->bfrt.schema, SEEN) != NULL,
	};
	for (size_t i = 0; i < json_array_size(tables); i++) {
		const json_t *table = json_array_get(tables, i);
		const char *name = strrchr(sml_bfrt_name(table), '.');

		if (name != NULL && strncmp(name + 1, LANES, strlen(LANES)) == 0 &&
		    sml_bfrt_is_of_type(table, "Register"))
			limits->lanes += (uint32_t)sml_bfrt_data_fields(table);
	}
	return limits->lanes > 0 && limits->slots > 0 ? 0 : lacks(target, "its lanes");
}

static int bfrt_check(struct sml_p4_target *target)
{
	const json_t *jobs;
	int rc = find_table(target, JOBS, &jobs);

	return rc == 0 ? sml_bfrt_check(&target->bfrt, jobs) : rc;
}

/* ---- forgetting what earlier daemons have left ---- */

static int clear_table(struct sml_p4_target *target, const json_t *table)
{
	next_entry(target, 0, table);
	return sml_bfrt_write(&target->bfrt, sml_bfrt_short_name(table),
			      BFRT_PROTO__UPDATE__TYPE__DELETE, target->messages, 1);
}

static bool is_ours_to_clear(const json_t *table)
{
	return sml_bfrt_is_of_type(table, "Register") ||
	       (sml_bfrt_is_of_type(table, "MatchAction_Direct") &&
		!sml_bfrt_has_attribute(table, "ConstTable"));
}

/* First the jobs', so that the program accepts no packet while it forgets the others. */
static int clear_program(struct sml_p4_target *target)
{
	const json_t *tables = sml_bfrt_tables(&target->bfrt.schema), *jobs;
	int rc = find_table(target, JOBS, &jobs);

	if (rc == 0)
		rc = clear_table(target, jobs);
	for (size_t i = 0; rc == 0 && i < json_array_size(tables); i++)
		if (is_ours_to_clear(json_array_get(tables, i)))
			rc = clear_table(target, json_array_get(tables, i));
	return rc;
}

struct leftovers {
	const json_t *key;
	uint32_t first, n_range, n;
	uint32_t *ids; /* n_range */
};

static int note_leftover(void *context, const BfrtProto__TableEntry *entry)
{
	struct leftovers *left = context;
	uint64_t id;

	if (sml_bfrt_key_value(entry, left->key, &id) && id >= left->first &&
	    id - left->first < left->n_range && left->n < left->n_range)
		left->ids[left->n++] = (uint32_t)id;
	return 0;
}

/* Other programs of the device share the multicast engine, so only our numbers go. */
static int clear_numbered(struct sml_p4_target *target, const char *name, uint32_t first,
			  uint32_t n_range)
{
	struct leftovers left = {
		.first = first, .n_range = n_range, .ids = calloc(n_range, sizeof(*left.ids))};
	const json_t *table;
	int rc = find_indexed(target, name, &table);

	if (left.ids == NULL)
		return sml_bfrt_fail(&target->bfrt, -ENOMEM, name, "no memory");
	if (rc == 0) {
		left.key = sml_bfrt_key(table, 0);
		next_entry(target, 0, table);
		rc = sml_bfrt_read(&target->bfrt, name, SML_BFRT_ALL_PIPES, target->messages, 1,
				   note_leftover, &left);
	}
	if (rc == 0)
		rc = delete_numbered(target, name, left.ids, left.n);
	free(left.ids);
	return rc;
}

static int forget(struct sml_p4_target *target)
{
	int rc = clear_program(target);

	if (rc == 0)
		rc = clear_numbered(target, "$pre.mgid", SML_P4_FLOOD_GROUP,
				    GROUPS - SML_P4_FLOOD_GROUP);
	if (rc == 0)
		rc = clear_numbered(target, "$pre.node", FIRST_NODE, NODES);
	return rc;
}

/* ---- opening ---- */

static void bfrt_close(struct sml_p4_target *target)
{
	sml_bfrt_disconnect(&target->bfrt);
	free(target);
}

static int bfrt_open(struct sml_p4_target **opened, const struct sml_p4_place *place,
		     const struct sml_p4_services *services)
{
	struct sml_p4_target *target = calloc(1, sizeof(*target));
	int rc;

	if (target == NULL)
		return services->error_set(-ENOMEM, "no memory for the P4 switch");
	rc = sml_bfrt_connect(&target->bfrt, place, JOBS, services);
	if (rc == 0)
		rc = forget(target);
	if (rc < 0) {
		bfrt_close(target);
		return rc;
	}
	*opened = target;
	return 0;
}

extern const struct sml_p4_target_operations sml_p4_target_operations;
__attribute__((visibility("default")))
const struct sml_p4_target_operations sml_p4_target_operations = {
	.version = SML_P4_TARGET_VERSION,
	.name = "bfrt",
	.window = WINDOW,
	.pipe_ports = PIPE_PORTS,
	.open = bfrt_open,
	.close = bfrt_close,
	.limits = bfrt_limits,
	.check = bfrt_check,
	.insert = bfrt_insert,
	.modify = bfrt_modify,
	.remove = bfrt_remove,
	.insert_many = bfrt_insert_many,
	.remove_many = bfrt_remove_many,
	.add_group = bfrt_add_group,
	.remove_group = bfrt_remove_group,
	.read_counter = bfrt_read_counter,
	.read_registers = bfrt_read_registers,
	.write_register = bfrt_write_register,
};
