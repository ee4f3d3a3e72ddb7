/* SPDX-License-Identifier: BSD-3-Clause */
/* See past_ranks.h. */
#include "job/rank/past_ranks.h"

void sml_past_ranks_note(struct sml_past_ranks *places, const struct sml_past_rank *place)
{
	places->admitted = *place;
	if (place->ran)
		places->ran = *place;
}

void sml_past_ranks_note_decision(struct sml_past_ranks *places, const struct sml_decided *decided)
{
	/* All of its ranks were ready, even if this one has not seen it begin. */
	if (places->admitted.tag == decided->after)
		places->ran = places->admitted;
	places->decisions = decided->number;
}

static void add(struct sml_membership_request *ask, const struct sml_past_rank *place)
{
	SmlControl__Place *out = &ask->places[ask->ask.n_places];

	if (place->tag == 0)
		return;
	sml_control__place__init(out);
	out->tag = place->tag;
	out->rank = place->rank;
	out->world_size = place->world_size;
	out->ran = place->ran;
	ask->list[ask->ask.n_places++] = out;
}

void sml_past_ranks_request(const struct sml_past_ranks *places, struct sml_membership_request *ask)
{
	sml_control__ask__init(&ask->ask);
	ask->ask.places = ask->list;
	ask->ask.number = places->decisions;
	add(ask, &places->admitted);
	if (places->ran.tag != places->admitted.tag)
		add(ask, &places->ran);
}
