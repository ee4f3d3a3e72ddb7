/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A world of the simulator: everything that is drawn before time begins. It has plain
 * numbers only, so that a world can be printed, shrunk and compared.
 */
#ifndef SML_SIM_WORLD_H
#define SML_SIM_WORLD_H

#include "core/tensor.h"
#include "sim/gen.h"

#define SIM_MAX_TENSORS 24
#define SIM_MAX_STRIPES 8
#define SIM_MAX_DEATHS	3
#define SIM_MAX_LEAVES	SML_MAX_CHILDREN /* so that a root has room */
#define SIM_MAX_NODES	(1 + SIM_MAX_LEAVES)

struct sim_call {
	enum sml_collective collective;
	enum sml_type type;
	enum sml_op op;
	enum sml_wire wire;
	uint16_t root;
	uint32_t count; /* elements of the whole tensor */
	bool in_place;
	bool waits; /* all ranks finish every earlier call before this one */
};

/* X(type, name, description): world_print() and --minimize use this list. */
#define SIM_WORLD_LIST(X)                                                                          \
	X(n_ranks, "ranks")                                                                        \
	X(head_slots, "head slots a stripe")                                                       \
	X(data_slots, "data slots a stripe")                                                       \
	X(n_shards, "shards")                                                                      \
	X(n_stripes, "stripes")                                                                    \
	X(lanes, "lanes a packet")                                                                 \
	X(n_calls, "calls")                                                                        \
	X(window_max, "packets in flight")                                                         \
	X(link_mbps, "Mbit/s a link")                                                              \
	X(delay_us, "delay, us")                                                                   \
	X(jitter_us, "largest extra delay, us")                                                    \
	X(queue_us, "queue limit, us (0: none)")                                                   \
	X(loss_ppm, "packets lost of a million")                                                   \
	X(duplicate_ppm, "duplicated of a million")                                                \
	X(reorder_ppm, "delayed past others of a million")                                         \
	X(corrupt_ppm, "with a bit flipped of a million")                                          \
	X(skew_us, "largest lateness of a submission, us")                                         \
	X(pause_ppm, "rank pauses a million events")                                               \
	X(n_slow, "ranks that are slow, the highest ones")                                         \
	X(slow_us, "what a slow one takes for a packet, us")                                       \
	X(first_use, "use number that slots start from")                                           \
	X(first_chunk, "chunk number that each stripe's streams start from")                       \
	X(no_tickets, "tickets off")                                                               \
	X(worker_dies_us, "a worker dies after, us (0: none)")                                     \
	X(n_deaths, "switch deaths")                                                               \
	X(embedded, "stripes are in ranks' own processes")                                         \
	X(n_leaves, "leaves a stripe (0: no tree)")                                                \
	X(levels, "levels of switches, at most 3")                                                 \
	X(same_tree, "the tree is the same in every epoch")                                        \
	X(host_ns, "least time of a host for a packet, ns")                                        \
	X(switch_ns, "what a switch takes for a packet, ns")                                       \
	X(switch_queue, "packets that may wait at a switch (0: any number)")                       \
	X(super_us, "packets that queue arrive in groups of so long, us")                          \
	X(one_link, "with embedded stripes: a rank and its stripe share the rank's link")          \
	X(rounds, "switches round sums on narrow wires")                                           \
	X(omits, "lanes that are all zero do not travel")                                          \
	X(floats, "switches add floats")

struct sim_world {
	uint64_t seed;
#define SIM_WORLD_FIELD(name, text) uint32_t name;
	SIM_WORLD_LIST(SIM_WORLD_FIELD)
#undef SIM_WORLD_FIELD
	/*
	 * Switch deaths, one after another: when, for how long, and the slots of the next switch.
	 */
	uint32_t death_us[SIM_MAX_DEATHS];
	uint32_t gone_us[SIM_MAX_DEATHS];
	uint32_t next_data_slots[SIM_MAX_DEATHS];
	uint32_t next_head_slots[SIM_MAX_DEATHS];
	struct sim_call calls[SIM_MAX_TENSORS];
};

/* Set the number with this name in the list above. False: there is no such number. */
bool sim_world_set(struct sim_world *world, const char *name, uint32_t value);

/* Make a world valid again after its numbers were changed (for example: root below n_ranks). */
void sim_world_repair(struct sim_world *world);

/*
 * A world to measure in: one all-reduce of `count` floats, one switch, no fault and nothing drawn.
 * sim_world_set() changes its numbers; the seed then decides which packets meet the faults.
 */
void sim_world_plain(struct sim_world *world, uint64_t seed, uint32_t count, enum sml_wire wire);

/* The number in the whole stream of the first chunk of the world's calls. */
static inline uint64_t sim_world_first_chunk(const struct sim_world *world)
{
	return (uint64_t)world->first_chunk * world->n_stripes;
}

/* What all tensors of this rank have in common. */
struct sml_shape sim_world_shape(const struct sim_world *world, uint16_t rank);

/* Does this stripe run in the rank's own process? */
static inline bool sim_world_is_own(const struct sim_world *world, uint32_t rank, uint32_t stripe)
{
	return world->embedded && rank == stripe;
}

/* Draw a world from a seed. small: few ranks and slots, so that many worlds run per second. */
void sim_world_draw(struct sim_world *world, uint64_t seed, bool small);

/*
 * The same with trees of switches. Some of those that are not small have thousands of ranks, and
 * few of everything else.
 */
void sim_world_draw_tree(struct sim_world *world, uint64_t seed, bool small);

#endif
