/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws worlds. Small numbers are likely, and many worlds have a fault completely off. */
#include "sim/tree.h"

#include <string.h>

/* Draw a magnitude: each power of two up to `highest` is equally likely. */
static uint32_t scale(struct gen *gen, uint32_t lowest, uint32_t highest)
{
	uint32_t bits = 0, value;

	while (bits < 31 && (1u << bits) < highest)
		bits++;
	value = 1u << gen_below(gen, bits + 1);
	value = value / 2 + gen_below(gen, value / 2 + 1);
	if (value < lowest)
		value = lowest;
	return value < highest ? value : highest;
}

/* Half of all worlds lack a fault. The others have it with some magnitude. */
static uint32_t fault(struct gen *gen, uint32_t highest)
{
	return gen_chance(gen, 1, 2) ? 0 : scale(gen, 1, highest);
}

static void draw_call(struct gen *gen, const struct sim_world *world, struct sim_call *call)
{
	/* All inputs of a world fit into a few megabytes. */
	uint32_t most = (2u << 20) / (world->n_ranks * world->n_calls);
	uint32_t large = world->lanes * 24 < most / 8 ? world->lanes * 24 : most / 8;

	*call = (struct sim_call){
		.collective = SML_ALLREDUCE,
		.type = (enum sml_type)gen_below(gen, 4),
		.op = (enum sml_op)gen_below(gen, 4),
		.wire = gen_chance(gen, 1, 3) ? SML_WIRE_INT16 : SML_WIRE_INT32,
		.count = scale(gen, 0, gen_chance(gen, 1, 4) ? large * 8 : large),
		.in_place = gen_chance(gen, 1, 2),
		.waits = gen_chance(gen, 1, 4),
	};
	switch (gen_below(gen, 10)) {
	case 0:
		call->collective = SML_BARRIER;
		call->count = 0;
		call->type = SML_INT32;
		call->op = SML_SUM;
		break;
	case 1:
		call->collective = SML_BROADCAST;
		call->type = SML_BYTE;
		call->op = SML_SUM;
		call->root = (uint16_t)gen_below(gen, world->n_ranks);
		break;
	case 2:
		call->collective = SML_ALLGATHER;
		call->type = SML_BYTE;
		call->op = SML_SUM;
		call->count -= call->count % world->n_ranks;
		break;
	case 3:
		call->collective = SML_REDUCE_SCATTER;
		call->count -= call->count % world->n_ranks;
		break;
	default: /* an all-reduce */
		break;
	}
}

static void draw_sizes(struct gen *gen, struct sim_world *world, bool small)
{
	static const uint16_t lanes[] = {8, 16, 32, 64, 352};

	world->n_ranks = small ? gen_range(gen, 1, 4) : scale(gen, 1, SML_MAX_CHILDREN);
	world->n_stripes = gen_chance(gen, 2, 3) ? 1 : gen_range(gen, 2, small ? 3 : 8);
	world->n_shards = gen_chance(gen, 2, 3) ? 1 : gen_range(gen, 2, 4);
	world->head_slots = scale(gen, world->n_shards, small ? 4 : 32);
	world->data_slots = scale(gen, world->n_shards, small ? 8 : 256);
	world->lanes = lanes[gen_below(gen, small ? 3 : 5)];
	world->n_calls = gen_range(gen, 1, small ? 6 : SIM_MAX_TENSORS);
	world->window_max = gen_chance(gen, 1, 2) ? 1024 : scale(gen, 1, 64);
	/* Half of the worlds begin just before the use number wraps around. */
	world->first_use = gen_chance(gen, 1, 2) ? 0 : (uint32_t)(-2 * (int32_t)gen_below(gen, 8));
	world->no_tickets = gen_chance(gen, 1, 8);
}

