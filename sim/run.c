/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulator's main loop: events, switches, deaths and what comes after
 * them, and the checks. See run.h.
 *
 *	death of a stripe's switch
 *	   |  each rank notices at its own time: SIM_RESUME/FREEZE
 *	   |  (the old switch may live on until all have)
 *	   v  all are frozen: reports, merge, hand-over, new pool
 *	      each rank begins at its own time: SIM_RESUME/BEGIN
 *
 * A death in the middle of this starts it over; what was planned is stale by
 * its `attempt`.
 */
#include "sim/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/rank.h"
#include "sim/reference.h"

#define FAULTS_END_NS (400ull * 1000 * 1000)
#define FINISH_NS     (FAULTS_END_NS + 120ull * 1000 * 1000 * 1000)
#define MAX_EVENTS    40000000ull
#define MAX_PLAN      4096

enum { STEP_FREEZE = 0, STEP_BEGIN = 1 };

struct handed {
	uint32_t chunk;
	enum sml_stream_id stream;
	uint64_t to;
	uint16_t n_lanes;
	void *lanes;
};

struct stripe {
	struct sml_pool pool;
	void *memory;
	bool dead;
	struct sim_epoch epoch;
	uint32_t attempt; /* deaths so far */
	uint64_t frozen;  /* bit r: rank r has noticed the last death */
	struct handed handed[MAX_PLAN];
	uint32_t n_handed;
	uint32_t *tables[SML_STREAMS * SIM_MAX_DEATHS];
	uint32_t n_tables;
	uint8_t *completed[SML_STREAMS]; /* by chunk: in this epoch */
};

struct run {
	const struct sim_world *world;
	struct sim_result *result;
	struct sim_network network;
	struct gen gen;
	struct sim_rank *ranks;
	struct stripe *stripes;
	uint32_t n_chunks[SML_STREAMS];
	uint32_t deaths;
	bool worker_died;
	uint64_t delivered;
	uint64_t sent;
};

static void fail(struct run *run, const char *what, uint32_t a, uint32_t b)
{
	if (!run->result->passed)
		return;
	run->result->passed = false;
	snprintf(run->result->failure, sizeof(run->result->failure), "%s (%u, %u)", what, a, b);
}

static void *must(void *memory)
{
	if (memory == NULL)
		abort();
	return memory;
}

static uint64_t all_ranks(const struct run *run)
{
	return ~(uint64_t)0 >> (64 - run->world->n_ranks);
}

/* ---- switches ---- */

static void open_pool(struct run *run, uint32_t index, uint32_t head_slots, uint32_t data_slots)
{
	const struct sim_world *world = run->world;
	struct stripe *stripe = &run->stripes[index];
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
	stripe->memory = must(malloc(sml_pool_memory_bytes(&rules)));
	sml_pool_init(&stripe->pool, &rules, stripe->memory);
	for (enum sml_stream_id s = SML_HEAD; s < SML_STREAMS; s++) {
		free(stripe->completed[s]);
		stripe->completed[s] = must(calloc(run->n_chunks[s] + 1, 1));
	}
	stripe->dead = false;
}

/* As if the slots had served uses up to the one before first_use. */
static void age_pool(struct sml_pool *pool, uint32_t first_use)
{
	uint32_t n = 2u * ((uint32_t)pool->rules.head_slots + pool->rules.data_slots);

	for (uint32_t i = 0; i < n && first_use != 0; i++) {
		pool->slots[i].state = SML_SLOT_COMPLETE;
		pool->slots[i].seen = sml_pool_all_ranks(&pool->rules);
		pool->slots[i].use = first_use + (i & 1) - 2;
	}
}

