/* SPDX-License-Identifier: BSD-3-Clause */
/* A simulated rank: see rank.h. */
#include "sim/rank.h"

#include <stdlib.h>
#include <string.h>

#include "sim/reference.h"

static void *allocate(size_t bytes)
{
	void *memory = aligned_alloc(64, (bytes + 64) & ~(size_t)63);

	if (memory == NULL)
		abort();
	return memory;
}

/* ---- calls ---- */

static void describe(struct sim_rank *rank, uint32_t i, struct sml_tensor_spec *spec)
{
	const struct sim_call *call = &rank->world->calls[i];
	struct sim_call_state *state = &rank->calls[i];
	size_t bytes = sml_element_bytes(call->type);
	uint32_t part = call->count / rank->world->n_ranks;
	size_t own = (size_t)rank->id * part;

	*spec = (struct sml_tensor_spec){
		.collective = call->collective,
		.type = call->type,
		.op = call->op,
		.wire = call->wire,
		.root = call->root,
		.count = call->count,
		.send = state->send,
		.send_count = call->count,
		.residual = state->residual,
		.recv = state->recv,
		.recv_count = call->count,
	};
	if (call->collective == SML_ALLGATHER) {
		spec->send = (uint8_t *)state->send + own * bytes;
		spec->send_first = own;
		spec->send_count = part;
	} else if (call->collective == SML_REDUCE_SCATTER) {
		spec->recv = (uint8_t *)state->recv + own * bytes;
		spec->recv_first = own;
		spec->recv_count = part;
	}
	if (rank->id == call->root)
		return;
	if (call->collective == SML_BROADCAST)
		spec->send_count = 0;
	else if (call->collective == SML_REDUCE)
		spec->recv_count = 0;
}

/*
 * Every third rank contributes -0 and a residual, which add up to its elements, bit by bit. Not on
 * the int16 wire, where lanes have fewer bits then.
 */
static void feed_back(struct sim_rank *rank, uint32_t i)
{
	const struct sim_call *call = &rank->world->calls[i];
	struct sim_call_state *state = &rank->calls[i];
	size_t bytes = call->count * sizeof(float);

	if ((rank->id + i) % 3 != 0 || call->type != SML_FLOAT32 ||
	    (call->op != SML_SUM && call->op != SML_AVG) || call->wire == SML_WIRE_INT16 ||
	    call->wire == SML_WIRE_INT64 || call->collective == SML_BROADCAST ||
	    call->collective == SML_ALLGATHER || call->collective == SML_BARRIER)
		return;
	state->residual = allocate(bytes);
	memcpy(state->residual, state->send, bytes);
	for (uint32_t at = 0; at < call->count; at++)
		((float *)state->send)[at] = -0.0f;
}

static void prepare_call(struct sim_rank *rank, uint32_t i, struct gen *gen)
{
	const struct sim_world *world = rank->world;
	const struct sim_call *call = &world->calls[i];
	struct sim_call_state *state = &rank->calls[i];
	size_t bytes = call->count * sml_element_bytes(call->type);

	state->send = allocate(bytes);
	sim_input(world, i, rank->id, state->send);
	feed_back(rank, i);
	if (call->in_place && call->collective != SML_REDUCE_SCATTER) {
		state->recv = state->send;
	} else {
		state->recv = allocate(bytes);
		memset(state->recv, 0xa5, bytes);
	}
	state->due_ns = world->skew_us ? gen_below(gen, world->skew_us) * 1000ull : 0;
}

void sim_rank_init(struct sim_rank *rank, const struct sim_world *world, uint32_t id)
{
	struct gen gen;

	*rank = (struct sim_rank){.id = (uint16_t)id, .world = world, .wake_ns = UINT64_MAX};
	gen_from_seed(&gen, world->seed * 77 + id);
	rank->sequence.next[SML_HEAD] = sim_world_first_chunk(world);
	rank->sequence.next[SML_DATA] = sim_world_first_chunk(world);
	for (uint32_t i = 0; i < world->n_calls; i++)
		prepare_call(rank, i, &gen);
	for (uint32_t i = 0; i < SIM_MAX_STRIPES; i++) {
		if (id >= world->n_ranks - world->n_slow)
			rank->up[i].packet_ns = rank->down[i].packet_ns = world->slow_us * 1000ull;
		rank->up[i].least_ns = rank->down[i].least_ns = world->host_ns;
	}
}