static void draw_faults(struct gen *gen, struct sim_world *world)
{
	bool calm = gen_chance(gen, 1, 8);

	world->link_mbps = scale(gen, 10, 100000);
	world->delay_us = scale(gen, 1, 2000);
	world->jitter_us = calm ? 0 : fault(gen, 2000);
	world->queue_us = calm ? 0 : fault(gen, 5000);
	if (world->queue_us && world->queue_us < 200)
		world->queue_us = 200;
	world->loss_ppm = calm ? 0 : fault(gen, 300000);
	world->duplicate_ppm = calm ? 0 : fault(gen, 300000);
	world->reorder_ppm = calm ? 0 : fault(gen, 300000);
	world->corrupt_ppm = calm ? 0 : fault(gen, 100000);
	world->skew_us = fault(gen, 50000);
	world->pause_ppm = calm ? 0 : fault(gen, 3000);
	world->worker_dies_us = gen_chance(gen, 1, 16) ? scale(gen, 1, 50000) : 0;
}

static void draw_deaths(struct gen *gen, struct sim_world *world, bool small)
{
	world->n_deaths = gen_chance(gen, 1, 3) ? gen_range(gen, 1, SIM_MAX_DEATHS) : 0;
	for (uint32_t i = 0; i < world->n_deaths; i++) {
		world->gone_us[i] = scale(gen, 1, 30000);
		/*
		 * Half of the later deaths happen while ranks still resume from the previous
		 * death.
		 */
		if (i > 0 && gen_chance(gen, 1, 2))
			world->death_us[i] =
				world->death_us[i - 1] + scale(gen, 1, 3 * world->gone_us[i - 1]);
		else
			world->death_us[i] = scale(gen, 1, 30000);
		world->next_head_slots[i] = gen_chance(gen, 1, 2)
						    ? world->head_slots
						    : scale(gen, world->n_shards, small ? 4 : 32);
		world->next_data_slots[i] = gen_chance(gen, 1, 2)
						    ? world->data_slots
						    : scale(gen, world->n_shards, small ? 8 : 256);
	}
}

/*
 * Every rank has a stripe, up to the largest number of stripes. A stripe dies only with its
 * rank.
 */
static void embed(struct sim_world *world)
{
	world->n_stripes = world->n_ranks < SIM_MAX_STRIPES ? world->n_ranks : SIM_MAX_STRIPES;
	world->n_deaths = 0;
}

static bool combines(const struct sim_call *call)
{
	return call->collective == SML_ALLREDUCE || call->collective == SML_REDUCE_SCATTER ||
	       call->collective == SML_REDUCE;
}

/* One for each rank, all equally long. */
static bool has_parts(const struct sim_call *call)
{
	return call->collective == SML_ALLGATHER || call->collective == SML_REDUCE_SCATTER;
}

/*
 * Types that were added later exist only in worlds of even seeds, and they use a separate
 * source. So worlds of odd seeds, including those in sim/seeds.txt, stay the same.
 */
static void draw_new_types(struct sim_world *world, uint64_t seed)
{
	static const enum sml_type types[] = {SML_FLOAT64, SML_INT64, SML_FLOAT64, SML_UINT8,
					      SML_INT8,	   SML_INT16, SML_BOOL,	   SML_FLOAT64};
	struct gen gen;

	gen_from_seed(&gen, ~seed);
	for (uint32_t i = 0; seed % 2 == 0 && i < world->n_calls; i++) {
		struct sim_call *call = &world->calls[i];

		if (!combines(call) || gen_chance(&gen, 1, 2))
			continue;
		call->type = types[gen_below(&gen, 8)];
		if (call->type == SML_FLOAT64 && gen_chance(&gen, 2, 3))
			call->wire = SML_WIRE_INT64;
		if (call->type == SML_BOOL && call->op == SML_AVG)
			call->op = SML_SUM;
	}
}

static bool is_float_sum(const struct sim_call *call)
{
	bool is_float = call->type == SML_FLOAT32 || call->type == SML_FLOAT16 ||
			call->type == SML_BFLOAT16 || call->type == SML_FLOAT64;

	return is_float && (call->op == SML_SUM || call->op == SML_AVG) && combines(call);
}

struct sml_shape sim_world_shape(const struct sim_world *world, uint16_t rank)
{
	return (struct sml_shape){
		.lanes = (uint16_t)world->lanes,
		.rank = rank,
		.n_ranks = (uint16_t)world->n_ranks,
		.rounds = world->rounds,
		.floats = world->floats,
	};
}

