/* SPDX-License-Identifier: BSD-3-Clause */
/* Entries of BMv2's tables with exact matches, through Thrift: see internal.h. */
#include <errno.h>
#include <string.h>

#include "switch/p4/thrift/internal.h"

/* ---- what came of a call ---- */

int sml_bmv2_fail(struct sml_p4_target *target, const char *what, GError *error)
{
	/* Who has not even let us in may not be a simple_switch. */
	bool is_stranger = error != NULL && !target->owner.holds;
	int rc = target->services->error_set(
		-EREMOTEIO, "the P4 switch at %s: %s: %s%s", target->where, what,
		error != NULL ? error->message : "it refuses; does it run our program?",
		is_stranger ? "; is that the --thrift-port of simple_switch?" : "");

	g_clear_error(&error);
	return rc;
}

int sml_bmv2_need(struct sml_p4_target *target, const char *table, int rc)
{
	return rc == SML_BMV2_REFUSED ? sml_bmv2_fail(target, table, NULL) : rc;
}

/* Takes both. */
static int outcome(struct sml_p4_target *target, const char *table, gboolean ok,
		   BmInvalidTableOperation *refusal, GError *error)
{
	if (refusal != NULL) {
		g_object_unref(refusal);
		g_clear_error(&error);
		return SML_BMV2_REFUSED;
	}
	return ok ? 0 : sml_bmv2_fail(target, table, error);
}

/* ---- rows ---- */

static GByteArray *bytes_of(const struct sml_p4_field *field)
{
	return g_byte_array_append(g_byte_array_sized_new(field->n), field->bytes, field->n);
}

static GPtrArray *key_of(const struct sml_p4_row *row)
{
	GPtrArray *key = g_ptr_array_new_with_free_func(g_object_unref);

	for (unsigned i = 0; i < row->n_keys; i++) {
		GByteArray *bytes = bytes_of(&row->keys[i]);
		BmMatchParamExact *exact =
			g_object_new(BM_TYPE_MATCH_PARAM_EXACT, "key", bytes, NULL);

		g_ptr_array_add(key, g_object_new(BM_TYPE_MATCH_PARAM, "type",
						  BM_MATCH_PARAM_TYPE_EXACT, "exact", exact, NULL));
		g_object_unref(exact);
		g_byte_array_unref(bytes);
	}
	return key;
}

static void unref_bytes(gpointer bytes)
{
	g_byte_array_unref(bytes);
}

static GPtrArray *parameters_of(const struct sml_p4_row *row)
{
	GPtrArray *parameters = g_ptr_array_new_with_free_func(unref_bytes);

	for (unsigned i = 0; i < row->n_parameters; i++)
		g_ptr_array_add(parameters, bytes_of(&row->parameters[i]));
	return parameters;
}

static struct sml_p4_field first_parameter(const BmEntry *entry)
{
	const GPtrArray *all = entry->action_entry ? entry->action_entry->action_data : NULL;
	struct sml_p4_field field = {.n = 0};
	const GByteArray *first;

	if (all == NULL || all->len == 0)
		return field;
	first = g_ptr_array_index(all, 0);
	if (first->len <= sizeof(field.bytes)) {
		field.n = (uint8_t)first->len;
		memcpy(field.bytes, first->data, first->len);
	}
	return field;
}

/* ---- one entry ---- */

int sml_bmv2_add(struct sml_p4_target *target, const struct sml_p4_row *row, gint32 *handle)
{
	GPtrArray *key = key_of(row), *parameters = parameters_of(row);
	BmAddEntryOptions *options = g_object_new(BM_TYPE_ADD_ENTRY_OPTIONS, NULL);
	BmInvalidTableOperation *refusal = NULL;
	GError *error = NULL;
	gboolean ok = bm_standard_if_bm_mt_add_entry(target->standard, handle, SML_BMV2_CONTEXT,
						     row->table, key, row->action, parameters,
						     options, &refusal, &error);

	g_object_unref(options);
	g_ptr_array_unref(parameters);
	g_ptr_array_unref(key);
	return outcome(target, row->table, ok, refusal, error);
}

int sml_bmv2_find(struct sml_p4_target *target, const struct sml_p4_row *row,
		  struct sml_bmv2_entry *found)
{
	GPtrArray *key = key_of(row);
	BmAddEntryOptions *options = g_object_new(BM_TYPE_ADD_ENTRY_OPTIONS, NULL);
	BmEntry *entry = g_object_new(BM_TYPE_ENTRY, NULL);
	BmInvalidTableOperation *refusal = NULL;
	GError *error = NULL;
	gboolean ok =
		bm_standard_if_bm_mt_get_entry_from_key(target->standard, &entry, SML_BMV2_CONTEXT,
							row->table, key, options, &refusal, &error);

	*found = (struct sml_bmv2_entry){entry->entry_handle, first_parameter(entry)};
	g_object_unref(entry);
	g_object_unref(options);
	g_ptr_array_unref(key);
	return outcome(target, row->table, ok, refusal, error);
}

int sml_bmv2_change(struct sml_p4_target *target, const struct sml_p4_row *row, gint32 handle)
{
	GPtrArray *parameters = parameters_of(row);
	BmInvalidTableOperation *refusal = NULL;
	GError *error = NULL;
	gboolean ok = bm_standard_if_bm_mt_modify_entry(target->standard, SML_BMV2_CONTEXT,
							row->table, handle, row->action, parameters,
							&refusal, &error);

	g_ptr_array_unref(parameters);
	return outcome(target, row->table, ok, refusal, error);
}

int sml_bmv2_delete(struct sml_p4_target *target, const char *table, gint32 handle)
{
	BmInvalidTableOperation *refusal = NULL;
	GError *error = NULL;
	gboolean ok = bm_standard_if_bm_mt_delete_entry(target->standard, SML_BMV2_CONTEXT, table,
							handle, &refusal, &error);

	return outcome(target, table, ok, refusal, error);
}

/* ---- many ---- */

int sml_bmv2_clear(struct sml_p4_target *target, const char *table)
{
	BmInvalidTableOperation *refusal = NULL;
	GError *error = NULL;
	gboolean ok = bm_standard_if_bm_mt_clear_entries(target->standard, SML_BMV2_CONTEXT, table,
							 FALSE, &refusal, &error);

	return outcome(target, table, ok, refusal, error);
}

int sml_bmv2_delete_others(struct sml_p4_target *target, const char *table, gint32 handle)
{
	GPtrArray *entries = g_ptr_array_new_with_free_func(g_object_unref);
	BmInvalidTableOperation *refusal = NULL;
	GError *error = NULL;
	gboolean ok = bm_standard_if_bm_mt_get_entries(target->standard, &entries, SML_BMV2_CONTEXT,
						       table, &refusal, &error);
	int rc = outcome(target, table, ok, refusal, error);

	for (guint i = 0; rc == 0 && i < entries->len; i++) {
		const BmEntry *entry = g_ptr_array_index(entries, i);

		if (entry->entry_handle != handle)
			rc = sml_bmv2_delete(target, table, entry->entry_handle);
	}
	g_ptr_array_unref(entries);
	return rc;
}
