/* SPDX-License-Identifier: BSD-3-Clause */
/* A leaf and its parent: see leaf.c; and how its jobs begin: see leaf_job.c. */
#ifndef SML_JOB_TREE_LEAF_H
#define SML_JOB_TREE_LEAF_H

#include "job/members/job.h"

/*
 * At a leaf: a peer, here or at a leaf of this one, whose messages go on to the parent. Its job and
 * rank are the peer's.
 */
struct sml_proxied {
	struct sml_numbered key;
	/* As it said with its Join. */
	bool resumes;
	uint32_t pid, stripe, stripes;
	char host[SML_NAME_BYTES];
};

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

/*
 * Close the connection of a rank that waits for others here, and does not resume. Returns false if
 * there is none.
 */
bool sml_leaf_displace(struct sml_jobs *jobs);

void sml_leaf_parent_lost(struct sml_jobs *jobs, const char *why);

void sml_leaf_tick(struct sml_jobs *jobs);
uint64_t sml_leaf_deadline(const struct sml_jobs *jobs);
void sml_leaf_stop(struct sml_jobs *jobs);

/* ---- leaf_job.c ---- */

/* The parent gives this leaf a job; it may not begin, and then the parent is told. */
void sml_leaf_job_begin(struct sml_jobs *jobs, const SmlControl__Admitted *in);

/* The root's Admitted for this rank of a job gets this switch's numbers. */
void sml_leaf_job_admit(const struct sml_peer *peer, SmlControl__Admitted *admitted);

#endif
