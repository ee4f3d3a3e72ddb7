/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The switches of a tree, from both sides of a connection between two of them.
 *
 *	root        job: all ranks are its members        job/states/job.c, leaves.c
 *	 |branch          ranks at leaves are relayed peers       branches.c
 *	 |
 *	leaf        passages: peers whose messages go on        leaf.c
 *	 |branch       job: slots and their children              leaf_job.c
 *	 |                probes, ready, time                        leaf_run.c
 *	 |                what slots wait for                        leaf_slots.c
 *	leaf
 *
 * A leaf knows which ranks are behind it, and nothing else about a job: the root decides.
 */
#ifndef SML_JOB_TREE_BRANCHES_H
#define SML_JOB_TREE_BRANCHES_H

#include "job/states/job.h"

/* Leaves of one switch. Anyone can say that it is one, so there must be an end. */
#define SML_MAX_LEAVES 128

/* At a leaf: a peer, here or at a leaf of this one, whose messages go on to the parent. */
struct sml_passage {
	struct sml_numbered key;
	struct sml_peer *peer;
	struct sml_leaf_job *job;     /* NULL: it has not been admitted */
	uint16_t rank, first_of_host; /* of its host: the lowest rank that shares memory with it */
	uint8_t child;
	bool resumes;
	uint32_t pid, heartbeat_ms;
	uint32_t stripe, stripes; /* as it said with its Join; only to be shown */
	char host[SML_NAME_BYTES];
};

/* ---- leaves of this switch (branches.c) ---- */

/* Somebody says that it is a leaf. */
void sml_branch_message(struct sml_jobs *jobs, struct sml_peer *peer, const SmlControl__Leaf *leaf);

/*
 * Something comes from one of its ranks. Returns the rank if it is a message, which is still to be
 * checked and handled; NULL if there is nothing more to do.
 */
struct sml_relayed *sml_branch_relay(struct sml_branch *branch, const SmlControl__Relay *in);

/* The rank breaks the protocol: its connection ends. */
void sml_relayed_drop(struct sml_relayed *relayed, const char *why);

/* Its connection has ended. Jobs that use it end, or look for their switches again. */
void sml_branch_lost(struct sml_branch *branch, const char *why);

/* Give it up, with a message or without; and those that have been silent for too long. */
void sml_branch_close(struct sml_branch *branch, const char *why);
void sml_branches_tick(struct sml_jobs *jobs);
uint64_t sml_branches_deadline(const struct sml_jobs *jobs);

/*
 * Silence of a leaf, or of a parent, that means death: half of a rank's. A rank sends four messages
 * in its heartbeat, so a rank was last heard at most a quarter of it before its leaf.
 */
uint64_t sml_branch_patience_ns(uint32_t heartbeat_ms);

/* ---- a leaf and its parent (leaf.c) ---- */

/* The peer is the parent: see sml_jobs_attach(). */
void sml_leaf_attach(struct sml_jobs *jobs, struct sml_peer *peer, uint16_t lanes);

/* A message of a peer that is not the parent. */
void sml_leaf_message(struct sml_jobs *jobs, struct sml_peer *peer,
		      const SmlControl__Envelope *message);
void sml_leaf_parent_message(struct sml_jobs *jobs, const SmlControl__Envelope *message);

/* The passage's peer has gone; or the leaf that it is at. */
void sml_passage_lost(struct sml_jobs *jobs, struct sml_peer *peer, const char *why,
		      bool leaf_died);

/* A rank that waits for others here, and does not resume, makes room. False: there is none. */
bool sml_leaf_displace(struct sml_jobs *jobs);

void sml_leaf_parent_lost(struct sml_jobs *jobs, const char *why);

void sml_leaf_tick(struct sml_jobs *jobs);
uint64_t sml_leaf_deadline(const struct sml_jobs *jobs);
void sml_leaf_stop(struct sml_jobs *jobs);

/* ---- a job at a leaf: its beginning and its end (leaf_job.c) ---- */

