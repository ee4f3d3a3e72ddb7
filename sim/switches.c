/* SPDX-License-Identifier: BSD-3-Clause */
/* A run's switches: the pool of each stripe, and what happens to packets that reach it. */
#include <stdlib.h>

#include "sim/run_internal.h"

void sim_open_pool(struct sim_run *run, uint32_t index, uint32_t head_slots, uint32_t data_slots)
{
	const struct sim_world *world = run->world;
	struct sim_stripe *stripe = &run->stripes[index];
	struct sim_epoch *epoch = &stripe->epoch;
	struct sml_pool_rules rules = {
		.job = 7,
		.epoch = ++epoch->number,
		.head_slots = (uint16_t)head_slots,
		.data_slots = (uint16_t)data_slots,
		.lanes = (uint16_t)world->lanes,
		.n_ranks = (uint8_t)world->n_ranks,
		.n_shards = (uint8_t)world->n_shards,
	};

	epoch->head_slots = rules.head_slots;
	epoch->data_slots = rules.data_slots;
	rules.tag = epoch->tag = gen_u64(&run->gen);
	for (uint32_t r = 0; r < world->n_ranks; r++)
		rules.cookies[r] = epoch->cookies[r] = gen_u64(&run->gen);
	free(stripe->memory);
	stripe->memory = sim_must(malloc(sml_pool_memory_bytes(&rules)));
	sml_pool_init(&stripe->pool, &rules, stripe->memory);
	for (enum sml_stream_id s = SML_HEAD; s < SML_STREAMS; s++) {
		free(stripe->completed[s]);
		stripe->completed[s] = sim_must(calloc(run->n_chunks[s] + 1, 1));
	}
	stripe->dead = false;
}

void sim_age_pool(struct sml_pool *pool, uint32_t first_use)
{
	uint32_t n = 2u * ((uint32_t)pool->rules.head_slots + pool->rules.data_slots);

	for (uint32_t i = 0; i < n && first_use != 0; i++) {
		pool->slots[i].state = SML_SLOT_COMPLETE;
		pool->slots[i].seen = sml_pool_all_ranks(&pool->rules);
		pool->slots[i].use = first_use + (i & 1) - 2;
	}
}

static void send_result(struct sim_run *run, const struct sim_event *to,
			const struct sml_pool_answer *answer)
{
	struct sim_link *link = &run->ranks[to->rank].down[to->stripe];

	if (sim_world_is_own(run->world, to->rank, to->stripe))
		sim_network_hand_over(&run->network, to, answer->packet, answer->length,
				      run->network.now_ns);
	else
		sim_network_send(&run->network, link, to, answer->packet, answer->length);
}

void sim_at_switch(struct sim_run *run, const struct sim_event *event)
{
	struct sim_stripe *stripe = &run->stripes[event->stripe];
	struct sim_event to = {.kind = SIM_TO_RANK, .stripe = event->stripe};
	struct sml_pool_answer answer;
	enum sml_verdict verdict;
	enum sml_stream_id stream;
	uint32_t chunk;

	if (stripe->dead)
		return;
	run->at_switches++;
	verdict = sml_pool_receive(&stripe->pool, event->packet->bytes, event->length, &answer);
	run->result->verdicts[verdict]++;
	if (verdict == SML_VERDICT_MISMATCH)
		sim_fail(run, "ranks that agree were told apart: slot, rank", answer.in.slot,
			 answer.in.rank);
	if (answer.packet == NULL)
		return;
	to.shard = answer.in.shard;
	if (verdict == SML_VERDICT_RESEND) {
		to.rank = answer.in.rank;
		send_result(run, &to, &answer);
		return;
	}
	stream = sml_pool_stream_of(&stripe->pool.rules, answer.in.slot);
	chunk = answer.in.chunk - (uint32_t)sim_world_first_chunk(run->world);
	if (chunk >= run->n_chunks[stream] || stripe->completed[stream][chunk]++)
		sim_fail(run, "a chunk was reduced twice or does not exist: stream, chunk", stream,
			 chunk);
	for (uint8_t r = 0; r < run->world->n_ranks; r++) {
		to.rank = r;
		send_result(run, &to, &answer);
	}
}
