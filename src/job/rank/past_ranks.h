/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which ranks of which jobs a process has been. The switch that decides on a job's next members
 * (job/join/decide.c) learns from this who asks. Of one thread at a time.
 */
#ifndef SML_JOB_RANK_PAST_RANKS_H
#define SML_JOB_RANK_PAST_RANKS_H

#include <stdbool.h>
#include <stdint.h>

#include "control.pb-c.h"
#include "job/common/ranks.h"
#include "job/rank/session.h"

/* A rank of a job, as the switch knows it: a PastRank in the protocol. */
struct sml_past_rank {
	uint64_t tag; /* of its last epoch; 0 if there is none */
	uint16_t rank, world_size;
	bool ran; /* this rank knows that it has begun */
};

struct sml_past_ranks {
	/* The last membership that this rank was admitted to, and the last one that has begun. */
	struct sml_past_rank admitted, ran;
	/* Of the latter: the ranks that the caller's list for the next one has; none: not said. */
	struct sml_ranks members;
	uint32_t decisions; /* the highest number of a decision that this rank was told */
};

/* This rank was admitted, or its job has begun, which `ran` says. */
void sml_past_ranks_note(struct sml_past_ranks *past, const struct sml_past_rank *was);

/* The switch has decided. */
void sml_past_ranks_note_decision(struct sml_past_ranks *past, const struct sml_decided *decided);

/* An Ask and all that it points to. */
struct sml_membership_request {
	SmlControl__Ask ask;
	SmlControl__PastRank past_ranks[2], *list[2];
	uint8_t members[SML_RANKS_BYTES];
};

/* Write who asks. The rest of the message is the caller's to set. */
void sml_past_ranks_request(const struct sml_past_ranks *past, struct sml_membership_request *ask);

#endif
