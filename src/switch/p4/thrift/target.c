/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * BMv2's simple_switch as a target, through its Thrift port: a module of its own, because only its
 * users need Thrift's C library. All services share one connection.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "net/connect.h"
#include "switch/p4/thrift/internal.h"

/* simple_switch drops what a port's queue (64 packets) cannot take; a burst of results is longer.
 */
#define QUEUE_PACKETS 1024
#define WINDOW	      256
#define TIMEOUT_MS    10000 /* of each of its calls */

/* ---- entries of tables ---- */

static int bmv2_insert(struct sml_p4_target *target, const struct sml_p4_row *rows, unsigned n)
{
	gint32 handle;
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < n; i++) {
		rc = sml_bmv2_owner_keep(target);
		if (rc == 0)
			rc = sml_bmv2_need(target, rows[i].table,
					   sml_bmv2_add(target, &rows[i], &handle));
	}
	return rc;
}

static int find_entry(struct sml_p4_target *target, const struct sml_p4_row *row, gint32 *handle)
{
	struct sml_bmv2_entry entry;
	int rc = sml_bmv2_owner_keep(target);

	if (rc == 0)
		rc = sml_bmv2_need(target, row->table, sml_bmv2_find(target, row, &entry));
	*handle = rc == 0 ? entry.handle : 0;
	return rc;
}

static int bmv2_modify(struct sml_p4_target *target, const struct sml_p4_row *row)
{
	gint32 handle;
	int rc = find_entry(target, row, &handle);

	return rc < 0 ? rc
		      : sml_bmv2_need(target, row->table, sml_bmv2_change(target, row, handle));
}

static int bmv2_remove(struct sml_p4_target *target, const struct sml_p4_row *rows, unsigned n)
{
	gint32 handle;
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < n; i++) {
		rc = find_entry(target, &rows[i], &handle);
		if (rc == 0)
			rc = sml_bmv2_need(target, rows[i].table,
					   sml_bmv2_delete(target, rows[i].table, handle));
	}
	return rc;
}

/* ---- multicast ---- */

static int add_node(struct sml_p4_target *target, struct sml_bmv2_group *group,
		    const struct sml_p4_node *node)
{
	BmInvalidMcOperation *refusal = NULL;
	GError *error = NULL;
	gint32 *handle = &group->nodes[group->n];
	/* Ports as digits, port 0 last. */
	GString *ports = g_string_new("1");
	gboolean ok;

	for (unsigned i = 0; i < node->port; i++)
		g_string_append_c(ports, '0');
	ok = bm_simple_pre_l_a_g_if_bm_mc_node_create(target->replication, handle, SML_BMV2_CONTEXT,
						      node->replication, ports->str, "", &refusal,
						      &error);
	g_string_free(ports, TRUE);
	SML_BMV2_CALL(ok, "a multicast node", refusal);
	group->n++;
	ok = bm_simple_pre_l_a_g_if_bm_mc_node_associate(target->replication, SML_BMV2_CONTEXT,
							 group->handle, *handle, &refusal, &error);
	SML_BMV2_CALL(ok, "a multicast node", refusal);
	return 0;
}

static int destroy_node(struct sml_p4_target *target, gint32 handle)
{
	BmInvalidMcOperation *refusal = NULL;
	GError *error = NULL;
	gboolean ok = bm_simple_pre_l_a_g_if_bm_mc_node_destroy(
		target->replication, SML_BMV2_CONTEXT, handle, &refusal, &error);

	SML_BMV2_CALL(ok, "a multicast node", refusal);
	return 0;
}

static int destroy_group(struct sml_p4_target *target, gint32 handle)
{
	BmInvalidMcOperation *refusal = NULL;
	GError *error = NULL;
	gboolean ok = bm_simple_pre_l_a_g_if_bm_mc_mgrp_destroy(
		target->replication, SML_BMV2_CONTEXT, handle, &refusal, &error);

	SML_BMV2_CALL(ok, "a multicast group", refusal);
	return 0;
}

static int bmv2_remove_group(struct sml_p4_target *target, uint16_t number)
{
	struct sml_bmv2_group *group = &target->groups[number % SML_BMV2_GROUPS];
	int rc = sml_bmv2_owner_keep(target);

	if (rc < 0 || !group->used)
		return rc;
	group->used = false;
	/* BMv2 looks for a node's group when the node goes. */
	while (group->n > 0 && rc == 0)
		rc = destroy_node(target, group->nodes[--group->n]);
	return rc < 0 ? rc : destroy_group(target, group->handle);
}

