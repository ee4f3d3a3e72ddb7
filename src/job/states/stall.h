/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a job, for members that ask and for its end: see stall.c. */
#ifndef SML_JOB_STATES_STALL_H
#define SML_JOB_STATES_STALL_H

#include "job/members/job.h"

/* The member's call does not end: send it what slots are waiting for, but not too often. */
void sml_job_send_stalls(struct sml_job *job, struct sml_member *member);

/*
 * Ranks, or the parent of a leaf, want to know what slots at leaves wait for: they are told when
 * all leaves have answered, or when it took too long.
 */
void sml_job_look_for_answers(struct sml_job *job);

/* Ask all leaves: sml_job_look_for_answers() when they have answered. */
void sml_job_query_leaves(struct sml_job *job);

/*
 * Ask a rank, if it is here, what its slots are waiting for; unless it owes an answer to an earlier
 * question, because a rank may ask others as often as it likes.
 */
void sml_job_query_member(const struct sml_job *job, struct sml_member *member);

/* A rank reports what its slots are waiting for: pass it to those who have asked. */
void sml_job_pass_stalls(struct sml_job *job, uint16_t from, const SmlControl__StallReport *in);

/*
 * The job has failed: send every member the error with what slots are waiting for, and end the
 * connections.
 */
void sml_job_abort_all(struct sml_job *job, int error, const char *text);

#endif
