/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which messages an end accepts in which state, and how long each may be. Both ends have such a
 * table, and check the first bytes of a message against it: before the rest has come, and before
 * the message is unpacked or acted on.
 *
 * The invariant: a message that a table does not name is refused.
 */
#ifndef SML_JOB_COMMON_RULES_H
#define SML_JOB_COMMON_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/stream.h"

#define SML_RULES_MESSAGES 64

struct sml_rule {
	uint32_t states; /* bit s: state s takes it */
	uint32_t max_bytes;
};

/* By the message's number in the schema: SML_CONTROL__ENVELOPE__BODY_*. */
struct sml_rules {
	const char *const *states; /* "before it has joined": the end of a sentence */
	struct sml_rule messages[SML_RULES_MESSAGES];
};

/*
 * Checks the first bytes of a message. Returns NULL if the message is allowed. Otherwise returns
 * the reason, written to text: "it sent a control message (start) before it has joined". Takes time
 * linear in head->n.
 */
const char *sml_rules_reject(const struct sml_rules *rules, unsigned state,
			     const struct sml_head *head, char *text, size_t bytes);

/* Can a switch have admitted a rank, or a leaf, with these numbers? */
bool sml_rules_admit(const SmlControl__Admitted *in, uint32_t most_shards);

#endif
