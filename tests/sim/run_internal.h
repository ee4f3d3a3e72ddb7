/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of one run share: run.c (the loop), switches.c (where packets meet), tree.c,
 * deaths.c (what follows deaths), checks.c (what must be true).
 */
#ifndef SML_SIM_RUN_INTERNAL_H
#define SML_SIM_RUN_INTERNAL_H

#include "sim/rank.h"
#include "sim/run.h"
#include "sim/tree.h"

#define SIM_MAX_PLAN 4096

enum { STEP_FREEZE = 0, STEP_BEGIN = 1 };

/* A result that some ranks lacked, on its way to them. */
struct sim_handed {
	uint32_t chunk;
	enum sml_stream_id stream;
	bool *to; /* by rank: it lacks the result */
	uint16_t n_lanes;
	void *lanes;
};

/* Who is next to a switch. */
struct sim_neighbors {
	uint16_t parent; /* of a leaf: its node */
	uint16_t n_children;
	uint16_t children[SML_MAX_CHILDREN]; /* ranks; SIM_IS_LEAF + node: leaves */
};

#define SIM_IS_LEAF 0x8000u

/* One switch of a stripe. It takes an epoch at its own time; before that it is in the last one. */
struct sim_node {
	struct sml_pool pool;
	void *memory;
	bool dead;    /* forgets everything, until it takes an epoch */
	bool is_open; /* it is in an epoch */
	struct sim_neighbors neighbors;
	struct sml_pool_rules next_rules; /* of the newest epoch; no ranks: it is not in the tree */
	struct sim_neighbors next_neighbors;
	struct sim_link up, down; /* of a leaf, to its parent and from there */
	uint64_t absorbed, completed;
	uint64_t busy_until_ns;
};

struct sim_stripe {
	struct sim_node *nodes; /* node 0 is the root */
	struct sim_epoch epoch;
	uint32_t attempt;  /* deaths so far */
	uint32_t n_frozen; /* ranks that have noticed the last death */
	struct sim_handed handed[SIM_MAX_PLAN];
	uint32_t n_handed;
	uint32_t *tables[SML_STREAMS * SIM_MAX_DEATHS];
	uint32_t n_tables;
	uint8_t *completed[SML_STREAMS]; /* by chunk, in this epoch */
};

struct sim_run {
	const struct sim_world *world;
	struct sim_result *result;
	struct sim_network network;
	struct gen gen;
	struct sim_rank *ranks;
	struct sim_stripe *stripes;
	uint32_t n_chunks[SML_STREAMS];
	uint32_t deaths;
	bool worker_died;
	uint64_t died_ns;
	uint64_t at_switches; /* packets that a living switch has seen */
	uint64_t at_ranks;    /* packets that a living rank has seen */
};

/* The run has failed. Only the first failure is kept. */
void sim_fail(struct sim_run *run, const char *what, uint32_t a, uint32_t b);

/* The simulator itself needs this memory: NULL ends the process. */
void *sim_must(void *memory);

/* A time from now, at most this many microseconds later. */
uint64_t sim_later(struct sim_run *run, uint32_t within_us);

/* ---- switches.c ---- */

/* Draw the stripe's next epoch, and begin it at the root. */
void sim_open_epoch(struct sim_run *run, uint32_t index, uint32_t head_slots, uint32_t data_slots);

/* The switch begins the stripe's newest epoch with fresh slots. */
void sim_node_take(struct sim_node *node);

static inline bool sim_node_is_wanted(const struct sim_node *node)
{
	return node->next_rules.n_ranks > 0;
}

/* Set the slots as if they had served all uses before first_use. */
void sim_age_pool(struct sml_pool *pool, uint32_t first_use);

void sim_at_switch(struct sim_run *run, const struct sim_event *event);

/* ---- deaths.c ---- */

void sim_switch_dies(struct sim_run *run, uint32_t death);
void sim_resume_step(struct sim_run *run, const struct sim_event *event);
void sim_leaf_takes(struct sim_run *run, const struct sim_event *event);
void sim_free_handed(struct sim_stripe *stripe);

/* A rank dies. Each other rank learns of it at a different time, and its calls fail. */
void sim_rank_dies(struct sim_run *run, struct sim_rank *rank);
void sim_rank_aborts(struct sim_rank *rank);

/* ---- checks.c ---- */

void sim_count_chunks(struct sim_run *run);

/* finished: all ranks have made all of their calls. */
void sim_check_end(struct sim_run *run, bool finished);

#endif
