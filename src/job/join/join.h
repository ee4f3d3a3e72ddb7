/* SPDX-License-Identifier: BSD-3-Clause */
/* Joining: see join.c; and what else a process that comes needs. */
#ifndef SML_JOB_JOIN_JOIN_H
#define SML_JOB_JOIN_JOIN_H

#include "job/join/applicants.h"
#include "job/join/terms.h"
#include "job/members/job.h"
#include "job/switch.h"

/* A worker asks to join. May refuse it, or fail a whole job. */
void sml_job_join(struct sml_jobs *jobs, struct sml_peer *peer, const SmlControl__Join *join);

/* Continue a join when it is certain which rank of which job the peer is. */
void sml_job_join_as(struct sml_jobs *jobs, struct sml_peer *peer, const SmlControl__Join *join);

/*
 * Makes a job of these terms that is not in the list of the switch's jobs. The caller frees the job
 * and its members.
 */
struct sml_job *sml_job_with_terms(struct sml_jobs *jobs, const SmlControl__Join *join);

/* ---- room for those who come (room.c) ---- */

/*
 * Whether there is a file descriptor for one more peer that stays. If not, the peer has been
 * refused. join is the peer's message; NULL if the peer is a leaf. Other peers may be closed to
 * make room (job/join/room.c).
 */
bool sml_jobs_has_room_for_member(struct sml_jobs *jobs, struct sml_peer *peer,
				  const SmlControl__Join *join);

/*
 * Closes the peer with the least priority. Returns false if there is none of this kind, or if no
 * rank resumes.
 */
bool sml_jobs_displace(struct sml_jobs *jobs, const SmlControl__Join *join);

/*
 * ---- which rank of which job a process was (past_ranks.c) ----
 *
 * It says so when it goes on in another membership (sml_reconfigure()). Only a job's ranks and this
 * switch know its tag.
 */

/*
 * Returns the rank that counts, of those that a process names, newest first: its rank in the
 * newest job, unless this switch knows that the job never ran. NULL if none counts. Ends what still
 * waits here for that process, and sets *before to how that job ended here, or to NULL if that is
 * not known.
 */
const SmlControl__PastRank *sml_past_rank_that_counts(struct sml_jobs *jobs, uint64_t process,
						      SmlControl__PastRank *const *past_ranks,
						      size_t n, struct sml_failed_job **before);

/* Whether the process is in a job that the switch decided on because it asked after this. */
bool sml_ask_was_decided_on(const struct sml_jobs *jobs, const struct sml_asked *asked);

/*
 * ---- ranks that disagree about their job (disagreement.c) ----
 *
 * They all get the same error, in whatever order they come. The switch keeps the last such error
 * for those that have not come yet.
 */

/* A launcher starts its ranks within this time. */
#define SML_TURNED_AWAY_NS (10 * SML_SECOND_NS)

/*
 * job's members, and the newcomer, get the error now. Either may be NULL: the newcomer is the first
 * that has come, or a member is the one that disagrees.
 */
void sml_disagreement_note(struct sml_jobs *jobs, const struct sml_job *job,
			   const SmlControl__Join *newcomer, const struct sml_refusal *refusal);

/*
 * The rank comes too late to a job whose ranks disagreed: it gets their error. Whoever comes again
 * after the error is of the next run.
 */
bool sml_disagreement_recall(struct sml_jobs *jobs, const SmlControl__Join *join,
			     struct sml_refusal *refusal);

/* ---- the switch decides who the members of the next membership are (decide.c) ---- */

/* Room for " #" and a decision's number, behind the job's name. */
#define SML_DECISION_BYTES 12

extern const char sml_too_late[]; /* to a rank that asks after the decision */

/* Decide on all jobs for which that is due, or whose ranks have all asked. */
void sml_decide(struct sml_jobs *jobs);

/*
 * The same, when the connection of a rank of a job that had failed has ended. Jobs that wait for it
 * end.
 */
void sml_decide_without(struct sml_jobs *jobs, struct sml_peer *survivor);

/* Send an applicant the ranks of its last job that have not asked. */
void sml_applicant_notify(struct sml_jobs *jobs, struct sml_applicant *applicant);

/* ---- a program has named the members, as ranks of the job that they have left (listed.c) ---- */

/* The rank of this job was in that place. NULL: in none that counts. */
void sml_listed_note(struct sml_job *job, uint16_t rank, const SmlControl__PastRank *past);

/* Ends the job if it waits for a rank that has gone. True: it is over. */
bool sml_listed_misses(struct sml_job *job);

/* The same, once it is time to miss ranks that had gone, and might have come back. */
bool sml_listed_tick(struct sml_job *job);

#endif
