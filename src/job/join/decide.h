/* SPDX-License-Identifier: BSD-3-Clause */
/* The switch decides who the members of the next membership are: see decide.c. */
#ifndef SML_JOB_JOIN_DECIDE_H
#define SML_JOB_JOIN_DECIDE_H

#include "job/members/job.h"

/* A process that asks to be a member. */
struct sml_applicant {
	struct sml_applicant *next; /* the one that came after it */
	struct sml_peer *peer;
	SmlControl__Join *join;
	uint64_t came_ns, waits_until_ns, told_ns;
	uint32_t heartbeat_ms;
	/* Its place in the job that has ended; tag 0: it had none, and waits to join. */
	uint64_t tag;
	uint16_t rank, n_ranks;
	bool is_heir; /* and it was in the last membership of that job, which never ran */
};

/* A Join with Ask. May refuse it, or form a job. */
void sml_applicant_comes(struct sml_jobs *jobs, struct sml_peer *peer,
			 const SmlControl__Join *join);

/* Its connection has ended, or counts as ended. */
void sml_applicant_lost(struct sml_jobs *jobs, struct sml_peer *peer);

/* How many processes wait to join the next membership of this job. */
uint32_t sml_applicants_count(const struct sml_job *job);

/* What is due; and when something is. */
void sml_applicants_tick(struct sml_jobs *jobs);
uint64_t sml_applicants_deadline(const struct sml_jobs *jobs);

/* The switch ends. */
void sml_applicants_stop(struct sml_jobs *jobs);

#endif
