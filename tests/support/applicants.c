/* SPDX-License-Identifier: BSD-3-Clause */
/* See applicants.h. */
#include "support/applicants.h"

#include "control/envelope.h"
#include "support/test.h"
#include "support/tree.h"

static bool add_past_rank(SmlControl__PastRank *out, const struct jobs_past_rank *past)
{
	sml_control__past_rank__init(out);
	out->tag = past->tag;
	out->rank = past->rank;
	out->world_size = past->world_size;
	out->ran = !past->unseen;
	return past->tag != 0;
}

static uint64_t process_of(unsigned peer, const struct jobs_apply *ask)
{
	if (ask->process != 0)
		return ask->process;
	if (ask->newest.tag == 0)
		return 1 + peer;
	return ask->newest.tag << 16 | (0x8000 + ask->newest.rank);
}

void jobs_apply(unsigned peer, struct jobs_apply ask)
{
	SmlControl__Join join = jobs_join_message(ask.job ? ask.job : "train", 0, 1);
	SmlControl__Ask message = SML_CONTROL__ASK__INIT;
	SmlControl__PastRank past_ranks[2], *list[] = {&past_ranks[0], &past_ranks[1]};

	message.past_ranks = list;
	message.n_past_ranks += add_past_rank(&past_ranks[message.n_past_ranks], &ask.newest);
	message.n_past_ranks += add_past_rank(&past_ranks[message.n_past_ranks], &ask.older);
	message.min_ranks = ask.min_ranks;
	message.max_ranks = ask.max_ranks;
	message.number = ask.number;
	message.wait_ms = 1000;
	join.ask = &message;
	join.process = process_of(peer, &ask);
	join.time_ns = ask.time_ns ? ask.time_ns : world.now_ns;
	join.wait_ms = 60000;
	join.wire = ask.wire;
	if (ask.shards != 0) {
		join.shards = ask.shards;
		join.shards_set = true;
	}
	if (ask.behind)
		tree_relay(peer, ask.behind, sml_envelope(JOIN, join, &join));
	else
		jobs_join(peer, join);
}

uint64_t jobs_run(unsigned first, uint32_t world_size)
{
	jobs_start(first, "train", world_size);
	return jobs_admitted(first)->report_tag;
}

struct jobs_apply jobs_was(uint64_t tag, uint32_t rank, uint32_t world_size)
{
	return (struct jobs_apply){.newest = {tag, rank, world_size, false}};
}

const SmlControl__Decision *jobs_decision(unsigned peer)
{
	const SmlControl__Admitted *admitted = jobs_admitted(peer);

	return admitted ? admitted->decision : NULL;
}

void jobs_assert_decided(unsigned peer, uint32_t number, uint32_t rank, uint32_t world_size)
{
	const SmlControl__Decision *decision = jobs_decision(peer);

	if (decision == NULL)
		fail_msg("peer %u was told of no decision, but: \"%s\"", peer, jobs_refusal(peer));
	assert_int_equal(decision->number, number);
	assert_int_equal(decision->rank, rank);
	assert_int_equal(decision->world_size, world_size);
}

void jobs_apply_as_new(unsigned peer)
{
	jobs_apply(peer, (struct jobs_apply){.min_ranks = 0});
}

uint64_t jobs_open_running(uint32_t world_size)
{
	jobs_open(4096, 64, false);
	return jobs_run(0, world_size);
}

void jobs_form_in_vain(bool third_dies, uint64_t tags[2])
{
	tags[0] = jobs_open_running(3);
	if (third_dies)
		jobs_hang_up(2);
	jobs_apply(10, jobs_was(tags[0], 0, 3));
	jobs_apply(11, jobs_was(tags[0], 1, 3));
	if (!third_dies)
		jobs_wait(2 * SML_SECOND_NS);
	jobs_assert_decided(11, 2, 1, 2);
	tags[1] = jobs_admitted(11)->report_tag;
	jobs_hang_up(10);
	jobs_assert_refused(11, "died");
}