/* A call that asks for the exact wire and cannot have it uses another wire. */
static void mend_exact(const struct sim_world *world, struct sim_call *call)
{
	const struct sml_shape shape = sim_world_shape(world, 0);

	if (call->wire == SML_WIRE_EXACT &&
	    (!is_float_sum(call) || !sml_tensor_may_be_exact(call->type, &shape)))
		call->wire = SML_WIRE_INT32;
}

/*
 * The exact wire, which was added even later, exists in every fourth world and also uses a
 * separate source. Large calls that are gathered become small, so that they end soon.
 */
static void draw_exact(struct sim_world *world, uint64_t seed)
{
	struct gen gen;

	/* In half of them, switches add floats: then only float64 is gathered. */
	world->floats = seed % 4 == 2 && seed / 8 % 2 == 1;
	gen_from_seed(&gen, seed ^ 0x6578616374ull);
	for (uint32_t i = 0; seed % 4 == 2 && i < world->n_calls; i++) {
		struct sim_call *call = &world->calls[i];
		uint32_t most = 8192 / (uint32_t)sml_element_bytes(call->type);

		if (!is_float_sum(call) || gen_chance(&gen, 1, 2))
			continue;
		call->wire = SML_WIRE_EXACT;
		if (call->count > most && (!world->floats || call->type == SML_FLOAT64))
			call->count = scale(&gen, 1, most);
		if (call->collective == SML_REDUCE_SCATTER)
			call->count -= call->count % world->n_ranks;
		mend_exact(world, call);
	}
}

/* In every fourth world, half of the all-reduces are reduces, from a separate source, too. */
static void draw_reduces(struct sim_world *world, uint64_t seed)
{
	struct gen gen;

	gen_from_seed(&gen, seed ^ 0x726f6f74ull);
	for (uint32_t i = 0; seed % 4 == 0 && i < world->n_calls; i++) {
		struct sim_call *call = &world->calls[i];

		if (call->collective != SML_ALLREDUCE || gen_chance(&gen, 1, 2))
			continue;
		call->collective = SML_REDUCE;
		call->root = (uint16_t)gen_below(&gen, world->n_ranks);
	}
}

/* The same for the links of embedded stripes. */
static void draw_one_link(struct sim_world *world, uint64_t seed)
{
	struct gen gen;

	gen_from_seed(&gen, seed ^ 0x6c696e6bull);
	if (seed % 2 == 0)
		world->one_link = world->embedded && gen_chance(&gen, 1, 2);
}

/*
 * The same for rounding. A packet must hold a block then, and calls are longer: short ones travel
 * without blocks.
 */
static void draw_rounding(struct sim_world *world, uint64_t seed)
{
	struct gen gen;

	gen_from_seed(&gen, seed ^ 0x726f756e64ull);
	if (seed % 4 != 0 || gen_chance(&gen, 1, 4))
		return;
	world->rounds = 1;
	if (world->lanes < 200)
		world->lanes = gen_range(&gen, 33, 200);
	for (uint32_t i = 0; i < world->n_calls; i++) {
		struct sim_call *call = &world->calls[i];

		if (!is_float_sum(call) || call->wire != SML_WIRE_INT32)
			continue;
		call->wire = SML_WIRE_INT16;
		call->count += gen_below(&gen, 3000 / world->n_ranks);
		if (call->collective == SML_REDUCE_SCATTER)
			call->count -= call->count % world->n_ranks;
		/* No draw of its own: all else stays as it was. */
		if (call->type != SML_FLOAT64 && (i + seed / 4) % 2 == 0)
			call->wire = SML_WIRE_INT8;
	}
}

/* What switches of integers add by default: in every fourth world, and with no draw of its own. */
static void draw_wide(struct sim_world *world, uint64_t seed)
{
	for (uint32_t i = 0; seed % 4 == 3 && i < world->n_calls; i++)
		if (is_float_sum(&world->calls[i]) && (i + seed / 4) % 2 == 0)
			world->calls[i].wire = SML_WIRE_INT64;
}

