/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job has ended, and its ranks go on as members of another one: which of its calls are complete
 * on all of them, and who hands over the results that some of them lack. Pure functions of what
 * all members have told each other, so all come to the same conclusion. tests/model/handover.pml
 * is the model.
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

/* What a member tells of a job that it was in: how far it is. */
struct sml_standing {
	uint64_t job;	     /* 0: none; the other members are not meant */
	uint64_t kept_bytes; /* of results that it can hand over: kept.h */
	uint32_t first;	     /* all calls before this one are complete */
	uint32_t settled;    /* it has learned before which calls are complete on all */
	uint64_t complete[SML_STANDING_CALLS / 64]; /* bit i: call first + i */
};

bool sml_standing_has(const struct sml_standing *standing, uint32_t call);

/* The call is complete. One that is too far away is left out: no other member can lack it. */
void sml_standing_add(struct sml_standing *standing, uint32_t call);

/* Who hands over which calls of one job. */
struct sml_settlement {
	uint64_t job;
	uint32_t first, n_calls;
	/* Of call first + i, 1 plus the place of the standing that has it; 0: it has failed. */
	uint16_t givers[2 * SML_STANDING_CALLS];
};

/*
 * Of the job that all[at] is of. False: honest members are not so far apart.
 */
bool sml_standing_settle(const struct sml_standing *all, unsigned n, unsigned at,
			 struct sml_settlement *settlement);

/* Is the call complete on all members that have not settled it before? */
bool sml_settlement_completes(const struct sml_settlement *settlement, uint32_t call);

/* Does all[at] have results that another member of this job lacks? */
bool sml_settlement_needs(const struct sml_settlement *settlement, const struct sml_standing *all,
			  unsigned n, unsigned at);

#endif
