/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The switches of a tree, from both sides of a connection between two of them.
 *
 *	root        job: all ranks are its members        job/states/job.c
 *	 |branch       ranks at leaves are remote here          branches.c
 *	 |             pool: slots, and children                job/members/pool.c
 *	 |             what leaves say                          leaves.c
 *	leaf        proxied peers: their messages go on       leaf.c
 *	 |branch       job: its beginning                       leaf_job.c
 *	 |             probes, ready, time                      job/states/parent.c
 *	 |             pool; what leaves say; the end           as at the root
 *	leaf
 *
 * A leaf knows which ranks are behind it, and nothing else about a job: the root decides.
 */
#ifndef SML_JOB_TREE_BRANCHES_H
#define SML_JOB_TREE_BRANCHES_H

#include "job/members/job.h"

/* Leaves of one switch. Anyone can say that it is one, so there must be an end. */
#define SML_MAX_LEAVES 128

/* A peer says that it is a leaf. */
void sml_branch_message(struct sml_jobs *jobs, struct sml_peer *peer, const SmlControl__Leaf *leaf);

/*
 * Something comes from one of its ranks. Returns the rank if it is a message, which is still to be
 * checked and handled; NULL if there is nothing more to do.
 */
struct sml_remote *sml_branch_relay(struct sml_branch *branch, const SmlControl__Relay *in);

/* The rank has broken the protocol, so its connection ends. */
void sml_remote_drop(struct sml_remote *remote, const char *why);

/* Its connection has ended. Jobs that use it end, or look for their switches again. */
void sml_branch_lost(struct sml_branch *branch, const char *why);

/*
 * Close the connection of a leaf, with a message or without; and close those of leaves that have
 * been silent for too long.
 */
void sml_branch_close(struct sml_branch *branch, const char *why);

/* Close the oldest leaf without ranks and slots. Returns false if there is none. */
bool sml_branches_close_idle(struct sml_jobs *jobs);

void sml_branches_tick(struct sml_jobs *jobs);
uint64_t sml_branches_deadline(const struct sml_jobs *jobs);

/* ---- what the leaves of a job say and suffer (leaves.c) ---- */

/* A leaf is about to go. May end the job. */
void sml_leaves_forget(struct sml_job *job, const struct sml_branch *branch, const char *why);

/* A leaf's message about a job. May end the job. */
void sml_leaves_message(struct sml_jobs *jobs, const struct sml_branch *branch,
			const SmlControl__Envelope *message);

#endif
