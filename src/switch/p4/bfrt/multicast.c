/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast groups of a Tofino switch. A group consists of nodes with numbers of their own, one for
 * each copy. Ours are in one range, so what an earlier daemon has left is known by its number.
 */
#include <errno.h>

#include "switch/p4/bfrt/target.h"

_Static_assert(SML_BFRT_GROUP_NODES <= SML_BFRT_BATCH, "the nodes of a group fit into one message");

static const json_t *field_of(const struct sml_p4_target *target, const json_t *table,
			      const char *name, int *rc)
{
	const json_t *field = sml_bfrt_data_named(table, name);

	if (field == NULL && *rc == 0)
		*rc = sml_bfrt_fail(&target->bfrt, -ENOENT, name,
				    "the switch has no such field: use bf_switchd 9.9 or later");
	return field;
}

static uint32_t node_id(uint16_t group, unsigned i)
{
	return SML_BFRT_FIRST_NODE + (uint32_t)group * SML_BFRT_GROUP_NODES + i;
}

static int write_nodes(struct sml_p4_target *target, uint16_t group,
		       const struct sml_p4_node *nodes, unsigned n)
{
	uint32_t ports[SML_BFRT_GROUP_NODES];
	const json_t *table, *replication, *lags, *port;
	int rc = sml_bfrt_find_indexed(target, "$pre.node", &table);

	if (rc < 0)
		return rc;
	replication = field_of(target, table, "$MULTICAST_RID", &rc);
	lags = field_of(target, table, "$MULTICAST_LAG_ID", &rc);
	port = field_of(target, table, "$DEV_PORT", &rc);
	for (unsigned i = 0; rc == 0 && i < n; i++) {
		struct sml_p4_field rid = sml_p4_number(nodes[i].replication, 4);
		struct sml_bfrt_entry *entry;

		rc = sml_bfrt_numbered_entry(target, i, table, node_id(group, i), &entry);
		ports[i] = nodes[i].port;
		sml_bfrt_entry_add_numbers(entry, lags, NULL, 0);
		sml_bfrt_entry_add_numbers(entry, port, &ports[i], 1);
		if (rc == 0 && !sml_bfrt_entry_add_data(entry, replication, &rid))
			rc = sml_bfrt_lacks(target, "$pre.node");
	}
	return rc == 0 ? sml_bfrt_write(&target->bfrt, "multicast nodes",
					BFRT_PROTO__UPDATE__TYPE__INSERT, target->messages, n)
		       : rc;
}

static int write_group(struct sml_p4_target *target, uint16_t group, unsigned n)
{
	/* Without exclusion: every node gets its copy. */
	protobuf_c_boolean excludes[SML_BFRT_GROUP_NODES] = {false};
	uint32_t ids[SML_BFRT_GROUP_NODES], exclusions[SML_BFRT_GROUP_NODES] = {0};
	const json_t *table, *nodes, *valid, *exclusion;
	struct sml_bfrt_entry *entry;
	int rc = sml_bfrt_find_indexed(target, "$pre.mgid", &table);

	if (rc < 0)
		return rc;
	nodes = field_of(target, table, "$MULTICAST_NODE_ID", &rc);
	valid = field_of(target, table, "$MULTICAST_NODE_L1_XID_VALID", &rc);
	exclusion = field_of(target, table, "$MULTICAST_NODE_L1_XID", &rc);
	if (rc == 0)
		rc = sml_bfrt_numbered_entry(target, 0, table, group, &entry);
	if (rc)
		return rc;
	for (unsigned i = 0; i < n; i++)
		ids[i] = node_id(group, i);
	sml_bfrt_entry_add_numbers(entry, nodes, ids, n);
	sml_bfrt_entry_add_flags(entry, valid, excludes, n);
	sml_bfrt_entry_add_numbers(entry, exclusion, exclusions, n);
	return sml_bfrt_write(&target->bfrt, "a multicast group", BFRT_PROTO__UPDATE__TYPE__INSERT,
			      target->messages, 1);
}

int sml_bfrt_add_group(struct sml_p4_target *target, uint16_t group,
		       const struct sml_p4_node *nodes, unsigned n)
{
	int rc;

	if (group >= SML_BFRT_GROUPS || n > SML_BFRT_GROUP_NODES)
		return target->bfrt.services->error_set(
			-EINVAL, "%u ports in multicast group %u: there can be %u", n, group,
			SML_BFRT_GROUP_NODES);
	rc = write_nodes(target, group, nodes, n);
	if (rc == 0)
		rc = write_group(target, group, n);
	if (rc == 0)
		target->group_nodes[group] = (uint8_t)n;
	return rc;
}

int sml_bfrt_delete_numbered(struct sml_p4_target *target, const char *name, const uint32_t *ids,
			     size_t n)
{
	struct sml_bfrt_entry *entry;
	const json_t *table;
	int rc = sml_bfrt_find_indexed(target, name, &table);

	while (rc == 0 && n > 0) {
		size_t batch = n < SML_BFRT_BATCH ? n : SML_BFRT_BATCH;

		for (size_t i = 0; rc == 0 && i < batch; i++)
			rc = sml_bfrt_numbered_entry(target, i, table, ids[i], &entry);
		if (rc == 0)
			rc = sml_bfrt_write(&target->bfrt, name, BFRT_PROTO__UPDATE__TYPE__DELETE,
					    target->messages, batch);
		ids += batch;
		n -= batch;
	}
	return rc;
}

int sml_bfrt_remove_group(struct sml_p4_target *target, uint16_t group)
{
	uint32_t ids[SML_BFRT_GROUP_NODES], number = group;
	unsigned n = group < SML_BFRT_GROUPS ? target->group_nodes[group] : 0;
	int rc;

	if (n == 0)
		return 0;
	for (unsigned i = 0; i < n; i++)
		ids[i] = node_id(group, i);
	target->group_nodes[group] = 0;
	/* A node goes after the group that it is in. */
	rc = sml_bfrt_delete_numbered(target, "$pre.mgid", &number, 1);
	return rc == 0 ? sml_bfrt_delete_numbered(target, "$pre.node", ids, n) : rc;
}
