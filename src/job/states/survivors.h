/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks of a job that has ended, which may go on in its next membership: see survivors.c. */
#ifndef SML_JOB_STATES_SURVIVORS_H
#define SML_JOB_STATES_SURVIVORS_H

#include "job/members/job.h"

/*
 * The job fails, and the peer, which is this rank of it, has been told: keep its connection. If the
 * rank cannot be in a next membership, returns false and does nothing; the caller then ends the
 * connection.
 */
bool sml_survivor_stays(const struct sml_job *job, struct sml_peer *peer, uint16_t rank);

/* It says that it goes on, and its connection may end. Nothing if it is no survivor. */
void sml_survivor_goes_on(struct sml_jobs *jobs, struct sml_peer *peer);

/* Its connection has ended, without a word: the others need not wait for it. */
void sml_survivor_lost(struct sml_jobs *jobs, struct sml_peer *peer);

/* A rank of the job with this tag waits for others until then: so long, its survivors count. */
void sml_survivors_await(struct sml_jobs *jobs, uint64_t tag, uint64_t until_ns);

/* End the connection that has stayed longest. Returns false if there is none. */
bool sml_survivors_make_room(struct sml_jobs *jobs);

/* This switch was away. The ends of those who may have given it up prove nothing. */
void sml_survivors_doubt(struct sml_jobs *jobs, uint64_t away_ns);

uint64_t sml_survivors_deadline(const struct sml_jobs *jobs);
void sml_survivors_tick(struct sml_jobs *jobs);
void sml_survivors_stop(struct sml_jobs *jobs);

#endif
