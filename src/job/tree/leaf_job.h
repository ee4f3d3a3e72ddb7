/* SPDX-License-Identifier: BSD-3-Clause */
/* A job at a leaf: the peers whose messages go on to the parent, its beginning and its end. */
#ifndef SML_JOB_TREE_LEAF_JOB_H
#define SML_JOB_TREE_LEAF_JOB_H

#include "job/common/waits.h"
#include "job/peer/branch.h"

/* At a leaf: a peer, here or at a leaf of this one, whose messages go on to the parent. */
struct sml_proxied {
	struct sml_numbered key;
	struct sml_peer *peer;
	struct sml_leaf_job *job;     /* NULL if it has not been admitted */
	uint16_t rank, first_of_host; /* of its host: the lowest rank that shares memory with it */
	uint8_t child;
	bool resumes;
	uint32_t pid, heartbeat_ms;
	uint32_t stripe, stripes; /* as it said with its Join; only to be shown */
	char host[SML_NAME_BYTES];
};

struct sml_leaf_job {
	struct sml_jobs *jobs;
	struct sml_leaf_job *next_over; /* once it is over */
	char name[SML_NAME_BYTES];
	struct sml_pool_rules rules;
	uint32_t world_size;
	uint16_t data_port; /* the parent's */
	bool has_slots;	    /* false: the slots of ended jobs are not free yet */
	bool started, ready;
	uint8_t n_children;
	struct {
		struct sml_branch *branch; /* a leaf; NULL for a rank, or ranks of one host */
		struct sml_ranks ranks;	   /* behind it */
		uint16_t first_rank, n_ranks, first_of_host;
		bool has_job; /* the leaf, so the job holds slots there */
		bool ready, answered;
		uint32_t lanes;
		struct sml_waits waits; /* as a leaf last said */
	} children[SML_MAX_CHILDREN];
	uint64_t begun_ns, probed_ns, answered_ns, slots_requested_ns, tries_again_ns;
	/* Do the parent's results come? As of the last look; see core/renewal.h. */
	struct {
		uint64_t looked_ns, sent_again, results;
		uint32_t n_silent, number;
	} renewal;
	uint32_t rounds;
	bool slots_requested;
};

static inline uint32_t sml_leaf_job_slots(const struct sml_leaf_job *job)
{
	return (uint32_t)job->rules.head_slots + job->rules.data_slots;
}

void sml_leaf_job_begin(struct sml_jobs *jobs, const SmlControl__LeafJob *in);
struct sml_leaf_job *sml_leaf_job_find(const struct sml_jobs *jobs, uint32_t number);
bool sml_leaf_job_runs(const struct sml_leaf_job *job);

/*
 * The ends of a job here, as in job/states/end.h: true, the job is over, and its memory lasts until
 * the input has been handled. how, planned: for the logs of this switch and of its leaves, as in
 * the LeafEnd of control.proto. It fails if it cannot be served here, and the parent is told.
 */
bool sml_leaf_job_end(struct sml_leaf_job *job, const char *how, bool planned);
bool sml_leaf_job_fail(struct sml_leaf_job *job, int error, const char *text, bool again);

/* Free the jobs that are over. Between two inputs. */
void sml_leaf_jobs_sweep(struct sml_jobs *jobs);

/* Are the slots of ended jobs free now? False if the job has failed, and the parent knows why. */
bool sml_leaf_job_try_slots(struct sml_leaf_job *job);

/* The proxied peer, or the branch, is about to go. */
void sml_leaf_job_forget(struct sml_proxied *proxied);
void sml_leaf_job_forget_branch(struct sml_leaf_job *job, const struct sml_branch *branch);

#endif
