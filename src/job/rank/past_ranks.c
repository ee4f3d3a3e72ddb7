/* SPDX-License-Identifier: BSD-3-Clause */
/* See past_ranks.h. */
#include "job/rank/past_ranks.h"

void sml_past_ranks_note(struct sml_past_ranks *past, const struct sml_past_rank *was)
{
	past->admitted = *was;
	if (!was->ran)
		return;
	past->ran = *was;
	past->members = (struct sml_ranks){{0}};
}

void sml_past_ranks_note_decision(struct sml_past_ranks *past, const struct sml_decided *decided)
{
	/* All of its ranks were ready, even if this one has not seen it begin. */
	if (past->admitted.tag == decided->after)
		past->ran = past->admitted;
	past->decisions = decided->number;
}

static void add(struct sml_membership_request *ask, const struct sml_past_rank *was,
		size_t n_member_bytes)
{
	SmlControl__PastRank *out = &ask->past_ranks[ask->ask.n_past_ranks];

	if (was->tag == 0)
		return;
	sml_control__past_rank__init(out);
	out->tag = was->tag;
	out->rank = was->rank;
	out->world_size = was->world_size;
	out->ran = was->ran;
	out->members = (ProtobufCBinaryData){n_member_bytes, ask->members};
	ask->list[ask->ask.n_past_ranks++] = out;
}

void sml_past_ranks_request(const struct sml_past_ranks *past, struct sml_membership_request *ask)
{
	const size_t n = sml_ranks_pack(&past->members, ask->members);

	sml_control__ask__init(&ask->ask);
	ask->ask.past_ranks = ask->list;
	ask->ask.number = past->decisions;
	if (past->ran.tag != past->admitted.tag)
		add(ask, &past->admitted, 0);
	add(ask, &past->ran, n);
}