static void free_generation(struct sim_generation *generation)
{
	for (uint32_t i = 0; i < SIM_MAX_SHARDS_RUN; i++) {
		free(generation->workers[i]);
		free(generation->memory[i]);
	}
	*generation = (struct sim_generation){0};
}

void sim_rank_fini(struct sim_rank *rank)
{
	for (uint32_t i = 0; i < rank->world->n_calls; i++) {
		struct sim_call_state *state = &rank->calls[i];

		if (state->recv != state->send)
			free(state->recv);
		free(state->send);
		free(state->residual);
		free(state->memory);
	}
	for (uint32_t i = 0; i < SIM_MAX_STRIPES; i++) {
		free_generation(&rank->now[i]);
		free_generation(&rank->kept[i]);
	}
}

static bool all_done_before(const struct sim_rank *rank, uint32_t call)
{
	for (uint32_t i = 0; i < call; i++)
		if (!sml_tensor_is_done(&rank->calls[i].tensor))
			return false;
	return true;
}

static void submit_call(struct sim_rank *rank, uint32_t i)
{
	const struct sim_world *world = rank->world;
	struct sml_shape shape = sim_world_shape(world, rank->id);
	struct sim_call_state *state = &rank->calls[i];
	struct sml_tensor_spec spec;

	describe(rank, i, &spec);
	state->memory = allocate(sml_tensor_memory_bytes(&spec, &shape));
	sml_tensor_init(&state->tensor, &spec, &shape, &rank->sequence, state->memory);
	state->submitted = true;
	for (uint32_t stripe = 0; stripe < world->n_stripes; stripe++)
		for (uint32_t shard = 0; shard < world->n_shards; shard++)
			if (!sml_worker_submit(rank->now[stripe].workers[shard], &state->tensor))
				abort(); /* SIM_MAX_TENSORS is below the ring's size */
}

/* Makes the calls that are due. */
static void submit_due(struct sim_rank *rank, uint64_t now_ns)
{
	while (rank->n_submitted < rank->world->n_calls) {
		uint32_t i = rank->n_submitted;

		if (rank->calls[i].due_ns > now_ns ||
		    (rank->world->calls[i].waits && !all_done_before(rank, i)))
			break;
		submit_call(rank, i);
		rank->n_submitted++;
	}
}

uint64_t sim_rank_hash(const struct sim_rank *rank)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (uint32_t i = 0; i < rank->world->n_calls; i++) {
		const struct sim_call *call = &rank->world->calls[i];
		const uint8_t *bytes = rank->calls[i].recv;

		for (size_t n = call->count * sml_element_bytes(call->type); n > 0; n--)
			hash = (hash ^ *bytes++) * 0x100000001b3ull;
	}
	return hash;
}

bool sim_rank_is_finished(const struct sim_rank *rank)
{
	return rank->n_submitted == rank->world->n_calls &&
	       all_done_before(rank, rank->n_submitted);
}

/* ---- epochs ---- */

struct sim_generation *sim_rank_keeper(struct sim_rank *rank, uint32_t stripe)
{
	if (rank->now[stripe].has_result || rank->kept[stripe].workers[0] == NULL)
		return &rank->now[stripe];
	return &rank->kept[stripe];
}

static struct sml_worker *new_worker(const struct sim_rank *rank, uint32_t stripe, uint32_t shard,
				     const struct sim_epoch *epoch, void **memory)
{
	const struct sim_world *world = rank->world;
	const struct sim_slot_of_rank *place = &epoch->places[rank->id];
	struct sml_worker *worker = allocate(sizeof(*worker));
	struct sml_worker_config config = {
		.cookie = place->cookie,
		.tag = place->tag,
		.job = place->job,
		.epoch = epoch->number,
		.shape = sim_world_shape(world, rank->id),
		.head_slots = epoch->head_slots,
		.data_slots = epoch->data_slots,
		.shard = (uint8_t)shard,
		.n_shards = (uint8_t)world->n_shards,
		.stripe = (uint8_t)stripe,
		.n_stripes = (uint8_t)world->n_stripes,
		.number = place->number,
		.omits = world->omits,
		.window_max = world->window_max,
		.no_tickets = world->no_tickets,
		.local = sim_world_is_own(world, rank->id, stripe),
		.no_resume = world->embedded,
	};

	*memory = allocate(sml_worker_memory_bytes(&config));
	sml_worker_init(worker, &config, *memory);
	return worker;
}