void sim_world_draw(struct sim_world *world, uint64_t seed, bool small)
{
	struct gen gen;

	*world = (struct sim_world){.seed = seed};
	gen_from_seed(&gen, seed);
	draw_sizes(&gen, world, small);
	draw_faults(&gen, world);
	draw_deaths(&gen, world, small);
	for (uint32_t i = 0; i < world->n_calls; i++)
		draw_call(&gen, world, &world->calls[i]);
	/* In half of the worlds, chunk numbers wrap around. */
	world->first_chunk = gen_chance(&gen, 1, 2) ? 0 : (uint32_t)-scale(&gen, 1, 256);
	/* Drawn last, so that the worlds of older seeds stay the same. */
	if (gen_chance(&gen, 1, 4)) {
		world->n_slow = gen_range(&gen, 1, world->n_ranks);
		world->slow_us = scale(&gen, 1, 40);
	}
	world->embedded = gen_chance(&gen, 1, 6);
	if (world->embedded)
		embed(world);
	/* Slots without tickets do not support a table: this option exists for measurements. */
	if (world->no_tickets)
		world->n_deaths = 0;
	draw_new_types(world, seed);
	draw_exact(world, seed);
	draw_reduces(world, seed);
	draw_one_link(world, seed);
	draw_rounding(world, seed);
	draw_wide(world, seed);
	/* No draw of its own, and in as many worlds whose switches round as in others. */
	world->omits = seed / 4 % 2;
}

static void mend_wire(const struct sim_world *world, struct sim_call *call)
{
	const struct sml_shape shape = sim_world_shape(world, 0);

	if (call->type != SML_FLOAT64 && call->wire == SML_WIRE_INT64 && !is_float_sum(call))
		call->wire = SML_WIRE_INT32;
	/* The library refuses int8 where no switch rounds it, or where a packet holds no block. */
	if (call->wire == SML_WIRE_INT8 && !sml_shape_rounds(&shape, 8))
		call->wire = SML_WIRE_INT16;
}

static void mend_calls(struct sim_world *world)
{
	for (uint32_t i = 0; i < world->n_calls; i++) {
		struct sim_call *call = &world->calls[i];

		if (has_parts(call))
			call->count -= call->count % world->n_ranks;
		/* Trees may have fewer ranks than were drawn. */
		if (call->collective == SML_REDUCE)
			call->root = (uint16_t)(call->root % world->n_ranks);
		mend_wire(world, call);
		mend_exact(world, call);
	}
}

/* Thousands of ranks, and little else, so that a world takes a second. */
static void make_wide(struct gen *gen, struct sim_world *world)
{
	world->n_ranks = gen_chance(gen, 1, 2)
				 ? SML_MAX_WORLD
				 : gen_range(gen, SML_MAX_CHILDREN + 1, SML_MAX_WORLD);
	world->n_leaves =
		gen_range(gen, (world->n_ranks - 1) / (SML_MAX_CHILDREN - 1) - 1, SIM_MAX_LEAVES);
	world->n_stripes = world->n_shards = 1;
	world->head_slots = gen_range(gen, 1, 4);
	world->data_slots = gen_range(gen, 1, 8);
	world->lanes = 16;
	world->n_calls = gen_range(gen, 1, 3);
	world->n_slow = 0;
	world->worker_dies_us = 0;
	world->n_deaths = world->n_deaths > 0;
	world->loss_ppm = world->loss_ppm > 20000 ? 20000 : world->loss_ppm;
	world->corrupt_ppm = 0;
	world->pause_ppm = 0;
	for (uint32_t i = 0; i < SIM_MAX_DEATHS; i++)
		world->next_head_slots[i] = gen_range(gen, 1, 4);
	for (uint32_t i = 0; i < world->n_calls; i++) {
		struct sim_call *call = &world->calls[i];

		call->count = call->collective == SML_BARRIER ? 0 : gen_range(gen, 0, 40);
		if (has_parts(call)) {
			call->count = world->n_ranks;
			world->lanes = 352;
		}
		call->root = (uint16_t)gen_below(gen, world->n_ranks);
	}
}

