/* SPDX-License-Identifier: BSD-3-Clause */
/* Which messages an end accepts: see rules.h. */
#include "job/common/rules.h"

#include <stdio.h>

#include "control/scan.h"
#include "core/wire.h"

static uint32_t longest(const struct sml_rules *rules, unsigned state)
{
	uint32_t most = 0;

	for (unsigned i = 0; i < SML_RULES_MESSAGES; i++)
		if ((rules->messages[i].states >> state & 1) && rules->messages[i].max_bytes > most)
			most = rules->messages[i].max_bytes;
	return most;
}

static const char *name_of(int body)
{
	return protobuf_c_message_descriptor_get_field(&sml_control__envelope__descriptor,
						       (unsigned)body)
		->name;
}

const char *sml_rules_reject(const struct sml_rules *rules, unsigned state,
			     const struct sml_head *head, char *text, size_t bytes)
{
	int body = sml_scan_body(head->bytes, head->n);
	const struct sml_rule *rule;

	if (body == 0 && head->whole <= longest(rules, state))
		return NULL;
	if (body == 0) {
		snprintf(text, bytes, "it sent a control message that is too long (%zu bytes)",
			 head->whole);
		return text;
	}
	if (body < 0 || body >= SML_RULES_MESSAGES) {
		snprintf(text, bytes, "it sent something that is not a control message");
		return text;
	}
	rule = &rules->messages[body];
	if (!(rule->states >> state & 1)) {
		snprintf(text, bytes, "it sent a control message (%s) that is not allowed %s",
			 name_of(body), rules->states[state]);
		return text;
	}
	if (head->whole > rule->max_bytes) {
		snprintf(text, bytes, "it sent a control message (%s) that is too long (%zu bytes)",
			 name_of(body), head->whole);
		return text;
	}
	return NULL;
}

bool sml_rules_admit(const SmlControl__Admitted *in, uint32_t most_shards)
{
	return in->lanes >= SML_MIN_LANES && in->lanes <= SML_MAX_LANES && in->shards > 0 &&
	       in->shards <= most_shards && in->data_port > 0 && in->data_port <= 65535 &&
	       in->head_slots >= in->shards && in->data_slots >= in->shards &&
	       in->number < SML_MAX_CHILDREN && in->head_slots <= SML_MAX_SLOTS &&
	       in->data_slots <= SML_MAX_SLOTS - in->head_slots;
}
