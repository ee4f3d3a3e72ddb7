/* SPDX-License-Identifier: BSD-3-Clause */
/* Joining: which job a process means, its terms and room; and those who ask to be members. */
#ifndef SML_JOB_JOIN_JOIN_H
#define SML_JOB_JOIN_JOIN_H

#include "job/members/members.h"

/* A worker asks to join. May refuse it, or fail a whole job. */
void sml_job_join(struct sml_jobs *jobs, struct sml_peer *peer, const SmlControl__Join *join);

/* Continue a join when it is certain which rank of which job the peer is. */
void sml_job_join_as(struct sml_jobs *jobs, struct sml_peer *peer, const SmlControl__Join *join);

/*
 * Makes a job of these terms that is not in the list of the switch's jobs, to be freed or put
 * there.
 */
struct sml_job *sml_job_with_terms(struct sml_jobs *jobs, const SmlControl__Join *join);

/* ---- what a Join must say to be accepted (terms.c) ---- */

/* Why a Join is refused. */
struct sml_refusal {
	int error; /* 0 if it is not */
	char text[SML_SENTENCE_BYTES];
};

__attribute__((format(printf, 3, 4))) void sml_refuse(struct sml_refusal *refusal, int error,
						      const char *format, ...);

/* Of a job, a rank with a switch, and one without. */
#define SML_TERMS_APART                                                                            \
	"ranks of job \"%s\" wait for each other, rank %u at a switch and rank %u without one: "   \
	"set SWITCHML_SWITCH on all ranks, or on none"

/* job: the one that the Join means; NULL if there is none yet. */
void sml_terms_check(const struct sml_jobs *jobs, const struct sml_job *job,
		     const SmlControl__Join *join, struct sml_refusal *refusal);

/* Of it, the terms that must be equal on all ranks: the first that differs. */
void sml_terms_compare(const struct sml_job *job, const SmlControl__Join *join,
		       struct sml_refusal *refusal);

/*
 * ---- ranks that disagree about their job (terms.c) ----
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
 * A program has named this job's members, as ranks of the job that they have left: the rank was in
 * that place. NULL: in none that counts.
 */
void sml_listed_note(struct sml_job *job, uint16_t rank, const SmlControl__PastRank *past);

/* Ends the job if it waits for a rank that has gone. True: it is over. */
bool sml_listed_misses(struct sml_job *job);

/* The same, once it is time to miss ranks that had gone, and might have come back. */
bool sml_listed_tick(struct sml_job *job);

/* ---- processes that ask to be members of a job's next membership (applicants.c) ---- */

/* A process that asks to be a member. */
struct sml_applicant {
	struct sml_applicant *next; /* the one that came after it */
	struct sml_peer *peer;
	SmlControl__Join *join;
	uint64_t came_ns, waits_until_ns, told_ns;
	uint32_t heartbeat_ms;
	/* Its rank in the job that has ended; tag 0 if it had none, and waits to join. */
	uint64_t tag;
	uint16_t rank, n_ranks;
};

/* Why a connection ends whose process has come on another one. */
extern const char sml_asked_again[];

/* A Join with Ask. May refuse it, or form a job. */
void sml_applicant_comes(struct sml_jobs *jobs, struct sml_peer *peer,
			 const SmlControl__Join *join);

/*
 * A rank that has left a job comes as a member of another one, which the caller named: refuses it
 * if other ranks of the job ask this switch to decide, which are then refused, too. Returns its
 * place in that job, or NULL if none counts.
 */
const SmlControl__PastRank *sml_applicants_check_list(struct sml_jobs *jobs,
						      const SmlControl__Join *join,
						      struct sml_refusal *refusal);

/*
 * The applicant's connection has ended, or counts as ended. The others wait for it only if it may
 * live, and ask again.
 */
void sml_applicant_lost(struct sml_jobs *jobs, struct sml_peer *peer, bool may_ask_again);

/* How many processes wait to join the next membership of this job. */
uint32_t sml_applicants_count(const struct sml_job *job);

/* Do what is due; and the time at which something is due. */
void sml_applicants_tick(struct sml_jobs *jobs);
uint64_t sml_applicants_deadline(const struct sml_jobs *jobs);

/* Refuse all applicants, because the switch ends. */
void sml_applicants_stop(struct sml_jobs *jobs);

/* For decide.c: */

/* The time at which the switch decides without the ranks that have not come. */
uint64_t sml_applicant_decides_at(const struct sml_applicant *applicant);

/* The applicant that came first, of those from that job; NULL if there is none. */
struct sml_applicant *sml_applicants_first(const struct sml_jobs *jobs, uint64_t tag);

/* Returns the applicant that was this rank, or NULL if that rank has not asked. */
struct sml_applicant *sml_applicants_find(const struct sml_jobs *jobs, uint64_t tag, uint32_t rank);

/* Whether the applicant is a new process that waits to join the job whose first name is `line`. */
bool sml_applicant_waits_for(const struct sml_applicant *applicant, const char *line);

/* Removes the applicant from the list. Returns its Join, which the caller frees. */
SmlControl__Join *sml_applicant_take(struct sml_jobs *jobs, struct sml_applicant *applicant);

/* Refuse all ranks of the job with this tag. */
void sml_applicants_dismiss(struct sml_jobs *jobs, uint64_t tag, int error, const char *text);

/* Refuse the applicant. */
void sml_applicant_dismiss(struct sml_jobs *jobs, struct sml_applicant *applicant, int error,
			   const char *text);

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

#endif
