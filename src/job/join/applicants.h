/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes that ask to be members of a job's next membership: see applicants.c. */
#ifndef SML_JOB_JOIN_APPLICANTS_H
#define SML_JOB_JOIN_APPLICANTS_H

#include "job/join/terms.h"
#include "job/members/job.h"

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

/* ---- for decide.c ---- */

/* The time at which the switch decides without the ranks that have not come. */
uint64_t sml_applicant_decides_at(const struct sml_applicant *applicant);

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

#endif