struct sml_leaf_job {
	struct sml_jobs *jobs;
	char name[SML_NAME_BYTES];
	struct sml_pool_rules rules;
	uint32_t world_size;
	uint16_t data_port; /* the parent's */
	bool has_slots;	    /* false: the slots of ended jobs are not free yet */
	bool started, ready;
	uint8_t n_children;
	struct {
		struct sml_branch *branch; /* a leaf; NULL: a rank, or ranks of one host */
		struct sml_ranks ranks;	   /* behind it */
		uint16_t first_rank, n_ranks, first_of_host;
		bool has_job; /* the leaf, so the job holds slots there */
		bool ready, answered;
		uint32_t lanes;
		struct sml_waits waits; /* as a leaf last said */
	} children[SML_MAX_CHILDREN];
	uint64_t begun_ns, probed_ns, answered_ns, slots_asked_ns, tries_again_ns;
	/* Do the parent's results come? As of the last look; see core/renewal.h. */
	struct {
		uint64_t looked_ns, sent_again, results;
		uint32_t n_silent, number;
	} renewal;
	uint32_t rounds;
	bool slots_asked;
};

static inline uint32_t sml_leaf_job_slots(const struct sml_leaf_job *job)
{
	return (uint32_t)job->rules.head_slots + job->rules.data_slots;
}

void sml_leaf_job_begin(struct sml_jobs *jobs, const SmlControl__LeafJob *in);
void sml_leaf_job_end(struct sml_leaf_job *job);
struct sml_leaf_job *sml_leaf_job_find(const struct sml_jobs *jobs, uint32_t number);
bool sml_leaf_job_runs(const struct sml_leaf_job *job);

/* The job cannot be served here. It is gone. */
void sml_leaf_job_fail(struct sml_leaf_job *job, int error, const char *text, bool again);

/* Are the slots of ended jobs free now? False: the job has failed, and the parent knows why. */
bool sml_leaf_job_try_slots(struct sml_leaf_job *job);

/* The passage, or the branch, is about to go. */
void sml_leaf_job_forget(struct sml_passage *passage);
void sml_leaf_job_forget_branch(struct sml_leaf_job *job, const struct sml_branch *branch);

/* ---- between the two (leaf_run.c) ---- */

/* The root's Admitted for this rank gets this switch's numbers. */
void sml_leaf_job_admit(const struct sml_passage *passage, SmlControl__Admitted *admitted);

/* Is its path known? False: the job has failed, and the parent knows why. */
bool sml_leaf_job_is_ready(struct sml_passage *passage, const SmlControl__Ready *ready);

/* It gets no results here, and its address may be another one. */
void sml_leaf_job_renew_rank(const struct sml_passage *passage, const SmlControl__Renew *in);

void sml_leaf_job_start(struct sml_jobs *jobs, uint32_t number);

/* A message of a leaf of this leaf about a job. */
void sml_leaf_job_branch_message(struct sml_jobs *jobs, struct sml_branch *branch,
				 const SmlControl__Envelope *message);

/* The job may fail. */
void sml_leaf_job_tick(struct sml_leaf_job *job);
uint64_t sml_leaf_job_deadline(const struct sml_leaf_job *job);

/* ---- what its slots wait for, and mismatches (leaf_slots.c) ---- */

/* Tell the parent: one that the dataplane has found, or one that a leaf of this leaf reports. */
void sml_leaf_job_mismatch(struct sml_jobs *jobs, const struct sml_mismatch *mismatch);
void sml_leaf_job_pass_mismatch(struct sml_leaf_job *job, unsigned child,
				SmlControl__LeafMismatch *in);

/* The parent asks what slots wait for. The leaves of this leaf are asked first. */
void sml_leaf_job_tell_slots(struct sml_jobs *jobs, uint32_t number);
void sml_leaf_job_take_slots(struct sml_leaf_job *job, unsigned child,
			     const SmlControl__LeafSlots *in);

/* When the answer is due, and the answer without the leaves that have not answered. */
uint64_t sml_leaf_job_slots_due(const struct sml_leaf_job *job);
void sml_leaf_job_send_known_slots(struct sml_leaf_job *job);

#endif
