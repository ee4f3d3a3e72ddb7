/* SPDX-License-Identifier: BSD-3-Clause */
/* The program's tables, and entries of them that are being written. */
#include <errno.h>

#include "core/base.h"
#include "switch/p4/bfrt/target.h"

#define NO_PROGRAM "compile p4/tna/switchml.p4 of this version, and start bf_switchd with it"

struct sml_p4_field sml_bfrt_number_of(uint32_t value)
{
	return (struct sml_p4_field){.n = 4,
				     .bytes = {(uint8_t)(value >> 24), (uint8_t)(value >> 16),
					       (uint8_t)(value >> 8), (uint8_t)value}};
}

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

/* A table whose only key is an index or a number. */
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
