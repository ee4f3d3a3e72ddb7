/* SPDX-License-Identifier: BSD-3-Clause */
/* The program's tables, and entries of them that are being written. */
#include <errno.h>

#include "core/base.h"
#include "switch/p4/bfrt/target.h"

#define NO_PROGRAM "compile p4/tna/switchml.p4 of this version, and start bf_switchd with it"

int sml_bfrt_lacks(const struct sml_p4_target *target, const char *what)
{
	return sml_bfrt_fail(&target->bfrt, -ENOENT, what,
			     "the switch's program differs: " NO_PROGRAM);
}

int sml_bfrt_find_table(const struct sml_p4_target *target, const char *name, const json_t **table)
{
	*table = sml_bfrt_table(&target->bfrt.schema, name);
	return *table != NULL && sml_bfrt_id(*table) != 0 ? 0 : sml_bfrt_lacks(target, name);
}

int sml_bfrt_find_indexed(const struct sml_p4_target *target, const char *name,
			  const json_t **table)
{
	int rc = sml_bfrt_find_table(target, name, table);

	return rc == 0 && sml_bfrt_keys(*table) != 1 ? sml_bfrt_lacks(target, name) : rc;
}

struct sml_bfrt_entry *sml_bfrt_next_entry(struct sml_p4_target *target, size_t i,
					   const json_t *table)
{
	sml_assert(i < SML_BFRT_BATCH);
	sml_bfrt_entry_init(&target->entries[i], table);
	target->messages[i] = &target->entries[i].message;
	return &target->entries[i];
}

int sml_bfrt_numbered_entry(struct sml_p4_target *target, size_t i, const json_t *table,
			    uint32_t number, struct sml_bfrt_entry **entry)
{
	struct sml_p4_field key = sml_p4_number(number, sizeof(number));

	*entry = sml_bfrt_next_entry(target, i, table);
	return sml_bfrt_entry_add_key(*entry, sml_bfrt_key(table, 0), &key)
		       ? 0
		       : sml_bfrt_lacks(target, sml_bfrt_short_name(table));
}