static int bmv2_add_group(struct sml_p4_target *target, uint16_t number,
			  const struct sml_p4_node *nodes, unsigned n)
{
	struct sml_bmv2_group *group = &target->groups[number % SML_BMV2_GROUPS];
	BmInvalidMcOperation *refusal = NULL;
	GError *error = NULL;
	int rc = sml_bmv2_owner_keep(target);
	gboolean ok;

	if (rc < 0)
		return rc;
	if (n > SML_BMV2_GROUP_NODES)
		return target->services->error_set(-EINVAL, "%u ports in a multicast group", n);
	ok = bm_simple_pre_l_a_g_if_bm_mc_mgrp_create(target->replication, &group->handle,
						      SML_BMV2_CONTEXT, number, &refusal, &error);
	SML_BMV2_CALL(ok, "a multicast group", refusal);
	group->used = true;
	group->n = 0;
	for (unsigned i = 0; i < n && rc == 0; i++)
		rc = add_node(target, group, &nodes[i]);
	return rc;
}

/* ---- counters and registers ---- */

static int bmv2_read_counter(struct sml_p4_target *target, const char *name, uint32_t index,
			     uint64_t *packets, uint64_t *bytes)
{
	BmCounterValue *value = g_object_new(BM_TYPE_COUNTER_VALUE, NULL);
	BmInvalidCounterOperation *refusal = NULL;
	GError *error = NULL;
	gboolean ok = bm_standard_if_bm_counter_read(target->standard, &value, SML_BMV2_CONTEXT,
						     name, (gint32)index, &refusal, &error);

	*packets = (uint64_t)value->packets;
	*bytes = (uint64_t)value->bytes;
	g_object_unref(value);
	SML_BMV2_CALL(ok, name, refusal);
	return 0;
}

static int bmv2_read_registers(struct sml_p4_target *target, const char *name, unsigned pipe,
			       uint32_t first, uint64_t *values, uint32_t n)
{
	GArray *all = g_array_new(FALSE, FALSE, sizeof(gint64));
	BmInvalidRegisterOperation *refusal = NULL;
	GError *error = NULL;
	gboolean ok = bm_standard_if_bm_register_read_all(target->standard, &all, SML_BMV2_CONTEXT,
							  name, &refusal, &error);
	bool whole = ok && refusal == NULL && all->len >= first && all->len - first >= n;

	(void)pipe;
	if (whole)
		memcpy(values, &g_array_index(all, gint64, first), n * sizeof(values[0]));
	g_array_unref(all);
	SML_BMV2_CALL(ok, name, refusal);
	return whole ? 0 : sml_bmv2_fail(target, name, NULL);
}

static int bmv2_write_register(struct sml_p4_target *target, const char *name, uint32_t index,
			       uint64_t value)
{
	BmInvalidRegisterOperation *refusal = NULL;
	GError *error = NULL;
	gboolean ok =
		bm_standard_if_bm_register_write(target->standard, SML_BMV2_CONTEXT, name,
						 (gint32)index, (gint64)value, &refusal, &error);

	SML_BMV2_CALL(ok, name, refusal);
	return 0;
}

/* ---- forgetting what an earlier controller has left ---- */

static int forget_groups(struct sml_p4_target *target)
{
	BmInvalidMcOperation *refusal = NULL;
	json_t *entries, *each;
	GError *error = NULL;
	gchar *text = NULL;
	size_t i;
	int rc = 0;
	gboolean ok = bm_simple_pre_l_a_g_if_bm_mc_get_entries(target->replication, &text,
							       SML_BMV2_CONTEXT, &refusal, &error);

	SML_BMV2_CALL(ok, "the multicast groups", refusal);
	entries = json_loads(text, 0, NULL);
	g_free(text);
	if (entries == NULL)
		return target->services->error_set(-EPROTO,
						   "the P4 switch at %s describes its multicast "
						   "groups in a form that this program cannot read",
						   target->where);
	/* Nodes first: see bmv2_remove_group(). */
	json_array_foreach(json_object_get(entries, "l1_handles"), i, each)
	{
		if (rc == 0)
			rc = destroy_node(target, (gint32)json_integer_value(
							  json_object_get(each, "handle")));
	}
	json_array_foreach(json_object_get(entries, "mgrps"), i, each)
	{
		if (rc == 0)
			rc = destroy_group(target,
					   (gint32)json_integer_value(json_object_get(each, "id")));
	}
	json_decref(entries);
	return rc;
}

