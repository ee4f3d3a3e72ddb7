/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An entry of a table as a message of BF Runtime. The message points into the entry, so the entry
 * stays where it is, and what is added here must fit: a table's fields are checked before.
 */
#ifndef SML_SWITCH_P4_BFRT_ENTRY_H
#define SML_SWITCH_P4_BFRT_ENTRY_H

#include "bfruntime.pb-c.h"
#include "switch/p4/bfrt/schema.h"

struct sml_bfrt_entry {
	BfrtProto__TableEntry message;
	BfrtProto__TableFlags flags;
	BfrtProto__TableKey key;
	BfrtProto__KeyField keys[SML_P4_KEYS], *key_list[SML_P4_KEYS];
	BfrtProto__KeyField__Exact exact[SML_P4_KEYS];
	BfrtProto__TableData data;
	BfrtProto__DataField fields[SML_P4_PARAMETERS], *field_list[SML_P4_PARAMETERS];
	BfrtProto__DataField__IntArray numbers[SML_P4_PARAMETERS];
	BfrtProto__DataField__BoolArray flags_list[SML_P4_PARAMETERS];
	uint8_t bytes[SML_P4_KEYS + SML_P4_PARAMETERS][SML_P4_FIELD_BYTES];
};

/* Of no key and no data: all entries, for the operations that know this. */
void sml_bfrt_entry_init(struct sml_bfrt_entry *entry, const json_t *table);

/* What the hardware has, and not what the driver remembers. */
void sml_bfrt_entry_from_hardware(struct sml_bfrt_entry *entry);

/* false: the number does not fit into the field. */
bool sml_bfrt_entry_add_key(struct sml_bfrt_entry *entry, const json_t *field,
			    const struct sml_p4_field *number);
void sml_bfrt_entry_set_action(struct sml_bfrt_entry *entry, const json_t *action);
bool sml_bfrt_entry_add_data(struct sml_bfrt_entry *entry, const json_t *field,
			     const struct sml_p4_field *number);

/* Lists of n, which the caller keeps as long as the entry. */
void sml_bfrt_entry_add_numbers(struct sml_bfrt_entry *entry, const json_t *field,
				uint32_t *numbers, size_t n);
void sml_bfrt_entry_add_flags(struct sml_bfrt_entry *entry, const json_t *field,
			      protobuf_c_boolean *flags, size_t n);

/* The i-th value that a received entry has for the field, as a number. false: it has none. */
bool sml_bfrt_value(const BfrtProto__TableEntry *entry, const json_t *field, size_t i,
		    uint64_t *value);

/* The number in a received entry's key. false: it has no such key. */
bool sml_bfrt_key_value(const BfrtProto__TableEntry *entry, const json_t *field, uint64_t *value);

#endif
