/* SPDX-License-Identifier: BSD-3-Clause */
/* What must be true after a run: see run.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/reference.h"
#include "sim/run_internal.h"

void sim_count_chunks(struct sim_run *run)
{
	struct sml_shape shape = sim_world_shape(run->world, 0);
	struct sml_sequence sequence = {0};

	for (uint32_t i = 0; i < run->world->n_calls; i++) {
		const struct sim_call *call = &run->world->calls[i];
		struct sml_tensor_spec spec = {.collective = call->collective,
					       .type = call->type,
					       .op = call->op,
					       .wire = call->wire,
					       .count = call->count};
		void *memory = sim_must(malloc(sml_tensor_memory_bytes(&spec, &shape) + 1));
		struct sml_tensor tensor;

		sml_tensor_init(&tensor, &spec, &shape, &sequence, memory);
		free(memory);
	}
	run->n_chunks[SML_HEAD] = (uint32_t)sequence.next[SML_HEAD];
	run->n_chunks[SML_DATA] = (uint32_t)sequence.next[SML_DATA];
}

/* A rank that is not root of a reduce has no result: its buffer is as it was. */
static bool is_untouched(const struct sim_call *call, const struct sim_call_state *state)
{
	size_t bytes = call->count * sml_element_bytes(call->type);

	for (size_t i = 0; state->recv != state->send && i < bytes; i++)
		if (((const uint8_t *)state->recv)[i] != 0xa5)
			return false;
	return true;
}

/* Is there a stripe and an epoch with this tree? They cannot be told from the result alone. */
static bool is_of_some_tree(const struct sim_run *run, uint32_t i, void *const *inputs,
			    const void *got, void *expected, size_t first, size_t count)
{
	const struct sim_world *world = run->world;
	struct sim_tree tree;

	for (uint32_t stripe = 0; stripe < world->n_stripes; stripe++)
		for (uint32_t epoch = 1; epoch <= run->stripes[stripe].epoch.number; epoch++) {
			sim_tree_draw(world, stripe, epoch, &tree);
			if (sim_is_of_tree(world, &world->calls[i], &tree, inputs, got, first,
					   count, expected))
				return true;
		}
	return false;
}

/*
 * The elements [first, first + count) of a result. Where several switches of a tree round, the bits
 * depend on the tree that has reduced the chunk. A block is in one chunk, so it is of one tree, and
 * so is a float: `expected` becomes what that tree gives.
 */
static bool is_right(const struct sim_run *run, uint32_t i, void *const *inputs, const void *got,
		     void *expected, size_t first, size_t count)
{
	const struct sim_call *call = &run->world->calls[i];
	const struct sml_tensor *tensor = &run->ranks[0].calls[i].tensor;
	bool rounded = tensor->form == SML_FORM_EXPONENT && tensor->code.rounded;
	bool raw = tensor->code.coding == SML_CODE_RAW;
	size_t bytes = sml_element_bytes(call->type), n;

	if (run->world->n_leaves == 0 || (!rounded && !raw))
		return sim_equal(call->type, (const uint8_t *)got + first * bytes,
				 (const uint8_t *)expected + first * bytes, count);
	for (size_t at = first; at < first + count; at += n) {
		n = raw ? 1 : SML_ROUNDED_BLOCK - at % SML_ROUNDED_BLOCK;
		n = n < first + count - at ? n : first + count - at;
		if (!sim_equal(call->type, (const uint8_t *)got + at * bytes,
			       (const uint8_t *)expected + at * bytes, n) &&
		    !is_of_some_tree(run, i, inputs, got, expected, at, n))
			return false;
	}
	return true;
}

