/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The switches of a tree, from both sides of a connection between two of them.
 *
 *	root        job: all ranks are its members        job/states/job.c
 *	 |branch       ranks at leaves are remote here          branches.c
 *	 |             pool: slots, and children                job/members/pool.c
 *	 |             what leaves say
 *	leaf        proxied peers: their messages go on       leaf.c
 *	 |branch       job: its beginning, probes, ready        job/states/parent.c
 *	 |             pool; what leaves say; the end           as at the root
 *	leaf
 *
 * A leaf knows which ranks are behind it, and nothing else about a job: the root decides.
 */
#ifndef SML_JOB_TREE_BRANCHES_H
#define SML_JOB_TREE_BRANCHES_H

#include "job/members/members.h"

/* Leaves of one switch. Anyone can say that it is one, so there must be an end. */
#define SML_MAX_LEAVES 128

/* A peer says that it is a leaf. */
void sml_branch_message(struct sml_jobs *jobs, struct sml_peer *peer, const SmlControl__Leaf *leaf);

/*
 * Something comes from one of its ranks. Returns the rank if it is a message, which is still to be
 * checked and handled; NULL if there is nothing more to do.
 */
struct sml_remote *sml_branch_relay(struct sml_branch *branch, const SmlControl__Relay *in);

/* A rank's connection has ended, here or at a leaf; or a leaf on its way has died. */
void sml_rank_lost(struct sml_jobs *jobs, struct sml_peer *peer, const char *why, bool leaf_died);

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

/* A leaf's message about a job. May end the job. */
void sml_leaves_message(struct sml_jobs *jobs, const struct sml_branch *branch,
			const SmlControl__Envelope *message);

/* ---- a leaf and its parent (leaf.c) ---- */

/* The peer is the parent: see sml_jobs_attach(). */
void sml_leaf_attach(struct sml_jobs *jobs, struct sml_peer *peer, uint16_t lanes);

/* This leaf did not run for so long: the parent must know before it hears anything else. */
void sml_leaf_was_away(struct sml_jobs *jobs, uint64_t away_ns);

/* A message of a peer that is not the parent. */
void sml_leaf_message(struct sml_jobs *jobs, struct sml_peer *peer,
		      const SmlControl__Envelope *message);
void sml_leaf_parent_message(struct sml_jobs *jobs, const SmlControl__Envelope *message);

/* The proxied peer has gone; or the leaf that it is at. */
void sml_proxied_lost(struct sml_jobs *jobs, struct sml_peer *peer, const char *why,
		      bool leaf_died);

void sml_leaf_parent_lost(struct sml_jobs *jobs, const char *why);

void sml_leaf_tick(struct sml_jobs *jobs);
uint64_t sml_leaf_deadline(const struct sml_jobs *jobs);
void sml_leaf_stop(struct sml_jobs *jobs);

#endif
