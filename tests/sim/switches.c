/* SPDX-License-Identifier: BSD-3-Clause */
/* A run's switches: the pools of each stripe's tree, and what happens to packets that reach them.
 */
#include <stdlib.h>

#include "sim/run_internal.h"

#define JOB 7 /* at the root; at a leaf, its node is added */

/* ---- epochs ---- */

static void draw_node(struct sim_run *run, struct sim_stripe *stripe, const struct sim_tree *tree,
		      uint16_t rank)
{
	uint16_t at = tree->node_of_rank[rank];
	struct sim_node *node = &stripe->nodes[at];
	struct sml_pool_rules *rules = &node->next_rules;
	uint8_t number = rules->n_ranks++;

	node->next_neighbors.children[node->next_neighbors.n_children++] = rank;
	rules->cookies[number] = gen_u64(&run->gen);
	stripe->epoch.places[rank] = (struct sim_slot_of_rank){at, number, rules->job,
							       rules->cookies[number], rules->tag};
}

/* The leaf becomes a rank of its parent. */
static void join_parent(struct sim_run *run, struct sim_stripe *stripe, const struct sim_tree *tree,
			uint16_t leaf)
{
	struct sim_node *node = &stripe->nodes[leaf], *parent = &stripe->nodes[tree->parent[leaf]];
	struct sml_pool_rules *above = &parent->next_rules;
	uint8_t number = above->n_ranks++;

	above->cookies[number] = gen_u64(&run->gen);
	parent->next_neighbors.children[parent->next_neighbors.n_children++] =
		(uint16_t)(SIM_IS_LEAF + leaf);
	node->next_neighbors.parent = tree->parent[leaf];
	node->next_rules.is_leaf = true;
	node->next_rules.parent = (struct sml_pool_parent){
		.cookie = above->cookies[number],
		.tag = above->tag,
		.job = above->job,
		.rank = number,
	};
}

static void set_divisors(struct sim_stripe *stripe, const struct sim_tree *tree, unsigned n_ranks)
{
	unsigned below[SIM_MAX_NODES] = {0};

	for (unsigned rank = 0; rank < n_ranks; rank++)
		below[tree->node_of_rank[rank]]++;
	for (unsigned i = tree->n_nodes; i-- > 0;) {
		struct sml_pool_rules *rules = &stripe->nodes[i].next_rules;

		rules->divisor = sml_divisor_of(rules->n_ranks, below[i], n_ranks);
		if (i > 0)
			below[tree->parent[i]] += below[i];
	}
}

static void draw_epoch(struct sim_run *run, uint32_t index, const struct sml_pool_rules *common)
{
	struct sim_stripe *stripe = &run->stripes[index];
	struct sim_tree *tree = sim_must(malloc(sizeof(*tree)));

	sim_tree_draw(run->world, index, stripe->epoch.number, tree);
	for (uint16_t i = 0; i < tree->n_nodes; i++) {
		struct sim_node *node = &stripe->nodes[i];

		node->next_rules = *common;
		node->next_rules.job = JOB + i;
		node->next_rules.tag = gen_u64(&run->gen);
		node->next_neighbors = (struct sim_neighbors){0};
	}
	for (uint32_t rank = 0; rank < run->world->n_ranks; rank++)
		draw_node(run, stripe, tree, (uint16_t)rank);
	for (uint16_t leaf = 1; leaf < tree->n_nodes; leaf++)
		if (tree->n_children[leaf] > 0)
			join_parent(run, stripe, tree, leaf);
	set_divisors(stripe, tree, run->world->n_ranks);
	free(tree);
}

void sim_node_take(struct sim_node *node)
{
	free(node->memory);
	node->memory = sim_must(malloc(sml_pool_memory_bytes(&node->next_rules)));
	sml_pool_init(&node->pool, &node->next_rules, node->memory);
	node->neighbors = node->next_neighbors;
	node->absorbed = node->completed = 0;
	node->dead = false;
	node->is_open = true;
}

