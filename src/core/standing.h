/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job has ended, and its ranks go on as members of another one. This file finds which calls of
 * the old job are complete on all of them, and who hands over the results that some of them lack.
 * All members have sent each other their standings, and these functions are pure, so all members
 * come to the same conclusion. tests/model/handover.pml is the model.
 *
 * A call is complete on a rank only if all ranks have contributed to all of it. So if any member
 * has completed a call, all may: what they lack is the last result of its slot on that member
 * (resume.h), or was handed to it when a switch died. If none has, the call has failed on all.
 *
 * Members learn this at their own time, or not at all, if the next job fails, too. What some of
 * them have settled then binds the others when they try again, whoever else has come by then.
 */
#ifndef SML_CORE_STANDING_H
#define SML_CORE_STANDING_H

#include "core/worker.h"

/*
 * A worker holds at most SML_WORKER_TENSORS calls, and takes no other one before its oldest is
 * complete. So no member's first incomplete call comes more than this many after another member's.
 */
#define SML_STANDING_CALLS SML_WORKER_TENSORS

/* What a member reports of a job that it was in: how far it got. */
struct sml_standing {
	uint64_t job; /* the job's number, or 0 if it was in none: then nothing else counts */
	uint64_t kept_bytes; /* how many bytes of results it can hand over (kept.h) */
	uint32_t first;	     /* all calls before this one are complete */
	uint32_t settled;    /* nonzero if it knows already which calls are complete on all */
	uint64_t complete[SML_STANDING_CALLS / 64]; /* bit i is set if call first + i is complete */
};

bool sml_standing_has(const struct sml_standing *standing, uint32_t call);

/* Note that a call is complete. A call too far from first is left out: no member can lack it. */
void sml_standing_add(struct sml_standing *standing, uint32_t call);

/* Who hands over which calls of one job: calls first to first + n_calls - 1. */
struct sml_settlement {
	uint64_t job;
	uint32_t first, n_calls;
	/* For call first + i, 1 plus the index of the standing that has it; 0 if it has failed. */
	uint16_t givers[2 * SML_STANDING_CALLS];
};

/*
 * Settle the job that the standing all[at] is about. Returns false if the members are too far
 * apart, as those of honest members never are.
 */
bool sml_standing_settle(const struct sml_standing *all, unsigned n, unsigned at,
			 struct sml_settlement *settlement);

/* Is the call complete on all members that have not settled it before? */
bool sml_settlement_completes(const struct sml_settlement *settlement, uint32_t call);

/* Does all[at] have results that another member of this job lacks? */
bool sml_settlement_needs(const struct sml_settlement *settlement, const struct sml_standing *all,
			  unsigned n, unsigned at);

#endif
