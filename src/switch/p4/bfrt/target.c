/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A Tofino switch as a target, through BF Runtime's gRPC port of bf_switchd: a module of its own,
 * because only its users need gRPC. It was never run with hardware (docs/p4.md). Multicast groups
 * are in multicast.c, and counters and registers in registers.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "switch/p4/bfrt/target.h"

#define JOBS	   "SmlIngress.job_lookup.jobs"
#define USES	   "SmlIngress.slot_step.slot_use"
#define SEEN	   "SmlIngress.slot_step.slot_seen_0"
#define LANES	   "lanes_"
#define PIPE_PORTS 128
/* The traffic manager has megabytes for the packets of a port that are late. */
#define WINDOW 4096

/* ---- rows ---- */

/* Fields have no names in a row: their order is that of the program. */
static int add_keys(struct sml_p4_target *target, struct sml_bfrt_entry *entry, const json_t *table,
		    const struct sml_p4_row *row)
{
	if (sml_bfrt_keys(table) != row->n_keys)
		return sml_bfrt_lacks(target, row->table);
	for (unsigned i = 0; i < row->n_keys; i++)
		if (!sml_bfrt_entry_add_key(entry, sml_bfrt_key(table, i), &row->keys[i]))
			return sml_bfrt_lacks(target, row->table);
	return 0;
}

static int add_action(struct sml_p4_target *target, struct sml_bfrt_entry *entry,
		      const json_t *table, const struct sml_p4_row *row)
{
	const json_t *action = sml_bfrt_action(table, row->action);

	if (action == NULL || sml_bfrt_data_fields(action) != row->n_parameters)
		return sml_bfrt_lacks(target, row->action);
	sml_bfrt_entry_set_action(entry, action);
	for (unsigned i = 0; i < row->n_parameters; i++)
		if (!sml_bfrt_entry_add_data(entry, sml_bfrt_data_field(action, i),
					     &row->parameters[i]))
			return sml_bfrt_lacks(target, row->action);
	return 0;
}

static int make_entry(struct sml_p4_target *target, size_t i, BfrtProto__Update__Type type,
		      const struct sml_p4_row *row)
{
	struct sml_bfrt_entry *entry;
	const json_t *table;
	int rc = sml_bfrt_find_table(target, row->table, &table);

	if (rc < 0)
		return rc;
	entry = sml_bfrt_next_entry(target, i, table);
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
		batch = n - done < SML_BFRT_BATCH ? n - done : SML_BFRT_BATCH;
		for (unsigned i = 0; rc == 0 && i < batch; i++)
			rc = make_entry(target, i, type, &rows[done + i]);
		if (rc == 0)
			rc = sml_bfrt_write(&target->bfrt, rows[done].table, type, target->messages,
					    batch);
	}
	return rc;
}

static int bfrt_insert(struct sml_p4_target *target, const struct sml_p4_row *rows, unsigned n)
{
	return write_rows(target, BFRT_PROTO__UPDATE__TYPE__INSERT, rows, n);
}

static int bfrt_modify(struct sml_p4_target *target, const struct sml_p4_row *row)
{
	return write_rows(target, BFRT_PROTO__UPDATE__TYPE__MODIFY, row, 1);
}

static int bfrt_remove(struct sml_p4_target *target, const struct sml_p4_row *rows, unsigned n)
{
	return write_rows(target, BFRT_PROTO__UPDATE__TYPE__DELETE, rows, n);
}

/* ---- the program ---- */

/* Each lane is a member of a register, which has two where an ALU serves two lanes. */
static int bfrt_limits(struct sml_p4_target *target, struct sml_p4_limits *limits)
{
	const json_t *tables = sml_bfrt_tables(&target->bfrt.schema), *uses;
	int rc = sml_bfrt_find_table(target, USES, &uses);

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
	return limits->lanes > 0 && limits->slots > 0 ? 0 : sml_bfrt_lacks(target, "its lanes");
}

static int bfrt_check(struct sml_p4_target *target)
{
	const json_t *jobs;
	int rc = sml_bfrt_find_table(target, JOBS, &jobs);

	return rc == 0 ? sml_bfrt_check(&target->bfrt, jobs) : rc;
}