static void at_switch(struct run *run, const struct sim_event *event)
{
	struct stripe *stripe = &run->stripes[event->stripe];
	struct sim_event to = {.kind = SIM_TO_RANK, .stripe = event->stripe};
	struct sml_pool_answer answer;
	enum sml_verdict verdict;
	enum sml_stream_id stream;
	uint32_t chunk;

	if (stripe->dead)
		return;
	verdict = sml_pool_receive(&stripe->pool, event->packet->bytes, event->length, &answer);
	run->result->verdicts[verdict]++;
	if (verdict == SML_VERDICT_MISMATCH)
		fail(run, "ranks that agree were told apart: slot, rank", answer.in.slot,
		     answer.in.rank);
	if (answer.packet == NULL)
		return;
	to.shard = answer.in.shard;
	if (verdict == SML_VERDICT_RESEND) {
		to.rank = answer.in.rank;
		sim_network_send(&run->network, &run->ranks[to.rank].down[to.stripe], &to,
				 answer.packet, answer.length);
		return;
	}
	stream = sml_pool_stream_of(&stripe->pool.rules, answer.in.slot);
	chunk = answer.in.chunk - (uint32_t)sim_world_first_chunk(run->world);
	if (chunk >= run->n_chunks[stream] || stripe->completed[stream][chunk]++)
		fail(run, "a chunk was reduced twice or does not exist: stream, chunk", stream,
		     chunk);
	for (uint8_t r = 0; r < run->world->n_ranks; r++) {
		to.rank = r;
		sim_network_send(&run->network, &run->ranks[r].down[to.stripe], &to, answer.packet,
				 answer.length);
	}
}

/* ---- deaths and what comes after ---- */

static void free_handed(struct stripe *stripe)
{
	for (uint32_t i = 0; i < stripe->n_handed; i++)
		free(stripe->handed[i].lanes);
	stripe->n_handed = 0;
}

static uint64_t later(struct run *run, uint32_t within_us)
{
	return run->network.now_ns + gen_below(&run->gen, within_us * 1000u + 1);
}

static void die(struct run *run, uint32_t death)
{
	uint32_t victim = gen_below(&run->gen, run->world->n_stripes);
	struct stripe *stripe = &run->stripes[victim];

	run->deaths++;
	stripe->attempt++;
	stripe->frozen = 0;
	/* A switch that lost its control plane alone lives on for a while. */
	stripe->dead = gen_chance(&run->gen, 1, 2);
	free_handed(stripe);
	for (uint8_t r = 0; r < run->world->n_ranks; r++)
		sim_network_plan(&run->network, later(run, run->world->gone_us[death]), SIM_RESUME,
				 r, stripe->attempt << 16 | victim << 8 | STEP_FREEZE);
}

static void report(struct run *run, struct sim_rank *rank, uint32_t index,
		   enum sml_stream_id stream, struct sml_resume_report *report)
{
	struct sml_worker *const *now = rank->now[index].workers;
	struct sml_worker *const *kept = sim_rank_keeper(rank, index)->workers;
	uint32_t n_shards = run->world->n_shards;
	uint32_t *lacking = must(malloc(MAX_PLAN * sizeof(uint32_t)));
	uint32_t *chunks = must(malloc(MAX_PLAN * sizeof(uint32_t)));

	report->beyond = sml_resume_beyond(now, n_shards, stream);
	report->n_lacking = sml_resume_lacking(now, n_shards, stream, lacking, MAX_PLAN);
	report->n_kept = sml_resume_kept_chunks(kept, n_shards, stream, chunks, MAX_PLAN);
	report->lacking = lacking;
	report->kept = chunks;
	if (report->n_lacking > MAX_PLAN || report->n_kept > MAX_PLAN)
		fail(run, "a report is too long: lacking, kept", report->n_lacking, report->n_kept);
}

static void collect(struct run *run, uint32_t index, enum sml_stream_id stream,
		    const struct sml_resume_plan *plan)
{
	struct stripe *stripe = &run->stripes[index];

	for (uint32_t i = 0; i < plan->n_handovers && run->result->passed; i++) {
		const struct sml_resume_handover *handover = &plan->handovers[i];
		struct handed *handed = &stripe->handed[stripe->n_handed++];
		struct sim_generation *keeper = sim_rank_keeper(&run->ranks[handover->from], index);
		const void *lanes;

		if (stripe->n_handed == MAX_PLAN) {
			fail(run, "too many hand-overs", stripe->n_handed, 0);
			return;
		}
		*handed = (struct handed){handover->chunk, stream, handover->to, 0, NULL};
		lanes = sml_resume_kept(keeper->workers, run->world->n_shards, stream,
					handover->chunk, &handed->n_lanes);
		handed->lanes = must(malloc(4u * handed->n_lanes + 4));
		memcpy(handed->lanes, lanes, 4u * handed->n_lanes);
	}
}

