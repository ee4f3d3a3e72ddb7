/* SPDX-License-Identifier: BSD-3-Clause */
/* See applicants.h. */
#include "support/applicants.h"

#include "support/test.h"

static bool add_place(SmlControl__Place *out, const struct jobs_place *place)
{
	sml_control__place__init(out);
	out->tag = place->tag;
	out->rank = place->rank;
	out->world_size = place->world_size;
	out->ran = !place->unseen;
	return place->tag != 0;
}

void jobs_ask(struct jobs_world *world, unsigned peer, struct jobs_ask ask)
{
	SmlControl__Join join = jobs_join_message(ask.job ? ask.job : "train", 0, 1);
	SmlControl__Ask message = SML_CONTROL__ASK__INIT;
	SmlControl__Place places[2], *list[] = {&places[0], &places[1]};

	message.places = list;
	message.n_places += add_place(&places[message.n_places], &ask.newest);
	message.n_places += add_place(&places[message.n_places], &ask.older);
	message.min_ranks = ask.min_ranks;
	message.max_ranks = ask.max_ranks;
	message.number = ask.number;
	message.wait_ms = 1000;
	join.ask = &message;
	join.wait_ms = 60000;
	if (ask.shards != 0) {
		join.shards = ask.shards;
		join.shards_set = true;
	}
	jobs_join(world, peer, join);
}

uint64_t jobs_run(struct jobs_world *world, unsigned first, uint32_t world_size)
{
	jobs_join_all(world, first, "train", world_size);
	for (unsigned rank = 0; rank < world_size; rank++)
		jobs_ready(world, first + rank);
	assert_non_null(jobs_told(world, first, SML_CONTROL__ENVELOPE__BODY_START));
	return jobs_admitted(world, first)->report_tag;
}

struct jobs_ask jobs_was(uint64_t tag, uint32_t rank, uint32_t world_size)
{
	return (struct jobs_ask){.newest = {tag, rank, world_size, false}};
}

const SmlControl__Decision *jobs_decision(const struct jobs_world *world, unsigned peer)
{
	const SmlControl__Admitted *admitted = jobs_admitted(world, peer);

	return admitted ? admitted->decision : NULL;
}

void jobs_assert_decided(const struct jobs_world *world, unsigned peer, uint32_t number,
			 uint32_t rank, uint32_t world_size)
{
	const SmlControl__Decision *decision = jobs_decision(world, peer);

	if (decision == NULL)
		fail_msg("peer %u was told of no decision, but: \"%s\"", peer,
			 jobs_refusal(world, peer));
	assert_int_equal(decision->number, number);
	assert_int_equal(decision->rank, rank);
	assert_int_equal(decision->world_size, world_size);
}