void sim_world_draw_tree(struct sim_world *world, uint64_t seed, bool small)
{
	struct gen gen;

	sim_world_draw(world, seed, small);
	gen_from_seed(&gen, seed ^ 0x6c6561766573ull);
	world->embedded = world->one_link = 0;
	world->levels = gen_range(&gen, 2, 3);
	world->n_leaves = gen_range(&gen, 1, small ? 5 : 20);
	world->same_tree = gen_chance(&gen, 1, 2);
	if (world->n_deaths == 0 && !world->no_tickets && gen_chance(&gen, 1, 2))
		draw_deaths(&gen, world, small);
	if (!small && gen_chance(&gen, 1, 8))
		make_wide(&gen, world);
	if (world->n_ranks > sim_tree_room(world->n_leaves))
		world->n_ranks = sim_tree_room(world->n_leaves);
	mend_calls(world);
}

bool sim_world_set(struct sim_world *world, const char *name, uint32_t value)
{
#define SIM_WORLD_SET(field, text)                                                                 \
	if (strcmp(name, #field) == 0) {                                                           \
		world->field = value;                                                              \
		return true;                                                                       \
	}
	SIM_WORLD_LIST(SIM_WORLD_SET)
#undef SIM_WORLD_SET
	return false;
}

void sim_world_plain(struct sim_world *world, uint64_t seed, uint32_t count, enum sml_wire wire)
{
	*world = (struct sim_world){
		.seed = seed,
		.n_ranks = 8,
		.head_slots = 32,
		.data_slots = 256,
		.n_shards = 1,
		.n_stripes = 1,
		.lanes = 358,
		.n_calls = 1,
		.window_max = 1024,
		.link_mbps = 100,
		.delay_us = 10,
		.rounds = 1,
	};
	for (uint32_t i = 0; i < SIM_MAX_TENSORS; i++)
		world->calls[i] = (struct sim_call){.collective = SML_ALLREDUCE,
						    .type = SML_FLOAT32,
						    .op = SML_SUM,
						    .wire = wire,
						    .count = count,
						    .in_place = true,
						    .waits = true};
}

static uint32_t clamp(uint32_t value, uint32_t lowest, uint32_t highest)
{
	return value < lowest ? lowest : value > highest ? highest : value;
}

void sim_world_repair(struct sim_world *world)
{
	world->n_leaves = clamp(world->n_leaves, 0, SIM_MAX_LEAVES);
	world->levels = clamp(world->levels, world->n_leaves ? 2 : 0, 3);
	world->n_ranks = clamp(world->n_ranks, 1, sim_tree_room(world->n_leaves));
	world->n_ranks = clamp(world->n_ranks, 1, SML_MAX_WORLD);
	world->n_stripes = clamp(world->n_stripes, 1, SIM_MAX_STRIPES);
	world->n_shards = clamp(world->n_shards, 1, 4);
	world->head_slots = clamp(world->head_slots, world->n_shards, 32);
	world->data_slots = clamp(world->data_slots, world->n_shards, 2048);
	world->lanes = clamp(world->lanes, 8, 358);
	world->n_calls = clamp(world->n_calls, 1, SIM_MAX_TENSORS);
	world->n_deaths = clamp(world->n_deaths, 0, SIM_MAX_DEATHS);
	world->window_max = clamp(world->window_max, 1, 1024);
	world->link_mbps = clamp(world->link_mbps, 1, 400000);
	world->first_use &= ~1u;
	if (world->embedded)
		embed(world);
	world->one_link = world->one_link && world->embedded;
	world->n_slow = clamp(world->n_slow, 0, world->n_ranks);
	world->slow_us = clamp(world->slow_us, 0, 1000);
	world->host_ns = clamp(world->host_ns, 0, 1000000);
	world->switch_ns = clamp(world->switch_ns, 0, 100000000);
	world->super_us = clamp(world->super_us, 0, 100000);
	if (world->no_tickets)
		world->n_deaths = 0;
	for (uint32_t i = 0; i < SIM_MAX_DEATHS; i++) {
		world->next_head_slots[i] = clamp(world->next_head_slots[i], world->n_shards, 32);
		world->next_data_slots[i] = clamp(world->next_data_slots[i], world->n_shards, 256);
	}
	for (uint32_t i = 0; i < SIM_MAX_TENSORS; i++) {
		struct sim_call *call = &world->calls[i];

		call->root = (uint16_t)(call->root % world->n_ranks);
	}
	mend_calls(world);
}
