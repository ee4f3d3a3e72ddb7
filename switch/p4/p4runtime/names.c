/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of a program in P4Info, and numbers as P4Runtime wants them: see internal.h. */
#include <string.h>

#include "switch/p4/p4runtime/internal.h"

/* All objects of P4Info begin with their preamble, which the network does not have to contain. */
#define FIND(list, n)                                                                              \
	do {                                                                                       \
		for (size_t i_ = 0; i_ < (n); i_++)                                                \
			if ((list)[i_]->preamble != NULL &&                                        \
			    strcmp((list)[i_]->preamble->name, name) == 0)                         \
				return (list)[i_];                                                 \
		return NULL;                                                                       \
	} while (0)

const P4__Config__V1__Table *p4rt_table(const P4__Config__V1__P4Info *info, const char *name)
{
	FIND(info->tables, info->n_tables);
}

const P4__Config__V1__Action *p4rt_action(const P4__Config__V1__P4Info *info, const char *name)
{
	FIND(info->actions, info->n_actions);
}

const P4__Config__V1__Counter *p4rt_counter(const P4__Config__V1__P4Info *info, const char *name)
{
	FIND(info->counters, info->n_counters);
}

const P4__Config__V1__Register *p4rt_register(const P4__Config__V1__P4Info *info, const char *name)
{
	FIND(info->registers, info->n_registers);
}

ProtobufCBinaryData p4rt_bytes(const struct sml_p4_field *field)
{
	size_t zeros = 0;

	while (zeros + 1 < field->n && field->bytes[zeros] == 0)
		zeros++;
	/* protobuf-c's messages are not constant, but packing changes nothing. */
	return (ProtobufCBinaryData){.len = field->n - zeros,
				     .data = (uint8_t *)(uintptr_t)&field->bytes[zeros]};
}

bool p4rt_fits(ProtobufCBinaryData bytes, int32_t bits)
{
	size_t whole = (size_t)bits / 8, more = (size_t)bits % 8;

	if (bytes.len != whole + 1)
		return bytes.len <= whole;
	return more == 0 ? bytes.data[0] == 0 : bytes.data[0] >> more == 0;
}