/* Make the job look old: many worlds begin just before the numbers wrap around. */
static void age_worker(struct sml_worker *worker, const struct sim_world *world)
{
	const struct sml_ticket_map map = {.after = world->first_chunk};

	for (uint16_t s = 0; s < worker->n_slots; s++)
		worker->slots[s].use = world->first_use;
	for (enum sml_stream_id stream = SML_HEAD; stream < SML_STREAMS; stream++) {
		worker->retired[stream] = world->first_chunk;
		sml_worker_set_map(worker, stream, &map, world->first_chunk);
	}
}

void sim_rank_begin(struct sim_rank *rank, uint32_t stripe, const struct sim_epoch *epoch)
{
	struct sim_generation *now = &rank->now[stripe], next = {0};

	for (uint32_t shard = 0; shard < rank->world->n_shards; shard++) {
		next.workers[shard] = new_worker(rank, stripe, shard, epoch, &next.memory[shard]);
		if (now->workers[shard] != NULL) {
			sml_resume_begin(next.workers[shard], now->workers[shard], epoch->maps);
			continue;
		}
		age_worker(next.workers[shard], rank->world);
		if (rank->world->embedded)
			sml_team_add(&rank->teams[shard], next.workers[shard]);
	}
	if (sim_rank_keeper(rank, stripe) == now) {
		free_generation(&rank->kept[stripe]);
		rank->kept[stripe] = *now;
	} else {
		free_generation(now);
	}
	*now = next;
	rank->node[stripe] = epoch->places[rank->id].node;
}

/* ---- packets ---- */

void sim_rank_receive(struct sim_rank *rank, uint32_t stripe, uint32_t shard, const void *packet,
		      size_t length, uint64_t now_ns)
{
	struct sim_generation *now = &rank->now[stripe];
	struct sml_worker *worker = now->workers[shard];

	if (sml_worker_receive(worker, packet, length, now_ns) == SML_WORKER_IGNORED)
		return;
	if (!now->has_result) {
		now->has_result = true;
		free_generation(&rank->kept[stripe]);
	}
	while (sml_worker_retire(worker) != NULL)
		;
}

static void send_all(struct sim_rank *rank, uint32_t stripe, uint32_t shard,
		     struct sim_network *network)
{
	struct sml_worker *worker = rank->now[stripe].workers[shard];
	struct sim_event to = {.kind = SIM_TO_SWITCH,
			       .rank = rank->id,
			       .node = rank->node[stripe],
			       .stripe = (uint8_t)stripe,
			       .shard = (uint8_t)shard};
	uint8_t packet[SML_MAX_PACKET_BYTES] __attribute__((aligned(8)));
	size_t length;

	while ((length = sml_worker_send(worker, packet, network->now_ns)) > 0) {
		if (sim_world_is_own(rank->world, rank->id, stripe))
			sim_network_hand_over(network, &to, packet, length, network->now_ns);
		else if (rank->world->one_link)
			sim_network_send_to_port(network, &rank->up[0], &to, packet, length);
		else
			sim_network_send(network, &rank->up[stripe], &to, packet, length);
	}
}

void sim_rank_pump(struct sim_rank *rank, struct sim_network *network)
{
	uint64_t now_ns = network->now_ns, next_ns = UINT64_MAX;

	if (!rank->aborted)
		submit_due(rank, now_ns);
	for (uint32_t i = 0; i < rank->world->n_stripes; i++) {
		uint32_t stripe = (rank->turn + i) % rank->world->n_stripes;

		for (uint32_t shard = 0; shard < rank->world->n_shards; shard++) {
			struct sml_worker *worker = rank->now[stripe].workers[shard];
			uint64_t deadline_ns;

			while (sml_worker_retire(worker) != NULL)
				;
			sml_worker_expire(worker, now_ns);
			send_all(rank, stripe, shard, network);
			deadline_ns = sml_worker_deadline(worker);
			next_ns = deadline_ns < next_ns ? deadline_ns : next_ns;
		}
	}
	if (rank->world->one_link && ++rank->turn >= rank->world->n_stripes)
		rank->turn = 0;
	if (rank->n_submitted < rank->world->n_calls && !rank->aborted) {
		uint64_t due_ns = rank->calls[rank->n_submitted].due_ns;

		if (due_ns > now_ns && due_ns < next_ns)
			next_ns = due_ns;
	}
	if (next_ns != UINT64_MAX && (rank->wake_ns > next_ns || rank->wake_ns <= now_ns)) {
		rank->wake_ns = next_ns > now_ns ? next_ns : now_ns + 1;
		sim_network_plan(network, rank->wake_ns, SIM_WAKE, rank->id, 0);
	}
}
