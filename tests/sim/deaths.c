/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deaths of switches and ranks, and what follows.
 *
 *	death of a switch of a stripe's tree
 *	   |  each rank notices at its own time: SIM_RESUME/FREEZE
 *	   |  (the old switch may live on until all have)
 *	   v  all are frozen: reports, merge, hand-over, new epoch
 *	      each rank begins at its own time: SIM_RESUME/BEGIN
 *	      each leaf takes the epoch at its own time: SIM_LEAF
 *
 * If a switch dies during this, everything starts over. The `attempt` number makes earlier
 * events stale.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/run_internal.h"

void sim_free_handed(struct sim_stripe *stripe)
{
	for (uint32_t i = 0; i < stripe->n_handed; i++) {
		free(stripe->handed[i].lanes);
		free(stripe->handed[i].to);
	}
	stripe->n_handed = 0;
}

/* The root, or any leaf that has ranks. */
static struct sim_node *victim_of(struct sim_run *run, struct sim_stripe *stripe)
{
	uint32_t victim = gen_below(&run->gen, 1 + run->world->n_leaves);

	return &stripe->nodes[sim_node_is_wanted(&stripe->nodes[victim]) ? victim : 0];
}

void sim_switch_dies(struct sim_run *run, uint32_t death)
{
	uint32_t victim = gen_below(&run->gen, run->world->n_stripes);
	struct sim_stripe *stripe = &run->stripes[victim];
	struct sim_node *node;

	run->deaths++;
	stripe->attempt++;
	stripe->n_frozen = 0;
	/* A switch that lost only its control plane continues for a while. */
	node = victim_of(run, stripe);
	node->dead = gen_chance(&run->gen, 1, 2);
	sim_free_handed(stripe);
	for (uint32_t r = 0; r < run->world->n_ranks; r++)
		sim_network_plan(&run->network, sim_later(run, run->world->gone_us[death]),
				 SIM_RESUME, r, stripe->attempt << 16 | victim << 8 | STEP_FREEZE);
}

static void report(struct sim_run *run, struct sim_rank *rank, uint32_t index,
		   enum sml_stream_id stream, struct sml_resume_report *report)
{
	struct sml_worker *const *now = rank->now[index].workers;
	struct sml_worker *const *kept = sim_rank_keeper(rank, index)->workers;
	uint32_t n_shards = run->world->n_shards;
	uint32_t *lacking = sim_must(malloc(SIM_MAX_PLAN * sizeof(uint32_t)));
	uint32_t *chunks = sim_must(malloc(SIM_MAX_PLAN * sizeof(uint32_t)));

	report->beyond = sml_resume_beyond(now, n_shards, stream);
	report->n_lacking = sml_resume_lacking(now, n_shards, stream, lacking, SIM_MAX_PLAN);
	report->n_kept = sml_resume_kept_chunks(kept, n_shards, stream, chunks, SIM_MAX_PLAN);
	report->lacking = lacking;
	report->kept = chunks;
	if (report->n_lacking > SIM_MAX_PLAN || report->n_kept > SIM_MAX_PLAN)
		sim_fail(run, "a report is too long: lacking, kept", report->n_lacking,
			 report->n_kept);
}

static void collect(struct sim_run *run, uint32_t index, enum sml_stream_id stream,
		    const struct sml_resume_report *reports, const struct sml_resume_plan *plan)
{
	struct sim_stripe *stripe = &run->stripes[index];

	for (uint32_t i = 0; i < plan->n_handovers && run->result->passed; i++) {
		const struct sml_resume_handover *handover = &plan->handovers[i];
		struct sim_handed *handed = &stripe->handed[stripe->n_handed++];
		struct sim_generation *keeper = sim_rank_keeper(&run->ranks[handover->from], index);
		const void *lanes;

		if (stripe->n_handed == SIM_MAX_PLAN) {
			sim_fail(run, "too many hand-overs", stripe->n_handed, 0);
			return;
		}
		*handed = (struct sim_handed){handover->chunk, stream, NULL, 0, NULL};
		handed->to = sim_must(calloc(run->world->n_ranks, sizeof(*handed->to)));
		for (uint32_t r = 0; r < run->world->n_ranks; r++)
			handed->to[r] = sml_resume_lacks(&reports[r], handover->chunk);
		lanes = sml_resume_kept(keeper->workers, run->world->n_shards, stream,
					handover->chunk, &handed->n_lanes);
		handed->lanes = sim_must(malloc(4u * handed->n_lanes + 4));
		memcpy(handed->lanes, lanes, 4u * handed->n_lanes);
	}
}

