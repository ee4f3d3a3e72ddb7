/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulator's main loop: time, events, phases. See run.h. */
#include "sim/run_internal.h"

#include <stdlib.h>
#include <string.h>

#define FAULTS_END_NS (400ull * 1000 * 1000)
#define FINISH_NS     (FAULTS_END_NS + 120ull * 1000 * 1000 * 1000)
#define MAX_EVENTS    40000000ull
/* How long a run continues after a rank has died, for late packets. */
#define AFTERMATH_NS (100ull * 1000 * 1000)

/* A rank has died, and the others have been told and have received what was still on its way. */
static bool all_aborted(const struct sim_run *run)
{
	bool all = run->worker_died;

	for (uint32_t r = 0; r < run->world->n_ranks; r++)
		all &= run->ranks[r].dead || run->ranks[r].aborted;
	return all &&
	       (run->network.n_events == 0 || run->network.now_ns > run->died_ns + AFTERMATH_NS);
}

static bool all_finished(const struct sim_run *run)
{
	for (uint32_t r = 0; r < run->world->n_ranks; r++)
		if (!sim_rank_is_finished(&run->ranks[r]))
			return false;
	return true;
}

/* ---- the loop ---- */

static void hash_event(struct sim_run *run, const struct sim_event *event)
{
	uint64_t hash = run->result->hash;
	uint64_t words[3] = {event->at_ns, (uint64_t)event->kind << 32 | event->detail,
			     (uint64_t)event->node << 48 | (uint64_t)event->rank << 32 |
				     (uint64_t)event->stripe << 24 | (uint64_t)event->shard << 16 |
				     event->length};

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

static void step(struct sim_run *run, struct sim_event *event)
{
	struct sim_rank *rank;

	hash_event(run, event);
	if (event->kind == SIM_TO_SWITCH) {
		sim_at_switch(run, event);
		return;
	}
	if (event->kind == SIM_DEATH) {
		sim_switch_dies(run, event->detail);
		return;
	}
	if (event->kind == SIM_LEAF) {
		sim_leaf_takes(run, event);
		return;
	}
	rank = &run->ranks[event->rank];
	if (rank->dead)
		return;
	if (event->kind == SIM_RANK_DIES) {
		run->died_ns = run->network.now_ns;
		sim_rank_dies(run, rank);
		return;
	}
	if (event->kind == SIM_ABORT)
		sim_rank_aborts(rank);
	run->at_ranks += event->kind == SIM_TO_RANK;
	if (event->kind == SIM_TO_RANK)
		sim_rank_receive(rank, event->stripe, event->shard, event->packet->bytes,
				 event->length, run->network.now_ns);
	else if (event->kind == SIM_RESUME)
		sim_resume_step(run, event);
	else if (event->kind == SIM_WAKE)
		rank->wake_ns = UINT64_MAX;
	sim_rank_pump(rank, &run->network);
}

/* A paused rank sees its events when it runs again, and so does a stripe in its process. */
static struct sim_rank *rank_of(struct sim_run *run, const struct sim_event *event)
{
	if (event->kind == SIM_TO_SWITCH)
		return run->world->embedded ? &run->ranks[event->stripe] : NULL;
	return event->kind == SIM_TO_RANK || event->kind == SIM_WAKE ? &run->ranks[event->rank]
								     : NULL;
}

static bool is_paused(struct sim_run *run, const struct sim_event *event)
{
	struct sim_rank *rank = rank_of(run, event);

	if (rank == NULL)
		return false;
	if (run->network.faults && gen_chance(&run->gen, run->world->pause_ppm, 1000000))
		rank->paused_until_ns = sim_later(run, 30000);
	return rank->paused_until_ns > run->network.now_ns;
}

static void hold_back(struct sim_run *run, struct sim_event *event)
{
	/* A packet that is duplicated each time it is held back would multiply endlessly. */
	struct sim_link none = {.never_doubles = true};
	uint64_t at_ns = rank_of(run, event)->paused_until_ns;

	if (event->kind == SIM_WAKE) {
		sim_network_plan(&run->network, at_ns, SIM_WAKE, event->rank, 0);
		return;
	}
	if (sim_world_is_own(run->world, event->rank, event->stripe)) {
		sim_network_hand_over(&run->network, event, event->packet->bytes, event->length,
				      at_ns);
		return;
	}
	/* The link is free again when the rank runs, so the only delay is the link's own. */
	none.busy_until_ns = at_ns;
	sim_network_send(&run->network, &none, event, event->packet->bytes, event->length);
}

/*
 * A switch takes one packet after the other. Has this one still to wait for its turn, or is there
 * no room for it?
 */
static bool waits_for_switch(struct sim_run *run, struct sim_event *event)
{
	struct sim_node *node = &run->stripes[event->stripe].nodes[event->node];
	uint64_t begin_ns = node->busy_until_ns;
	uint64_t waiting_ns = (uint64_t)run->world->switch_ns * run->world->switch_queue;

	if (event->kind != SIM_TO_SWITCH || run->world->switch_ns == 0 || event->is_served)
		return false;
	if (begin_ns < run->network.now_ns)
		begin_ns = run->network.now_ns;
	if (waiting_ns && begin_ns - run->network.now_ns > waiting_ns) {
		run->network.overflowed++;
		run->network.arrived--;
		return true;
	}
	node->busy_until_ns = begin_ns + run->world->switch_ns;
	event->is_served = true;
	sim_network_postpone(&run->network, event, node->busy_until_ns);
	return true;
}

/* The packet has crossed only the sender's link. */
static void cross_second_link(struct sim_run *run, struct sim_event *event)
{
	uint16_t to = event->kind == SIM_TO_SWITCH ? event->stripe : event->rank;

	sim_network_send_on(&run->network, &run->ranks[to].down[0], event);
}

static void loop(struct sim_run *run)
{
	struct sim_event event;

	while (run->result->passed && sim_network_next(&run->network, &event)) {
		run->result->events++;
		if (run->network.faults && run->network.now_ns > FAULTS_END_NS)
			run->network.faults = false;
		if (event.at_port)
			cross_second_link(run, &event);
		else if (is_paused(run, &event))
			hold_back(run, &event);
		else if (!waits_for_switch(run, &event))
			step(run, &event);
		sim_network_done(&run->network, &event);
		if (all_finished(run) || all_aborted(run))
			return;
		if (run->network.now_ns > FINISH_NS || run->result->events > MAX_EVENTS) {
			sim_fail(run, "not finished in time: ms, million events",
				 (uint32_t)(run->network.now_ns / 1000000),
				 (uint32_t)(run->result->events / 1000000));
			return;
		}
	}
	if (!all_finished(run) && !all_aborted(run))
		sim_fail(run, "nothing more is planned, and not all have finished", 0, 0);
}

/* All switches are there from the start. */
static void open_nodes(struct sim_stripe *stripe, const struct sim_world *world)
{
	for (uint32_t i = 0; i <= world->n_leaves; i++) {
		struct sim_node *node = &stripe->nodes[i];

		if (!sim_node_is_wanted(node))
			continue;
		if (i > 0)
			sim_node_take(node);
		sim_age_pool(&node->pool, world->first_use);
	}
}

static void start(struct sim_run *run)
{
	const struct sim_world *world = run->world;

	for (uint32_t i = 0; i < world->n_stripes; i++) {
		struct sim_stripe *stripe = &run->stripes[i];

		stripe->nodes = sim_must(calloc(1 + world->n_leaves, sizeof(*stripe->nodes)));
		stripe->epoch.places =
			sim_must(calloc(world->n_ranks, sizeof(*stripe->epoch.places)));
		sim_open_epoch(run, i, world->head_slots, world->data_slots);
		open_nodes(stripe, world);
		for (uint32_t r = 0; r < world->n_ranks; r++)
			sim_rank_begin(&run->ranks[r], i, &stripe->epoch);
	}
	for (uint32_t r = 0; r < world->n_ranks; r++)
		sim_network_plan(&run->network, 0, SIM_WAKE, r, 0);
	for (uint32_t i = 0; i < world->n_deaths; i++)
		sim_network_plan(&run->network, world->death_us[i] * 1000ull, SIM_DEATH, 0, i);
	if (world->worker_dies_us)
		sim_network_plan(&run->network, world->worker_dies_us * 1000ull, SIM_RANK_DIES,
				 gen_below(&run->gen, world->n_ranks), 0);
}

static void finish(struct sim_run *run)
{
	for (uint32_t r = 0; r < run->world->n_ranks; r++)
		sim_rank_fini(&run->ranks[r]);
	for (uint32_t i = 0; i < run->world->n_stripes; i++) {
		struct sim_stripe *stripe = &run->stripes[i];

		sim_free_handed(stripe);
		for (uint32_t t = 0; t < stripe->n_tables; t++)
			free(stripe->tables[t]);
		free(stripe->completed[SML_HEAD]);
		free(stripe->completed[SML_DATA]);
		for (uint32_t node = 0; node <= run->world->n_leaves; node++)
			free(stripe->nodes[node].memory);
		free(stripe->nodes);
		free(stripe->epoch.places);
	}
	sim_network_fini(&run->network);
	free(run->ranks);
	free(run->stripes);
}

void sim_run(const struct sim_world *world, struct sim_result *result)
{
	struct sim_run run = {.world = world, .result = result};

	*result = (struct sim_result){.passed = true, .hash = 0xcbf29ce484222325ull};
	gen_from_seed(&run.gen, world->seed ^ 0x72756eull);
	sim_network_init(&run.network, world);
	run.ranks = sim_must(calloc(world->n_ranks, sizeof(*run.ranks)));
	run.stripes = sim_must(calloc(world->n_stripes, sizeof(*run.stripes)));
	for (uint32_t r = 0; r < world->n_ranks; r++)
		sim_rank_init(&run.ranks[r], world, r);
	sim_count_chunks(&run);
	start(&run);
	loop(&run);
	sim_check_end(&run, result->passed && all_finished(&run));
	result->virtual_ns = run.network.now_ns;
	finish(&run);
}
