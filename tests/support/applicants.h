/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes that ask a switch of support/jobs.h to be members of the job "train". */
#ifndef SML_TESTS_APPLICANTS_H
#define SML_TESTS_APPLICANTS_H

#include "support/jobs.h"

/* A rank of a job; tag 0: none. */
struct jobs_past_rank {
	uint64_t tag;
	uint32_t rank, world_size;
	bool unseen; /* it was not told that the job has begun */
};

struct jobs_apply {
	struct jobs_past_rank newest, older;
	uint32_t min_ranks, max_ranks, number;
	uint32_t shards; /* 0: it does not matter */
	enum sml_wire wire;
	uint64_t time_ns; /* by its own clock; 0: now */
	uint64_t process; /* 0: that which has this place, or another for each peer */
	const char *job;  /* NULL: "train" */
	uint32_t behind;  /* the peer is a leaf, and this the rank's number there; 0: it is none */
};

/* It waits for the others for a second, and for its job for a minute. */
void jobs_apply(unsigned peer, struct jobs_apply ask);

/* A new process asks. */
void jobs_apply_as_new(unsigned peer);

/* Opens a switch on which "train" runs with this many ranks, peers 0, 1, …. Returns its tag. */
uint64_t jobs_open_running(uint32_t world_size);

/*
 * Opens a switch on which "train" ran with three ranks, of which 0 and 1 were then admitted, as
 * peers 10 and 11, to a membership that failed before it ran. If `third_dies`, rank 2 died before
 * they asked; otherwise, it did not ask in time. Gives the tags of both memberships.
 */
void jobs_form_in_vain(bool third_dies, uint64_t tags[2]);

/* Peers first, first + 1, … are ranks 0, 1, … of "train", which runs. Returns its tag. */
uint64_t jobs_run(unsigned first, uint32_t world_size);

/* Rank `rank` of such a job with that tag. */
struct jobs_apply jobs_was(uint64_t tag, uint32_t rank, uint32_t world_size);

/* Returns the decision that the switch sent to this peer, or NULL if it sent none. */
const SmlControl__Decision *jobs_decision(unsigned peer);

/* Checks that the peer is this rank of world_size, in the membership with this number. */
void jobs_assert_decided(unsigned peer, uint32_t number, uint32_t rank, uint32_t world_size);

#endif