static void merge(struct sim_run *run, uint32_t index, enum sml_stream_id stream, uint32_t slots)
{
	struct sim_stripe *stripe = &run->stripes[index];
	struct sml_resume_report *reports = sim_must(calloc(run->world->n_ranks, sizeof(*reports)));
	struct sml_resume_plan plan = {
		.handovers = sim_must(malloc(SIM_MAX_PLAN * sizeof(struct sml_resume_handover))),
		.table = sim_must(malloc(SIM_MAX_PLAN * sizeof(uint32_t))),
	};
	int rc;

	for (uint32_t r = 0; r < run->world->n_ranks; r++)
		report(run, &run->ranks[r], index, stream, &reports[r]);
	rc = run->result->passed
		     ? sml_resume_merge(reports, run->world->n_ranks, &plan, SIM_MAX_PLAN)
		     : 0;
	if (rc < 0)
		sim_fail(run, "the reports cannot be merged: stream, code", stream, (uint32_t)-rc);
	else if (plan.n_table > 2 * slots)
		sim_fail(run, "the table is longer than two chunks a slot", plan.n_table, slots);
	else
		collect(run, index, stream, reports, &plan);
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

static void all_are_frozen(struct sim_run *run, uint32_t index)
{
	struct sim_stripe *stripe = &run->stripes[index];
	const struct sim_world *world = run->world;
	uint32_t death = stripe->attempt - 1;

	merge(run, index, SML_HEAD, most_slots(world, true));
	merge(run, index, SML_DATA, most_slots(world, false));
	sim_open_epoch(run, index, world->next_head_slots[death], world->next_data_slots[death]);
	for (uint32_t leaf = 1; leaf <= world->n_leaves; leaf++)
		if (sim_node_is_wanted(&stripe->nodes[leaf]))
			sim_network_plan(&run->network, sim_later(run, world->gone_us[death]),
					 SIM_LEAF, leaf, stripe->attempt << 16 | index << 8);
	for (uint32_t r = 0; r < world->n_ranks; r++)
		sim_network_plan(&run->network, sim_later(run, world->gone_us[death]), SIM_RESUME,
				 r, stripe->attempt << 16 | index << 8 | STEP_BEGIN);
	run->result->resumes++;
}

static void begin_epoch(struct sim_run *run, struct sim_rank *rank, uint32_t index)
{
	struct sim_stripe *stripe = &run->stripes[index];

	for (uint32_t i = 0; i < stripe->n_handed; i++) {
		const struct sim_handed *handed = &stripe->handed[i];

		if (!handed->to[rank->id])
			continue;
		if (sml_resume_adopt(rank->now[index].workers, run->world->n_shards, handed->stream,
				     handed->chunk, handed->lanes, handed->n_lanes) < 0)
			sim_fail(run, "a hand-over does not fit: stream, chunk", handed->stream,
				 handed->chunk);
	}
	sim_rank_begin(rank, index, &stripe->epoch);
}

void sim_resume_step(struct sim_run *run, const struct sim_event *event)
{
	uint32_t index = event->detail >> 8 & 255, attempt = event->detail >> 16;
	struct sim_stripe *stripe = &run->stripes[index];
	struct sim_rank *rank = &run->ranks[event->rank];

	/* If a rank is dead, no rank resumes: the job ends for all ranks. */
	if (attempt != stripe->attempt || run->worker_died)
		return;
	if ((event->detail & 255) == STEP_BEGIN) {
		begin_epoch(run, rank, index);
		return;
	}
	for (uint32_t shard = 0; shard < run->world->n_shards; shard++)
		sml_worker_freeze(rank->now[index].workers[shard]);
	if (++stripe->n_frozen == run->world->n_ranks)
		all_are_frozen(run, index);
}

/*
 * A leaf that has died since never takes this epoch: it may have taken it before, and would forget
 * what it has done in it.
 */
void sim_leaf_takes(struct sim_run *run, const struct sim_event *event)
{
	struct sim_stripe *stripe = &run->stripes[event->detail >> 8 & 255];

	if (event->detail >> 16 == stripe->attempt)
		sim_node_take(&stripe->nodes[event->rank]);
}

/* ---- a rank's death ---- */

/* The switch tells the others within a heartbeat. */
#define HEARTBEAT_US 20000

void sim_rank_dies(struct sim_run *run, struct sim_rank *rank)
{
	rank->dead = true;
	if (run->world->embedded && rank->id < run->world->n_stripes)
		run->stripes[rank->id].nodes[0].dead = true;
	run->worker_died = true;
	for (uint32_t r = 0; r < run->world->n_ranks; r++)
		if (r != rank->id)
			sim_network_plan(&run->network, sim_later(run, HEARTBEAT_US), SIM_ABORT, r,
					 0);
}

void sim_rank_aborts(struct sim_rank *rank)
{
	for (uint32_t i = 0; i < rank->world->n_stripes; i++)
		for (uint32_t shard = 0; shard < rank->world->n_shards; shard++)
			sml_worker_freeze(rank->now[i].workers[shard]);
	rank->aborted = true;
	rank->abort_hash = sim_rank_hash(rank);
}