void sim_open_epoch(struct sim_run *run, uint32_t index, uint32_t head_slots, uint32_t data_slots)
{
	struct sim_stripe *stripe = &run->stripes[index];
	struct sim_epoch *epoch = &stripe->epoch;
	const struct sml_pool_rules common = {
		.epoch = ++epoch->number,
		.head_slots = (uint16_t)head_slots,
		.data_slots = (uint16_t)data_slots,
		.lanes = (uint16_t)run->world->lanes,
		.n_shards = (uint8_t)run->world->n_shards,
		.rounds = run->world->rounds,
		.omits = run->world->omits,
		.floats = run->world->floats,
	};

	epoch->head_slots = common.head_slots;
	epoch->data_slots = common.data_slots;
	draw_epoch(run, index, &common);
	sim_node_take(&stripe->nodes[0]);
	for (enum sml_stream_id s = SML_HEAD; s < SML_STREAMS; s++) {
		free(stripe->completed[s]);
		stripe->completed[s] = sim_must(calloc(run->n_chunks[s] + 1, 1));
	}
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

/* ---- packets ---- */

static void send_to_rank(struct sim_run *run, uint16_t rank, uint8_t stripe,
			 const struct sml_pool_answer *answer)
{
	struct sim_event to = {
		.kind = SIM_TO_RANK, .rank = rank, .stripe = stripe, .shard = answer->in.shard};

	if (sim_world_is_own(run->world, rank, stripe))
		sim_network_hand_over(&run->network, &to, answer->packet, answer->length,
				      run->network.now_ns);
	else if (run->world->one_link)
		sim_network_send_to_port(&run->network, &run->ranks[stripe].up[0], &to,
					 answer->packet, answer->length);
	else
		sim_network_send(&run->network, &run->ranks[rank].down[stripe], &to, answer->packet,
				 answer->length);
}

static void send_to_node(struct sim_run *run, uint16_t node, uint8_t stripe, struct sim_link *link,
			 const struct sml_pool_answer *answer)
{
	const struct sim_event to = {
		.kind = SIM_TO_SWITCH, .node = node, .stripe = stripe, .shard = answer->in.shard};

	sim_network_send(&run->network, link, &to, answer->packet, answer->length);
}

static void send_down(struct sim_run *run, const struct sim_node *node, uint8_t stripe,
		      uint32_t child, const struct sml_pool_answer *answer)
{
	uint16_t to = node->neighbors.children[child];

	if (to & SIM_IS_LEAF) {
		to = (uint16_t)(to - SIM_IS_LEAF);
		send_to_node(run, to, stripe, &run->stripes[stripe].nodes[to].down, answer);
	} else {
		send_to_rank(run, to, stripe, answer);
	}
}

/* The root completes each chunk once in an epoch. */
static void check_once(struct sim_run *run, const struct sim_node *root, struct sim_stripe *stripe,
		       const struct sml_contribution *in)
{
	enum sml_stream_id stream = sml_pool_stream_of(&root->pool.rules, in->slot);
	uint32_t chunk = in->chunk - (uint32_t)sim_world_first_chunk(run->world);

	if (chunk >= run->n_chunks[stream] || stripe->completed[stream][chunk]++)
		sim_fail(run, "a chunk was reduced twice or does not exist: stream, chunk", stream,
			 chunk);
}

void sim_at_switch(struct sim_run *run, const struct sim_event *event)
{
	struct sim_stripe *stripe = &run->stripes[event->stripe];
	struct sim_node *node = &stripe->nodes[event->node];
	struct sml_pool_answer answer;
	enum sml_verdict verdict;

	if (node->dead || !node->is_open)
		return;
	run->at_switches++;
	verdict = sml_pool_receive(&node->pool, event->packet->bytes, event->length, &answer);
	run->result->verdicts[verdict]++;
	node->absorbed += verdict == SML_VERDICT_ABSORBED;
	node->completed += verdict == SML_VERDICT_COMPLETED;
	if (verdict == SML_VERDICT_MISMATCH)
		sim_fail(run, "ranks that agree were told apart: slot, rank", answer.in.slot,
			 answer.in.rank);
	if (verdict == SML_VERDICT_FULL || verdict == SML_VERDICT_RESEND_UP)
		send_to_node(run, node->neighbors.parent, event->stripe, &node->up, &answer);
	else if (verdict == SML_VERDICT_RESEND)
		send_down(run, node, event->stripe, answer.in.rank, &answer);
	if (verdict != SML_VERDICT_COMPLETED)
		return;
	if (event->node == 0)
		check_once(run, node, stripe, &answer.in);
	for (uint32_t child = 0; child < node->neighbors.n_children; child++)
		send_down(run, node, event->stripe, child, &answer);
}
