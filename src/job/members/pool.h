/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job's slots at this switch, and its children there: see pool.c. It is the same at a root, at a
 * leaf, and in rank 0's process, where the ranks have the slots.
 */
#ifndef SML_JOB_MEMBERS_POOL_H
#define SML_JOB_MEMBERS_POOL_H

#include "job/common/waits.h"
#include "job/peer/peer.h"
#include "job/switch.h"

/* What a dataplane knows as one rank: a rank, ranks that share memory, or those behind a leaf. */
struct sml_child {
	uint16_t first_rank, n_ranks;
	uint16_t first_of_host;	   /* of ranks that share memory; of a rank alone, itself */
	struct sml_branch *branch; /* a leaf, NULL once it is gone; NULL for ranks */
	struct sml_ranks ranks;	   /* behind it */
	bool ready;
	uint32_t lanes;		/* once ready: that its path carries */
	bool has_job;		/* it is a leaf, and serves the job */
	struct sml_waits waits; /* which of its ranks the leaf's slots wait for, as it last said */
	bool asked;		/* it was asked for its waits, and the answer is due */
	bool answered;		/* waits is its answer, and recent enough to blame ranks by it */
	bool silent;		/* it did not answer in time, and has sent none since */
	uint64_t asked_ns;	/* when it was asked last */
};

struct sml_job_pool {
	struct sml_pool_rules rules;
	bool has_slots, started; /* the dataplane has the job; and takes contributions */
	bool has_reserve;	 /* the slots that the rules name are its own */
	uint64_t tries_again_ns; /* to add it: the slots of ended jobs are not free yet; or 0 */
	uint8_t n_children, n_leaves, n_leaves_ready;
	bool adds_parts; /* some of several children stand for several ranks */
	struct sml_child children[SML_MAX_CHILDREN];
	bool leaves_queried; /* for somebody who is not told yet */
};

/* How many slots the rules name. */
static inline uint32_t sml_job_pool_slots(const struct sml_job_pool *pool)
{
	return (uint32_t)pool->rules.head_slots + pool->rules.data_slots;
}

/* All ranks that are behind this switch, n_behind, are behind its children: draw their cookies. */
void sml_job_pool_draw(struct sml_job_pool *pool, unsigned n_behind);

/* Of all jobs that have begun here: children that share the dataplane's buffers. */
uint32_t sml_job_pools_children(const struct sml_jobs *jobs);

/* Add the job to the dataplane. Returns 0 or a negative errno. */
int sml_job_pool_add(struct sml_job_pool *pool);
/* Start it there and at its leaves. If that fails, returns false, and the text says why. */
bool sml_job_pool_start(struct sml_job_pool *pool, char *text, size_t bytes);
/* End it there, if it has begun. how, planned: for the logs of leaves, as in an Abort. */
void sml_job_pool_end(struct sml_job_pool *pool, const char *how, bool planned);

/* The child that is this leaf, or NULL. */
struct sml_child *sml_job_pool_leaf(struct sml_job_pool *pool, const struct sml_branch *branch);

/* The leaf is about to go. Returns whether it was a child. */
bool sml_job_pool_forget(struct sml_job_pool *pool, const struct sml_branch *branch);

/* The ranks that disagree, for a dataplane's report on children. False: there are no such children.
 */
bool sml_job_pool_name_ranks(const struct sml_job_pool *pool, struct sml_mismatch *mismatch);

/* As the dataplane's operations; an address is renewed only once the job has started. */
const char *sml_job_pool_misses_address(const struct sml_job_pool *pool, unsigned child);
void sml_job_pool_renew(const struct sml_job_pool *pool, unsigned child, uint32_t shard,
			uint32_t number);

/* Zeroed counters stay so where nothing is counted. */
void sml_job_pool_count(const struct sml_job_pool *pool, struct sml_job_counters *counters);

/* ---- what slots wait for ---- */

/* Ask the leaves that have not been asked what their slots wait for. */
void sml_job_pool_ask(struct sml_job_pool *pool);

/* A leaf has answered. */
void sml_job_pool_note_answer(const struct sml_job_pool *pool, struct sml_child *child,
			      const SmlControl__StallReport *in);

/*
 * If leaves are queried: when the last answer is due; UINT64_MAX: nobody waits. And whether the
 * query is over; then it is forgotten, and what late leaves said before counts no more.
 */
uint64_t sml_job_pool_answers_due(const struct sml_job_pool *pool);
bool sml_job_pool_is_answered(struct sml_job_pool *pool);

/* What all slots wait for, here and at leaves. False: no memory; then fini is not needed. */
bool sml_job_pool_look(const struct sml_job_pool *pool, struct sml_waits *waits);

#endif
