/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loaded XDP program and the user-space pool, with the same job: packets of its ranks, and what
 * the program does with them through BPF_PROG_TEST_RUN. For cmocka tests.
 */
#ifndef SML_TESTS_XDP_PAIR_H
#define SML_TESTS_XDP_PAIR_H

#include "core/pool.h"
#include "support/xdp_run.h"
#include "switch/xdp/maps.h"

#define PAIR_JOB	0x1234507u
#define PAIR_HEAD_SLOTS 2
#define PAIR_DATA_SLOTS 3
/* Of leaves; as switches do not: the parent's number of the job is another one. */
#define PAIR_PARENT_JOB	 0x4321042u
#define PAIR_PARENT_HOST 200

extern struct pair {
	struct sml_pool pool;
	void *memory;
	struct frame_wrapping wrappings[SML_MAX_CHILDREN + 1]; /* and SML_XDP_PARENT's */
	struct sml_job_counters counted;		       /* by the test */
	uint32_t uses[SML_MAX_CHILDREN][PAIR_HEAD_SLOTS + PAIR_DATA_SLOTS];
} pair;

extern struct sml_xdp_maps *pair_maps;
extern uint64_t pair_seed;

/* For main(): load the program, whose cleaner runs. Exits with 77 if BPF is not permitted. */
void pair_load(void);

uint32_t pair_draw(uint32_t below);

/* Add a job that has not started, and has heard of all its ranks. */
void pair_add(uint8_t n_ranks, uint16_t lanes, uint8_t n_shards, bool is_leaf);

/* A job that has started; of a leaf, which has heard of its parent. */
void pair_open(uint8_t n_ranks, uint16_t lanes, uint8_t n_shards);
void pair_open_leaf(uint8_t n_ranks, uint16_t lanes, uint8_t n_shards);
void pair_close(void);

/* Let the program learn the address of a leaf's parent. */
void pair_learn_parent(void);

void pair_run(const uint8_t *frame, uint32_t bytes, struct xdp_outcome *out);

/* The kernel must have counted one more of exactly this verdict. */
void pair_assert_counted(struct sml_xdp_totals *before, uint32_t fate);

/*
 * Frames, and their lengths. A renewal is a probe with a number; a reply is the parent's answer to
 * a leaf's probe, as of any host.
 */
uint32_t pair_contribution(uint8_t rank, uint8_t *frame);
uint32_t pair_probe(uint8_t rank, uint8_t shard, uint8_t *frame);
uint32_t pair_renewal(uint8_t rank, uint8_t shard, uint32_t number, uint8_t *frame);
uint32_t pair_reply(const struct frame_wrapping *host, uint8_t shard, uint8_t *frame);

#endif
