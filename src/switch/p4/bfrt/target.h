/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the Tofino target share: the target, and entries of the program's tables that
 * are being written. A table that the program lacks is an error whose text says so.
 */
#ifndef SML_SWITCH_P4_BFRT_TARGET_H
#define SML_SWITCH_P4_BFRT_TARGET_H

#include "p4/constants.h"
#include "switch/p4/bfrt/session.h"

#define SML_BFRT_GROUPS	     (SML_P4_FIRST_GROUP + SML_MAX_JOBS)
#define SML_BFRT_GROUP_NODES SML_MAX_CHILDREN
/* A group's node has a number that no other program of the device uses. */
#define SML_BFRT_FIRST_NODE 0x530000u
#define SML_BFRT_NODES	    ((uint32_t)SML_BFRT_GROUPS * SML_BFRT_GROUP_NODES)

struct sml_p4_target {
	struct sml_bfrt bfrt;
	uint8_t group_nodes[SML_BFRT_GROUPS];
	/* The entries of the message that is being written. */
	struct sml_bfrt_entry entries[SML_BFRT_BATCH];
	BfrtProto__TableEntry *messages[SML_BFRT_BATCH];
};

/* ---- tables and their entries (tables.c) ---- */

/* Returns an error whose text says that the switch's program has no such thing as `what`. */
int sml_bfrt_lacks(const struct sml_p4_target *target, const char *what);

/* Finds a table by its name. Returns 0, or the error of sml_bfrt_lacks(). */
int sml_bfrt_find_table(const struct sml_p4_target *target, const char *name, const json_t **table);
/* Finds a table whose only key is an index or a number. */
int sml_bfrt_find_indexed(const struct sml_p4_target *target, const char *name,
			  const json_t **table);

/* The message's entry i, of this table, and still without keys and data. */
struct sml_bfrt_entry *sml_bfrt_next_entry(struct sml_p4_target *target, size_t i,
					   const json_t *table);
/* The same, with this number as its key. */
int sml_bfrt_numbered_entry(struct sml_p4_target *target, size_t i, const json_t *table,
			    uint32_t number, struct sml_bfrt_entry **entry);

/* ---- operations: see switch/p4/target.h ---- */

/* multicast.c */
int sml_bfrt_add_group(struct sml_p4_target *target, uint16_t group,
		       const struct sml_p4_node *nodes, unsigned n);
int sml_bfrt_remove_group(struct sml_p4_target *target, uint16_t group);
/* Delete `n` entries whose numbers are these, from a table of the multicast engine. */
int sml_bfrt_delete_numbered(struct sml_p4_target *target, const char *name, const uint32_t *ids,
			     size_t n);

/* registers.c */
int sml_bfrt_read_counter(struct sml_p4_target *target, const char *name, uint32_t index,
			  uint64_t *packets, uint64_t *bytes);
int sml_bfrt_read_registers(struct sml_p4_target *target, const char *name, unsigned pipe,
			    uint32_t first, uint64_t *values, uint32_t n);
int sml_bfrt_write_register(struct sml_p4_target *target, const char *name, uint32_t index,
			    uint64_t value);

#endif
