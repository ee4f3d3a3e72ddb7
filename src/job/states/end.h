/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ends of a job. Each of these functions takes the job out of the switch's jobs, so that no
 * input finds it any more, and returns true: the job is over. Its memory lasts until the input that
 * ended it has been handled, because the code that handles it may still look at the job.
 *
 * The invariant: a job ends once.
 */
#ifndef SML_JOB_STATES_END_H
#define SML_JOB_STATES_END_H

#include "job/members/job.h"

/* End a job that has no members, without a message. */
bool sml_job_close(struct sml_job *job);

/* Send every member the error, and give the slots back. At a leaf, the parent is told instead. */
bool sml_job_fail(struct sml_job *job, int error, const char *text);

/* The same, because the switch lost this rank's connection: the rank may live, and resume. */
bool sml_job_fail_without(struct sml_job *job, uint16_t rank, const char *text);

/* A switch of its tree has died: its ranks look for their switches again. */
bool sml_job_disband(struct sml_job *job, const char *why);

/*
 * A job that resumes does not begin here: the connections end without an error, and the ranks try
 * their next addresses together.
 */
bool sml_job_give_up_resuming(struct sml_job *job, const char *why);

/* A doubted rank has gone: its job ends or looks for its switches again, and nobody is blamed. */
bool sml_job_given_up(struct sml_job *job, uint16_t rank, uint64_t missed_ns, const char *why);

/*
 * At a leaf, the job is over, as the parent says; its ranks are the parent's. how, planned: for the
 * logs of this switch and of its leaves, as in an Abort.
 */
bool sml_job_end_at_leaf(struct sml_job *job, const char *how, bool planned);

/* NULL is allowed. */
void sml_decision_free(struct sml_decision *decision);

/* Free the jobs that are over. Between two inputs. */
void sml_jobs_sweep(struct sml_jobs *jobs);

#endif
