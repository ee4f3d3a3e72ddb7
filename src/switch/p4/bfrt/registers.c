/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters and registers of a Tofino switch, read from its hardware. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "switch/p4/bfrt/target.h"

struct counting {
	const json_t *table;
	uint64_t *packets, *bytes;
	bool found;
};

static void take_counter(void *context, const BfrtProto__TableEntry *entry)
{
	struct counting *counting = context;
	const json_t *packets = sml_bfrt_data_named(counting->table, "$COUNTER_SPEC_PKTS");
	const json_t *bytes = sml_bfrt_data_named(counting->table, "$COUNTER_SPEC_BYTES");

	*counting->bytes = 0;
	counting->found = sml_bfrt_value(entry, packets, 0, counting->packets);
	if (bytes != NULL && !sml_bfrt_value(entry, bytes, 0, counting->bytes))
		counting->found = false;
}

int sml_bfrt_read_counter(struct sml_p4_target *target, const char *name, uint32_t index,
			  uint64_t *packets, uint64_t *bytes)
{
	struct counting counting = {.packets = packets, .bytes = bytes};
	struct sml_bfrt_entry *entry;
	int rc = sml_bfrt_find_indexed(target, name, &counting.table);

	if (rc == 0)
		rc = sml_bfrt_numbered_entry(target, 0, counting.table, index, &entry);
	if (rc)
		return rc;
	sml_bfrt_entry_from_hardware(entry);
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
		       : sml_bfrt_lacks(target, name);
}

static void take_register(void *context, const BfrtProto__TableEntry *entry)
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
}

static int read_batch(struct sml_p4_target *target, const char *name, unsigned pipe,
		      struct registers *registers)
{
	struct sml_bfrt_entry *entry;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < registers->n; i++) {
		rc = sml_bfrt_numbered_entry(target, i, registers->table, registers->first + i,
					     &entry);
		sml_bfrt_entry_from_hardware(entry);
	}
	if (rc < 0)
		return rc;
	rc = sml_bfrt_read(&target->bfrt, name, pipe, target->messages, registers->n, take_register,
			   registers);
	if (rc == 0 && registers->found != registers->n)
		rc = sml_bfrt_fail(&target->bfrt, -EBADMSG, name,
				   "an answer without all the registers");
	return rc;
}

int sml_bfrt_read_registers(struct sml_p4_target *target, const char *name, unsigned pipe,
			    uint32_t first, uint64_t *values, uint32_t n)
{
	struct registers registers = {.values = values, .first = first};
	int rc = find_register(target, name, &registers);

	while (rc == 0 && n > 0) {
		registers.n = n < SML_BFRT_BATCH ? n : SML_BFRT_BATCH;
		registers.found = 0;
		rc = read_batch(target, name, pipe, &registers);
		n -= registers.n;
		registers.first += registers.n;
		registers.values += registers.n;
	}
	return rc;
}

/* The other member of a pair gets 0. */
int sml_bfrt_write_register(struct sml_p4_target *target, const char *name, uint32_t index,
			    uint64_t value)
{
	struct sml_p4_field none = {.n = 1}, own = sml_p4_number(value, sizeof(value));
	struct registers registers = {.first = index};
	struct sml_bfrt_entry *entry;
	bool fits;
	int rc = find_register(target, name, &registers);

	if (rc == 0)
		rc = sml_bfrt_numbered_entry(target, 0, registers.table, index, &entry);
	if (rc)
		return rc;
	fits = sml_bfrt_data_fields(registers.table) <= 2;
	for (size_t i = 0; fits && i < sml_bfrt_data_fields(registers.table); i++) {
		const json_t *field = sml_bfrt_data_field(registers.table, i);

		fits = sml_bfrt_entry_add_data(entry, field,
					       field == registers.member ? &own : &none);
	}
	return fits ? sml_bfrt_write(&target->bfrt, name, BFRT_PROTO__UPDATE__TYPE__INSERT,
				     target->messages, 1)
		    : sml_bfrt_lacks(target, name);
}