/* A residual stays until the call has ended, and is a number then: 0 on the exact wire. */
static void check_residual(struct sim_run *run, uint32_t i, uint32_t r, const float *input)
{
	const struct sim_call *call = &run->world->calls[i];
	const struct sim_call_state *state = &run->ranks[r].calls[i];

	if (state->residual == NULL)
		return;
	if (memcmp(state->residual, input, call->count * sizeof(*input)) != 0)
		sim_fail(run, "a residual that has changed too early: call, rank", i, r);
	if (!state->submitted || !sml_tensor_is_done(&state->tensor))
		return;
	sml_tensor_keep(&state->tensor);
	for (uint32_t at = 0; at < call->count; at++)
		if (!isfinite(state->residual[at]) ||
		    (call->wire == SML_WIRE_EXACT && state->residual[at] != 0))
			sim_fail(run, "a wrong residual: call, rank", i, r);
	memcpy(state->residual, input, call->count * sizeof(*input)); /* for a second check */
}

static void check_call(struct sim_run *run, uint32_t i)
{
	const struct sim_world *world = run->world;
	const struct sim_call *call = &world->calls[i];
	size_t bytes = sml_element_bytes(call->type), part = call->count / world->n_ranks;
	uint8_t *expected = sim_must(malloc(call->count * bytes + 1));
	void **inputs = sim_must(calloc(world->n_ranks, sizeof(*inputs)));

	for (uint32_t r = 0; r < world->n_ranks; r++) {
		inputs[r] = sim_must(malloc(call->count * bytes + 1));
		sim_input(world, i, r, inputs[r]);
	}
	sim_reference(world, call, &run->ranks[0].calls[i].tensor, inputs, expected);
	for (uint32_t r = 0; r < world->n_ranks; r++) {
		size_t first = 0, count = call->count;

		if (call->collective == SML_REDUCE_SCATTER) {
			first = r * part;
			count = part;
		}
		if (call->collective == SML_REDUCE && r != call->root) {
			count = 0;
			if (!is_untouched(call, &run->ranks[r].calls[i]))
				sim_fail(run, "a result at a rank that is not root: call, rank", i,
					 r);
		}
		if (run->ranks[r].calls[i].submitted &&
		    sml_tensor_is_done(&run->ranks[r].calls[i].tensor) &&
		    !is_right(run, i, inputs, run->ranks[r].calls[i].recv, expected, first, count))
			sim_fail(run, "a wrong result: call, rank", i, r);
		check_residual(run, i, r, inputs[r]);
	}
	for (uint32_t r = 0; r < world->n_ranks; r++)
		free(inputs[r]);
	free(inputs);
	free(expected);
}

/* Whatever the reference does with NaNs, all ranks must have the same bits. */
static void check_bits(struct sim_run *run, uint32_t i)
{
	const struct sim_call *call = &run->world->calls[i];
	size_t bytes = call->count * sml_element_bytes(call->type);
	const void *first = NULL;

	if (call->collective != SML_ALLREDUCE && call->collective != SML_BROADCAST &&
	    call->collective != SML_ALLGATHER)
		return;
	for (uint32_t r = 0; r < run->world->n_ranks; r++) {
		const struct sim_call_state *state = &run->ranks[r].calls[i];

		if (!state->submitted || !sml_tensor_is_done(&state->tensor))
			continue;
		if (first == NULL)
			first = state->recv;
		if (memcmp(first, state->recv, bytes) != 0)
			sim_fail(run, "ranks have different bits: call, rank", i, r);
	}
}

/* Every packet sent has arrived, is in flight, or was dropped for a counted reason. */
static void check_network(struct sim_run *run)
{
	const struct sim_network *network = &run->network;
	uint64_t on_the_way = 0, verdicts = 0;

	for (size_t i = 0; i < network->n_events; i++)
		on_the_way += network->events[i].packet != NULL;
	if (network->sent + network->duplicated != network->lost + network->corrupted +
							   network->overflowed + network->arrived +
							   on_the_way)
		sim_fail(run, "the network's counters do not add up", (uint32_t)network->sent,
			 (uint32_t)network->arrived);
	for (unsigned v = 0; v < SML_VERDICTS; v++)
		verdicts += run->result->verdicts[v];
	if (verdicts != run->at_switches)
		sim_fail(run, "a packet had no verdict, or two", (uint32_t)verdicts,
			 (uint32_t)run->at_switches);
}

