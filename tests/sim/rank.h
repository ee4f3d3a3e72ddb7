/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One simulated rank: an application that makes its calls at given times, and the workers
 * (the shards of each stripe) under it.
 */
#ifndef SML_SIM_RANK_H
#define SML_SIM_RANK_H

#include "core/resume.h"
#include "sim/network.h"
#include "sim/world.h"

#define SIM_MAX_SHARDS_RUN 4

/* The workers of one stripe in one epoch, and their memory. */
struct sim_generation {
	struct sml_worker *workers[SIM_MAX_SHARDS_RUN];
	void *memory[SIM_MAX_SHARDS_RUN];
	bool has_result; /* a result came in this epoch, so all ranks have begun it */
};

struct sim_call_state {
	struct sml_tensor tensor;
	void *memory, *send, *recv;
	float *residual; /* NULL if the call has none */
	uint64_t due_ns;
	bool submitted, checked;
};

struct sim_rank {
	uint16_t id;
	bool dead;
	bool aborted;	     /* its calls have failed: nothing may access their buffers any more */
	uint64_t abort_hash; /* hash of its receive buffers at that time */
	const struct sim_world *world;
	struct sml_sequence sequence;
	struct sim_call_state calls[SIM_MAX_TENSORS];
	uint32_t n_submitted;
	struct sim_generation now[SIM_MAX_STRIPES];
	/* The previous epoch, as long as its kept results may be needed. */
	struct sim_generation kept[SIM_MAX_STRIPES];
	uint16_t node[SIM_MAX_STRIPES]; /* the rank's switch of each stripe, in its epoch */
	struct sim_link up[SIM_MAX_STRIPES], down[SIM_MAX_STRIPES];
	struct sml_team teams[SIM_MAX_SHARDS_RUN]; /* of embedded stripes */
	uint32_t turn; /* with one link: the stripe whose packets go first */
	uint64_t paused_until_ns;
	uint64_t wake_ns; /* the earliest planned SIM_WAKE */
};

/* A rank's place at its switch. */
struct sim_slot_of_rank {
	uint16_t node;
	uint8_t number;
	uint32_t job;
	uint64_t cookie, tag;
};

/* A stripe's epoch, as the ranks know it. */
struct sim_epoch {
	uint32_t number;
	struct sim_slot_of_rank *places; /* by rank */
	uint16_t head_slots, data_slots;
	struct sml_ticket_map maps[SML_STREAMS];
};

void sim_rank_init(struct sim_rank *rank, const struct sim_world *world, uint32_t id);
void sim_rank_fini(struct sim_rank *rank);

/* Begin an epoch on a stripe: the first one, or one after a death. */
void sim_rank_begin(struct sim_rank *rank, uint32_t stripe, const struct sim_epoch *epoch);

/* Give a packet to one of the rank's workers. */
void sim_rank_receive(struct sim_rank *rank, uint32_t stripe, uint32_t shard, const void *packet,
		      size_t length, uint64_t now_ns);

/* Send everything that may be sent, and plan the next timer check. */
void sim_rank_pump(struct sim_rank *rank, struct sim_network *network);

/* The generation of kept results that the rank would hand over. */
struct sim_generation *sim_rank_keeper(struct sim_rank *rank, uint32_t stripe);

/* A hash of all receive buffers. */
uint64_t sim_rank_hash(const struct sim_rank *rank);

bool sim_rank_is_finished(const struct sim_rank *rank);

#endif
