/* SPDX-License-Identifier: BSD-3-Clause */
/* A leaf and its parent: see leaf.c. */
#ifndef SML_JOB_TREE_LEAF_H
#define SML_JOB_TREE_LEAF_H

#include "job/peer/branch.h"

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

#endif