/* Each switch of a tree has had each chunk of its stripe once, from each of its children. */
static void check_nodes(struct sim_run *run, const struct sim_stripe *stripe)
{
	for (uint32_t i = 0; i <= run->world->n_leaves; i++) {
		const struct sim_node *node = &stripe->nodes[i];

		if (node->is_open &&
		    (node->completed != stripe->nodes[0].completed ||
		     node->absorbed != node->completed * (node->neighbors.n_children - 1u)))
			sim_fail(run, "a switch's counters do not add up: node, completed", i,
				 (uint32_t)node->completed);
	}
}

/* If a stripe had one epoch, each chunk was reduced once, and each rank sent and took it once. */
static void check_counters(struct sim_run *run)
{
	uint64_t chunks = (uint64_t)run->n_chunks[SML_HEAD] + run->n_chunks[SML_DATA];
	uint64_t completed = 0;

	for (uint32_t i = 0; i < run->world->n_stripes; i++) {
		check_nodes(run, &run->stripes[i]);
		completed += run->stripes[i].nodes[0].completed;
	}
	if (completed != chunks)
		sim_fail(run, "the switches' counters do not add up: completed, of",
			 (uint32_t)completed, (uint32_t)chunks);
	for (uint32_t r = 0; r < run->world->n_ranks; r++) {
		uint64_t sent = 0, taken = 0;

		for (uint32_t i = 0; i < run->world->n_stripes; i++)
			for (uint32_t s = 0; s < run->world->n_shards; s++) {
				const struct sml_worker_counters *c =
					&run->ranks[r].now[i].workers[s]->counters;

				sent += c->packets_sent - c->retransmits_timeout -
					c->retransmits_fast;
				taken += c->packets_received - c->ignored;
			}
		if (sent != chunks || taken != chunks)
			sim_fail(run, "a rank's counters do not add up: rank, results", r,
				 (uint32_t)taken);
	}
}

/* A leaf that is no longer in the tree may never have noticed. */
static void check_idle_node(struct sim_run *run, const struct sim_stripe *stripe, uint32_t index)
{
	const struct sim_node *node = &stripe->nodes[index];
	const struct sml_pool *pool = &node->pool;

	if (!sim_node_is_wanted(node) || pool->rules.epoch != stripe->epoch.number)
		return;
	for (uint32_t i = 0; i < 2u * (pool->rules.head_slots + pool->rules.data_slots); i++)
		if (pool->slots[i].state == SML_SLOT_FILLING ||
		    pool->slots[i].state == SML_SLOT_FULL)
			sim_fail(run, "a switch's slot is not idle at the end: node, buffer", index,
				 i);
}

/* All ranks have finished, so no packet waits for an answer at any rank or switch. */
static void check_idle(struct sim_run *run)
{
	for (uint32_t i = 0; i < run->world->n_stripes; i++) {
		for (uint32_t r = 0; r < run->world->n_ranks; r++)
			for (uint32_t s = 0; s < run->world->n_shards; s++)
				if (sml_worker_is_busy(run->ranks[r].now[i].workers[s]))
					sim_fail(run, "a slot is not idle at the end: rank, stripe",
						 r, i);
		for (uint32_t node = 0; node <= run->world->n_leaves; node++)
			check_idle_node(run, &run->stripes[i], node);
	}
}

/* A failed call has returned its buffers, so nothing may have written to them since. */
static void check_aborted(struct sim_run *run)
{
	for (uint32_t r = 0; r < run->world->n_ranks; r++)
		if (run->ranks[r].aborted &&
		    sim_rank_hash(&run->ranks[r]) != run->ranks[r].abort_hash)
			sim_fail(run, "a buffer was written after its call had failed: rank", r, 0);
}

void sim_check_end(struct sim_run *run, bool finished)
{
	for (uint32_t i = 0; i < run->world->n_calls; i++) {
		if (run->ranks[0].calls[i].submitted)
			check_call(run, i);
		check_bits(run, i);
	}
	check_network(run);
	check_aborted(run);
	if (finished)
		check_idle(run);
	if (finished && run->deaths == 0)
		check_counters(run);
}