static void merge(struct run *run, uint32_t index, enum sml_stream_id stream, uint32_t slots)
{
	struct stripe *stripe = &run->stripes[index];
	struct sml_resume_report *reports = must(calloc(run->world->n_ranks, sizeof(*reports)));
	struct sml_resume_plan plan = {
		.handovers = must(malloc(MAX_PLAN * sizeof(struct sml_resume_handover))),
		.table = must(malloc(MAX_PLAN * sizeof(uint32_t))),
	};
	int rc;

	for (uint32_t r = 0; r < run->world->n_ranks; r++)
		report(run, &run->ranks[r], index, stream, &reports[r]);
	rc = run->result->passed ? sml_resume_merge(reports, run->world->n_ranks, &plan, MAX_PLAN)
				 : 0;
	if (rc < 0)
		fail(run, "the reports cannot be merged: stream, code", stream, (uint32_t)-rc);
	else if (plan.n_table > 2 * slots)
		fail(run, "the table is longer than two chunks a slot", plan.n_table, slots);
	else
		collect(run, index, stream, &plan);
	stripe->epoch.maps[stream] = (struct sml_ticket_map){plan.table, plan.n_table, plan.after};
	stripe->tables[stripe->n_tables++] = plan.table;
	free(plan.handovers);
	for (uint32_t r = 0; r < run->world->n_ranks; r++) {
		free((void *)(uintptr_t)reports[r].lacking);
		free((void *)(uintptr_t)reports[r].kept);
	}
	free(reports);
}

static uint32_t most_slots(const struct sim_world *world, bool head)
{
	uint32_t most = head ? world->head_slots : world->data_slots;

	for (uint32_t i = 0; i < world->n_deaths; i++) {
		uint32_t next = head ? world->next_head_slots[i] : world->next_data_slots[i];

		most = next > most ? next : most;
	}
	return most;
}

static void all_are_frozen(struct run *run, uint32_t index)
{
	struct stripe *stripe = &run->stripes[index];
	const struct sim_world *world = run->world;
	uint32_t death = stripe->attempt - 1;

	merge(run, index, SML_HEAD, most_slots(world, true));
	merge(run, index, SML_DATA, most_slots(world, false));
	open_pool(run, index, world->next_head_slots[death], world->next_data_slots[death]);
	for (uint8_t r = 0; r < world->n_ranks; r++)
		sim_network_plan(&run->network, later(run, world->gone_us[death]), SIM_RESUME, r,
				 stripe->attempt << 16 | index << 8 | STEP_BEGIN);
	run->result->resumes++;
}

static void begin(struct run *run, struct sim_rank *rank, uint32_t index)
{
	struct stripe *stripe = &run->stripes[index];

	for (uint32_t i = 0; i < stripe->n_handed; i++) {
		const struct handed *handed = &stripe->handed[i];

		if (!(handed->to >> rank->id & 1))
			continue;
		if (sml_resume_adopt(rank->now[index].workers, run->world->n_shards, handed->stream,
				     handed->chunk, handed->lanes, handed->n_lanes) < 0)
			fail(run, "a hand-over does not fit: stream, chunk", handed->stream,
			     handed->chunk);
	}
	sim_rank_begin(rank, index, &stripe->epoch);
}

static void resume_step(struct run *run, const struct sim_event *event)
{
	uint32_t index = event->detail >> 8 & 255, attempt = event->detail >> 16;
	struct stripe *stripe = &run->stripes[index];
	struct sim_rank *rank = &run->ranks[event->rank];

	if (attempt != stripe->attempt)
		return;
	if ((event->detail & 255) == STEP_BEGIN) {
		begin(run, rank, index);
		return;
	}
	for (uint32_t shard = 0; shard < run->world->n_shards; shard++)
		sml_worker_freeze(rank->now[index].workers[shard]);
	stripe->frozen |= (uint64_t)1 << rank->id;
	if (stripe->frozen == all_ranks(run))
		all_are_frozen(run, index);
}

/* ---- checks ---- */