/* ---- opening ---- */

static void *client(struct sml_p4_target *target, unsigned i, const char *service, GType type)
{
	target->protocols[i] =
		g_object_new(THRIFT_TYPE_MULTIPLEXED_PROTOCOL, "transport", target->transport,
			     "service-name", service, "protocol", target->protocol, NULL);
	return g_object_new(type, "input_protocol", target->protocol, "output_protocol",
			    target->protocols[i], NULL);
}

static void bmv2_close(struct sml_p4_target *target)
{
	sml_bmv2_owner_give(target);
	g_clear_object(&target->standard);
	g_clear_object(&target->replication);
	g_clear_object(&target->queues);
	for (unsigned i = 0; i < 3; i++)
		g_clear_object(&target->protocols[i]);
	g_clear_object(&target->protocol);
	if (target->raw != NULL)
		thrift_transport_close(target->raw, NULL);
	g_clear_object(&target->transport);
	g_clear_object(&target->raw);
	free(target);
}

/* BMv2 finds an entry in each table that it does not have, so first of all: is it our program? */
static int take_over_switch(struct sml_p4_target *target)
{
	struct sml_p4_limits limits;
	GError *error = NULL;
	gint32 result;
	int rc = sml_bmv2_limits(target, &limits);

	if (rc == 0)
		rc = sml_bmv2_owner_take(target);
	if (rc == 0)
		rc = sml_bmv2_forget_program(target);
	if (rc == 0)
		rc = forget_groups(target);
	if (rc < 0)
		return rc;
	if (!bm_simple_switch_if_set_all_egress_queue_depths(target->queues, &result, QUEUE_PACKETS,
							     &error))
		return sml_bmv2_fail(target, "queues", error);
	return 0;
}

static int bmv2_open(struct sml_p4_target **opened, const struct sml_p4_address *address,
		     const struct sml_p4_services *services)
{
	struct sml_connect wish = {
		.host = address->host, .port = address->port, .timeout_ms = TIMEOUT_MS};
	struct sml_p4_target *target = calloc(1, sizeof(*target));
	int fd, rc;

	if (target == NULL)
		return services->error_set(-ENOMEM, "no memory for the P4 switch");
	target->services = services;
	snprintf(target->where, sizeof(target->where), "%s port %u", address->host, address->port);
	fd = sml_connect(&wish);
	if (fd < 0) {
		rc = services->error_set(fd,
					 "the P4 switch at %s cannot be reached: %s: does "
					 "simple_switch run there?",
					 target->where, wish.why);
		free(target);
		return rc;
	}
	/* Its own connect would have no limits of time. */
	target->raw = g_object_new(THRIFT_TYPE_SOCKET, NULL);
	THRIFT_SOCKET(target->raw)->sd = fd;
	target->transport =
		g_object_new(THRIFT_TYPE_BUFFERED_TRANSPORT, "transport", target->raw, NULL);
	target->protocol =
		g_object_new(THRIFT_TYPE_BINARY_PROTOCOL, "transport", target->transport, NULL);
	target->standard = client(target, 0, "standard", BM_TYPE_STANDARD_CLIENT);
	target->replication = client(target, 1, "simple_pre_lag", BM_TYPE_SIMPLE_PRE_L_A_G_CLIENT);
	target->queues = client(target, 2, "simple_switch", BM_TYPE_SIMPLE_SWITCH_CLIENT);
	rc = take_over_switch(target);
	if (rc < 0) {
		bmv2_close(target);
		return rc;
	}
	*opened = target;
	return 0;
}

extern const struct sml_p4_target_operations sml_p4_target_operations;
__attribute__((visibility("default")))
const struct sml_p4_target_operations sml_p4_target_operations = {
	.version = SML_P4_TARGET_VERSION,
	.name = "bmv2",
	.window = WINDOW,
	.open = bmv2_open,
	.close = bmv2_close,
	.limits = sml_bmv2_limits,
	.check = sml_bmv2_owner_beat,
	.insert = bmv2_insert,
	.modify = bmv2_modify,
	.remove = bmv2_remove,
	.add_group = bmv2_add_group,
	.remove_group = bmv2_remove_group,
	.read_counter = bmv2_read_counter,
	.read_registers = bmv2_read_registers,
	.write_register = bmv2_write_register,
};
