/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The leaves of a switch, and the ranks behind them, as data. tree/branches.h decides when they
 * come and go; to job code, a rank at a leaf is a peer like any other.
 */
#ifndef SML_JOB_PEER_BRANCH_H
#define SML_JOB_PEER_BRANCH_H

#include "job/switch.h"

/* Three levels of switches: a root is at level 0. */
#define SML_MAX_LEVEL 2

/*
 * A leaf that does not say what its slots wait for is waited for so long. Each level has more time
 * than the one below it, so that its answer still comes.
 */
#define SML_ANSWER_NS 100000000ull

/* A leaf of this switch. */
struct sml_branch {
	struct sml_jobs *jobs;
	struct sml_branch *next;
	struct sml_switch_link link; /* its ranks are struct sml_remote */
	char name[SML_NAME_BYTES];
	uint32_t slots, slots_in_use; /* its own; by jobs that this switch gave it */
	uint32_t n_unread;	      /* ranks that came since it last read what it was sent */
	bool is_logged;
};

/* A rank at a leaf, as if it were connected here. */
struct sml_remote {
	struct sml_numbered key;
	struct sml_peer peer;
	struct sml_remote *next_ended;
	bool ended;
	char at[SML_NAME_BYTES]; /* the name of the switch that it is connected to */
	/* The least on its way here, as its leaf said with its Join. */
	uint32_t slots, lanes;
	uint64_t home;	    /* equal: connected to the same switch */
	bool only_integers; /* a leaf on the way adds no lanes of floats */
};

static inline struct sml_remote *sml_remote_of(const struct sml_peer *peer)
{
	return (struct sml_remote *)((uintptr_t)peer - offsetof(struct sml_remote, peer));
}

/* The leaf of this switch that the peer is behind; NULL if it is connected here. */
static inline struct sml_branch *sml_peer_via(const struct sml_peer *peer)
{
	return peer != NULL ? peer->via : NULL;
}

/* The slots that are free on its way here. */
static inline uint32_t sml_remote_slots(const struct sml_remote *remote)
{
	const struct sml_branch *branch = remote->peer.via;
	uint32_t free =
		branch->slots > branch->slots_in_use ? branch->slots - branch->slots_in_use : 0;

	return remote->slots < free ? remote->slots : free;
}

static inline bool sml_jobs_is_leaf(const struct sml_jobs *jobs)
{
	return jobs->config.parent != NULL;
}

/* How long this switch waits for what the slots of its leaves wait for. */
static inline uint64_t sml_answer_ns(const struct sml_jobs *jobs)
{
	return (SML_MAX_LEVEL - (uint64_t)jobs->leaf.level) * SML_ANSWER_NS;
}

#endif