/* ---- forgetting what earlier daemons have left ---- */

static int clear_table(struct sml_p4_target *target, const json_t *table)
{
	sml_bfrt_next_entry(target, 0, table);
	return sml_bfrt_write(&target->bfrt, sml_bfrt_short_name(table),
			      BFRT_PROTO__UPDATE__TYPE__DELETE, target->messages, 1);
}

static int clear_all(struct sml_p4_target *target, const char *type)
{
	const json_t *tables = sml_bfrt_tables(&target->bfrt.schema);
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < json_array_size(tables); i++) {
		const json_t *table = json_array_get(tables, i);

		if (sml_bfrt_is_of_type(table, type) &&
		    !sml_bfrt_has_attribute(table, "ConstTable"))
			rc = clear_table(target, table);
	}
	return rc;
}

/*
 * First the jobs', so that the program accepts no packet while it forgets the others. Registers
 * take seconds, in which the hosts' frames are not to be flooded.
 */
static int clear_program(struct sml_p4_target *target)
{
	const json_t *jobs;
	int rc = sml_bfrt_find_table(target, JOBS, &jobs);

	if (rc == 0)
		rc = clear_table(target, jobs);
	if (rc == 0)
		rc = clear_all(target, "Register");
	return rc == 0 ? clear_all(target, "MatchAction_Direct") : rc;
}

struct leftovers {
	const json_t *key;
	uint32_t first, n_range, n;
	uint32_t *ids; /* n_range */
};

static void note_leftover(void *context, const BfrtProto__TableEntry *entry)
{
	struct leftovers *left = context;
	uint64_t id;

	if (sml_bfrt_key_value(entry, left->key, &id) && id >= left->first &&
	    id - left->first < left->n_range && left->n < left->n_range)
		left->ids[left->n++] = (uint32_t)id;
}

/* Other programs of the device share the multicast engine, so only our numbers go. */
static int clear_numbered(struct sml_p4_target *target, const char *name, uint32_t first,
			  uint32_t n_range)
{
	struct leftovers left = {
		.first = first, .n_range = n_range, .ids = calloc(n_range, sizeof(*left.ids))};
	const json_t *table;
	int rc = sml_bfrt_find_indexed(target, name, &table);

	if (left.ids == NULL)
		return sml_bfrt_fail(&target->bfrt, -ENOMEM, name, "no memory");
	if (rc == 0) {
		left.key = sml_bfrt_key(table, 0);
		sml_bfrt_next_entry(target, 0, table);
		rc = sml_bfrt_read(&target->bfrt, name, SML_BFRT_ALL_PIPES, target->messages, 1,
				   note_leftover, &left);
	}
	if (rc == 0)
		rc = sml_bfrt_delete_numbered(target, name, left.ids, left.n);
	free(left.ids);
	return rc;
}

static int forget(struct sml_p4_target *target)
{
	int rc = clear_program(target);

	if (rc == 0)
		rc = clear_numbered(target, "$pre.mgid", SML_P4_FLOOD_GROUP,
				    SML_BFRT_GROUPS - SML_P4_FLOOD_GROUP);
	if (rc == 0)
		rc = clear_numbered(target, "$pre.node", SML_BFRT_FIRST_NODE, SML_BFRT_NODES);
	return rc;
}

/* ---- opening ---- */

static void bfrt_close(struct sml_p4_target *target)
{
	sml_bfrt_disconnect(&target->bfrt);
	free(target);
}

static int bfrt_open(struct sml_p4_target **opened, const struct sml_p4_address *address,
		     const struct sml_p4_services *services)
{
	struct sml_p4_target *target = calloc(1, sizeof(*target));
	int rc;

	if (target == NULL)
		return services->error_set(-ENOMEM, "no memory for the P4 switch");
	rc = sml_bfrt_connect(&target->bfrt, address, JOBS, services);
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
	.add_group = sml_bfrt_add_group,
	.remove_group = sml_bfrt_remove_group,
	.read_counter = sml_bfrt_read_counter,
	.read_registers = sml_bfrt_read_registers,
	.write_register = sml_bfrt_write_register,
};
