/* SPDX-License-Identifier: BSD-3-Clause */
/* An entry of a table as a message of BF Runtime: see session.h. */
#include "switch/p4/bfrt/session.h"

#include "core/base.h"

void sml_bfrt_entry_init(struct sml_bfrt_entry *entry, const json_t *table)
{
	bfrt_proto__table_entry__init(&entry->message);
	bfrt_proto__table_flags__init(&entry->flags);
	bfrt_proto__table_key__init(&entry->key);
	bfrt_proto__table_data__init(&entry->data);
	entry->message.table_id = sml_bfrt_id(table);
	entry->key.fields = entry->key_list;
	entry->data.fields = entry->field_list;
}

void sml_bfrt_entry_from_hardware(struct sml_bfrt_entry *entry)
{
	entry->flags.from_hw = true;
	entry->message.table_flags = &entry->flags;
}

bool sml_bfrt_entry_add_key(struct sml_bfrt_entry *entry, const json_t *field,
			    const struct sml_p4_field *number)
{
	size_t i = entry->key.n_fields;
	uint8_t *bytes = entry->bytes[i];
	unsigned n = sml_bfrt_fit(field, number, bytes);

	sml_assert(i < SML_P4_KEYS);
	bfrt_proto__key_field__init(&entry->keys[i]);
	bfrt_proto__key_field__exact__init(&entry->exact[i]);
	entry->exact[i].value = (ProtobufCBinaryData){.data = bytes, .len = n};
	entry->keys[i].field_id = sml_bfrt_id(field);
	entry->keys[i].match_type_case = BFRT_PROTO__KEY_FIELD__MATCH_TYPE_EXACT;
	entry->keys[i].exact = &entry->exact[i];
	entry->key_list[i] = &entry->keys[i];
	entry->key.n_fields++;
	entry->message.value_case = BFRT_PROTO__TABLE_ENTRY__VALUE_KEY;
	entry->message.key = &entry->key;
	return n > 0;
}

void sml_bfrt_entry_set_action(struct sml_bfrt_entry *entry, const json_t *action)
{
	entry->data.action_id = sml_bfrt_id(action);
	entry->message.data = &entry->data;
}

static BfrtProto__DataField *add_field(struct sml_bfrt_entry *entry, const json_t *field)
{
	size_t i = entry->data.n_fields++;

	sml_assert(i < SML_P4_PARAMETERS);
	bfrt_proto__data_field__init(&entry->fields[i]);
	entry->fields[i].field_id = sml_bfrt_id(field);
	entry->field_list[i] = &entry->fields[i];
	entry->message.data = &entry->data;
	return &entry->fields[i];
}

bool sml_bfrt_entry_add_data(struct sml_bfrt_entry *entry, const json_t *field,
			     const struct sml_p4_field *number)
{
	uint8_t *bytes = entry->bytes[SML_P4_KEYS + entry->data.n_fields];
	unsigned n = sml_bfrt_fit(field, number, bytes);
	BfrtProto__DataField *data = add_field(entry, field);

	data->value_case = BFRT_PROTO__DATA_FIELD__VALUE_STREAM;
	data->stream = (ProtobufCBinaryData){.data = bytes, .len = n};
	return n > 0;
}

void sml_bfrt_entry_add_numbers(struct sml_bfrt_entry *entry, const json_t *field,
				uint32_t *numbers, size_t n)
{
	BfrtProto__DataField__IntArray *list = &entry->numbers[entry->data.n_fields];
	BfrtProto__DataField *data = add_field(entry, field);

	bfrt_proto__data_field__int_array__init(list);
	list->val = numbers;
	list->n_val = n;
	data->value_case = BFRT_PROTO__DATA_FIELD__VALUE_INT_ARR_VAL;
	data->int_arr_val = list;
}

void sml_bfrt_entry_add_flags(struct sml_bfrt_entry *entry, const json_t *field,
			      protobuf_c_boolean *flags, size_t n)
{
	BfrtProto__DataField__BoolArray *list = &entry->flags_list[entry->data.n_fields];
	BfrtProto__DataField *data = add_field(entry, field);

	bfrt_proto__data_field__bool_array__init(list);
	list->val = flags;
	list->n_val = n;
	data->value_case = BFRT_PROTO__DATA_FIELD__VALUE_BOOL_ARR_VAL;
	data->bool_arr_val = list;
}

static bool number_in(const ProtobufCBinaryData *bytes, uint64_t *value)
{
	if (bytes->len == 0 || bytes->len > sizeof(*value))
		return false;
	*value = 0;
	for (size_t i = 0; i < bytes->len; i++)
		*value = *value << 8 | bytes->data[i];
	return true;
}

bool sml_bfrt_value(const BfrtProto__TableEntry *entry, const json_t *field, size_t i,
		    uint64_t *value)
{
	uint32_t id = sml_bfrt_id(field);

	if (entry->data == NULL)
		return false;
	for (size_t each = 0; each < entry->data->n_fields; each++) {
		const BfrtProto__DataField *data = entry->data->fields[each];

		if (data->field_id == id && i-- == 0)
			return data->value_case == BFRT_PROTO__DATA_FIELD__VALUE_STREAM &&
			       number_in(&data->stream, value);
	}
	return false;
}

bool sml_bfrt_key_value(const BfrtProto__TableEntry *entry, const json_t *field, uint64_t *value)
{
	uint32_t id = sml_bfrt_id(field);

	if (entry->value_case != BFRT_PROTO__TABLE_ENTRY__VALUE_KEY)
		return false;
	for (size_t i = 0; i < entry->key->n_fields; i++) {
		const BfrtProto__KeyField *key = entry->key->fields[i];

		if (key->field_id == id)
			return key->match_type_case == BFRT_PROTO__KEY_FIELD__MATCH_TYPE_EXACT &&
			       number_in(&key->exact->value, value);
	}
	return false;
}
