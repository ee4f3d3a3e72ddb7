/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ends of a job. Whoever calls one of these must not access the job any more.
 */
#ifndef SML_JOB_STATES_END_H
#define SML_JOB_STATES_END_H

#include "job/members/job.h"

/* Free everything without a message. The job, which has no members, is gone. */
void sml_job_close(struct sml_job *job);

/* Tell every member, and give the slots back. The job is gone. */
void sml_job_fail(struct sml_job *job, int error, const char *text);

/* The same, because the switch lost this rank's connection: the rank may live, and resume. */
void sml_job_fail_without(struct sml_job *job, uint16_t rank, const char *text);

/* A switch of its tree has died: its ranks look for their switches again. The job is gone. */
void sml_job_scatter(struct sml_job *job, const char *why);

/*
 * A job that resumes does not begin here: the connections end without an error, and the ranks try
 * their next addresses together.
 */
void sml_job_give_up_resuming(struct sml_job *job);

/* A doubted rank has gone: its job ends or looks for its switches again, and nobody is blamed. */
void sml_job_given_up(struct sml_job *job, uint16_t rank, uint64_t missed_ns, const char *why);

#endif