static void count_chunks(struct run *run)
{
	struct sml_shape shape = {(uint16_t)run->world->lanes, 0, (uint8_t)run->world->n_ranks};
	struct sml_sequence sequence = {0};

	for (uint32_t i = 0; i < run->world->n_calls; i++) {
		const struct sim_call *call = &run->world->calls[i];
		struct sml_tensor_spec spec = {.collective = call->collective,
					       .type = call->type,
					       .op = call->op,
					       .wire = call->wire,
					       .count = call->count};
		void *memory = must(malloc(sml_tensor_memory_bytes(&spec, &shape) + 1));
		struct sml_tensor tensor;

		sml_tensor_init(&tensor, &spec, &shape, &sequence, memory);
		free(memory);
	}
	run->n_chunks[SML_HEAD] = (uint32_t)sequence.next[SML_HEAD];
	run->n_chunks[SML_DATA] = (uint32_t)sequence.next[SML_DATA];
}

static void check_call(struct run *run, uint32_t i)
{
	const struct sim_world *world = run->world;
	const struct sim_call *call = &world->calls[i];
	size_t bytes = sml_element_bytes(call->type), part = call->count / world->n_ranks;
	uint8_t *expected = must(malloc(call->count * bytes + 1));
	void *inputs[SML_MAX_RANKS];

	for (uint32_t r = 0; r < world->n_ranks; r++) {
		inputs[r] = must(malloc(call->count * bytes + 1));
		sim_input(world, i, r, inputs[r]);
	}
	sim_reference(world, call, &run->ranks[0].calls[i].tensor, inputs, expected);
	for (uint32_t r = 0; r < world->n_ranks; r++) {
		size_t first = 0, count = call->count;

		if (call->collective == SML_REDUCE_SCATTER) {
			first = r * part;
			count = part;
		}
		if (run->ranks[r].calls[i].submitted &&
		    sml_tensor_is_done(&run->ranks[r].calls[i].tensor) &&
		    !sim_equal(call->type, (uint8_t *)run->ranks[r].calls[i].recv + first * bytes,
			       expected + first * bytes, count))
			fail(run, "a wrong result: call, rank", i, r);
		free(inputs[r]);
	}
	free(expected);
}

static void check_end(struct run *run, bool finished)
{
	for (uint32_t i = 0; i < run->world->n_calls; i++)
		if (run->ranks[0].calls[i].submitted)
			check_call(run, i);
	for (uint32_t r = 0; finished && r < run->world->n_ranks; r++)
		for (uint32_t i = 0; i < run->world->n_stripes; i++)
			for (uint32_t s = 0; s < run->world->n_shards; s++)
				if (sml_worker_is_busy(run->ranks[r].now[i].workers[s]))
					fail(run, "a slot is not idle at the end: rank, stripe", r,
					     i);
}

static bool all_finished(const struct run *run)
{
	for (uint32_t r = 0; r < run->world->n_ranks; r++)
		if (!sim_rank_is_finished(&run->ranks[r]))
			return false;
	return true;
}

/* ---- the loop ---- */

static void hash_event(struct run *run, const struct sim_event *event)
{
	uint64_t hash = run->result->hash;
	uint64_t words[3] = {event->at_ns, (uint64_t)event->kind << 32 | event->detail,
			     (uint64_t)event->rank << 32 | (uint64_t)event->stripe << 24 |
				     (uint64_t)event->shard << 16 | event->length};

	for (unsigned i = 0; i < 3; i++)
		hash = (hash ^ words[i]) * 0x100000001b3ull;
	for (unsigned i = 0; event->packet && i < event->length; i += 4) {
		uint32_t word;

		memcpy(&word, event->packet->bytes + i, 4);
		hash = (hash ^ sml_be32(word)) * 0x100000001b3ull;
		hash ^= hash >> 29;
	}
	run->result->hash = hash;
}

static void step(struct run *run, struct sim_event *event)
{
	struct sim_rank *rank = &run->ranks[event->rank];

	hash_event(run, event);
	if (event->kind == SIM_TO_SWITCH) {
		at_switch(run, event);
		return;
	}
	if (event->kind == SIM_DEATH) {
		die(run, event->detail);
		return;
	}
	if (event->kind == SIM_RANK_DIES) {
		rank->dead = true;
		run->worker_died = true;
	}
	if (rank->dead)
		return;
	if (event->kind == SIM_TO_RANK)
		sim_rank_receive(rank, event->stripe, event->shard, event->packet->bytes,
				 event->length, run->network.now_ns);
	else if (event->kind == SIM_RESUME)
		resume_step(run, event);
	else
		rank->wake_ns = UINT64_MAX;
	sim_rank_pump(rank, &run->network);
}

/* A paused rank sees its events when it runs again. */
static bool is_paused(struct run *run, const struct sim_event *event)
{
	struct sim_rank *rank = &run->ranks[event->rank];

	if (event->kind != SIM_TO_RANK && event->kind != SIM_WAKE)
		return false;
	if (run->network.faults && gen_chance(&run->gen, run->world->pause_ppm, 1000000))
		rank->paused_until_ns = later(run, 30000);
	return rank->paused_until_ns > run->network.now_ns;
}

static void hold_back(struct run *run, struct sim_event *event)
{
	struct sim_link none = {0};
	uint64_t at_ns = run->ranks[event->rank].paused_until_ns;

	if (event->kind == SIM_WAKE) {
		sim_network_plan(&run->network, at_ns, SIM_WAKE, event->rank, 0);
		return;
	}
	/* The link is free again exactly when the rank runs: no delay is added but the link's. */
	none.busy_until_ns = at_ns;
	sim_network_send(&run->network, &none, event, event->packet->bytes, event->length);
}

static void loop(struct run *run)
{
	struct sim_event event;

	while (run->result->passed && sim_network_next(&run->network, &event)) {
		run->result->events++;
		if (run->network.faults && run->network.now_ns > FAULTS_END_NS)
			run->network.faults = false;
		if (is_paused(run, &event))
			hold_back(run, &event);
		else
			step(run, &event);
		sim_network_done(&run->network, &event);
		if (all_finished(run) || run->worker_died)
			return;
		if (run->network.now_ns > FINISH_NS || run->result->events > MAX_EVENTS) {
			fail(run, "not finished in time: ms, million events",
			     (uint32_t)(run->network.now_ns / 1000000),
			     (uint32_t)(run->result->events / 1000000));
			return;
		}
	}
	if (!all_finished(run))
		fail(run, "nothing more is planned, and not all have finished", 0, 0);
}

static void start(struct run *run)
{
	const struct sim_world *world = run->world;

	for (uint32_t i = 0; i < world->n_stripes; i++) {
		struct stripe *stripe = &run->stripes[i];

		open_pool(run, i, world->head_slots, world->data_slots);
		age_pool(&stripe->pool, world->first_use);
		for (uint8_t r = 0; r < world->n_ranks; r++)
			sim_rank_begin(&run->ranks[r], i, &stripe->epoch);
	}
	for (uint8_t r = 0; r < world->n_ranks; r++)
		sim_network_plan(&run->network, 0, SIM_WAKE, r, 0);
	for (uint32_t i = 0; i < world->n_deaths; i++)
		sim_network_plan(&run->network, world->death_us[i] * 1000ull, SIM_DEATH, 0, i);
	if (world->worker_dies_us)
		sim_network_plan(&run->network, world->worker_dies_us * 1000ull, SIM_RANK_DIES,
				 (uint8_t)gen_below(&run->gen, world->n_ranks), 0);
}

static void finish(struct run *run)
{
	for (uint32_t r = 0; r < run->world->n_ranks; r++)
		sim_rank_fini(&run->ranks[r]);
	for (uint32_t i = 0; i < run->world->n_stripes; i++) {
		struct stripe *stripe = &run->stripes[i];

		free_handed(stripe);
		for (uint32_t t = 0; t < stripe->n_tables; t++)
			free(stripe->tables[t]);
		free(stripe->completed[SML_HEAD]);
		free(stripe->completed[SML_DATA]);
		free(stripe->memory);
	}
	sim_network_fini(&run->network);
	free(run->ranks);
	free(run->stripes);
}

void sim_run(const struct sim_world *world, struct sim_result *result)
{
	struct run run = {.world = world, .result = result};

	*result = (struct sim_result){.passed = true, .hash = 0xcbf29ce484222325ull};
	gen_from_seed(&run.gen, world->seed ^ 0x72756eull);
	sim_network_init(&run.network, world);
	run.ranks = must(calloc(world->n_ranks, sizeof(*run.ranks)));
	run.stripes = must(calloc(world->n_stripes, sizeof(*run.stripes)));
	for (uint8_t r = 0; r < world->n_ranks; r++)
		sim_rank_init(&run.ranks[r], world, r);
	count_chunks(&run);
	start(&run);
	loop(&run);
	check_end(&run, !run.worker_died && result->passed);
	result->virtual_ns = run.network.now_ns;
	finish(&run);
}
