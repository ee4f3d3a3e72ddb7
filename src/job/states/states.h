/* SPDX-License-Identifier: BSD-3-Clause */
/* The states of a job, from its admission to its end. Its beginning is job.h, and its end end.h. */
#ifndef SML_JOB_STATES_H
#define SML_JOB_STATES_H

#include "job/members/job.h"

/* ---- messages.c: what a job does with its members' messages ---- */

void sml_job_message(struct sml_peer *peer, const SmlControl__Envelope *message);

/* Is the path of a rank that says Ready known here? False: the job has failed. */
bool sml_job_knows_path(struct sml_job *job, uint16_t rank, const SmlControl__Ready *ready);

/* ---- admit.c: admission, and the start ---- */

/* Give the job its slots in the dataplane, and send every rank its admission. */
void sml_job_admit(struct sml_job *job, uint32_t epoch);

/*
 * Into a rank's Admitted: the packets that this switch has room for, besides others on its way; and
 * the rank's number and secrets, which only the switch has that the rank is connected to.
 */
void sml_job_describe_rank(const struct sml_job *job, uint16_t rank,
			   SmlControl__Admitted *admitted);

/*
 * Start the job if all ranks are ready; at a leaf, tell the parent if all paths are known. The job
 * may fail.
 */
void sml_job_check_ready(struct sml_job *job);

/* ---- parent.c: a job at a leaf, whose root decides what becomes of it ---- */

/* Are the slots of ended jobs free now? False if the job has failed, and the parent knows why. */
bool sml_parent_try_slots(struct sml_job *job);

/* As sml_job_check_ready(). And the parent starts it: the job may fail. */
void sml_parent_check_ready(struct sml_job *job);
void sml_parent_start(struct sml_job *job);

/* Tell it what slots wait for here. */
void sml_parent_send_slots(const struct sml_job *job);

/* Tell the parent that two ranks disagree. */
void sml_parent_mismatch(const struct sml_job *job, const struct sml_mismatch *mismatch);

/* The job may fail. */
void sml_parent_tick(struct sml_job *job);
uint64_t sml_parent_deadline(const struct sml_job *job);

/* ---- reports.c: what the ranks of a job that resumes report, and the plans ---- */

/* The number of a job's results that are handed over after a death, to all ranks together. */
#define SML_MAX_HANDED_BYTES ((size_t)1 << 30)

/* All reports of a job, as they were sent: 16 KiB for each of 4,096 ranks, 256 of the longest. */
#define SML_MAX_REPORTED_BYTES ((size_t)64 << 20)

void sml_job_free_plans(struct sml_job *job);

/* The reader of a message frees it. NULL if there is no memory. To be freed as an unpacked one. */
SmlControl__Join *sml_join_copy(const SmlControl__Join *join);

/*
 * Keep what a member reports with its Join. False if there is no memory, or the job has reported
 * too much.
 */
bool sml_job_keep_report(struct sml_job *job, unsigned rank, const SmlControl__Join *join);
void sml_job_free_report(struct sml_job *job, unsigned rank);

/* ---- resume.c: going on after another switch's death ---- */

/* All ranks are here and have reported: hand over, then sml_job_admit(). */
void sml_job_resume(struct sml_job *job);

/* A keeper's answer, for the ranks that lack the result. */
void sml_job_result(struct sml_job *job, const SmlControl__Result *result);

/* ---- liveness.c: signs of life on the data path ---- */

/* When quiet members are next checked on the data path; and the check. */
uint64_t sml_job_liveness_due(const struct sml_job *job);
void sml_job_check_liveness(struct sml_job *job);

/* ---- slowest.c: for which rank the others waited ---- */

/*
 * Writes the rank, host or leaf for which the others waited longest, as a text. Returns how long,
 * in milliseconds, or 0 if that is not known.
 */
uint64_t sml_job_slowest(const struct sml_job *job, char *text, size_t bytes);

/* ---- mismatch.c: two ranks of a job made different calls ---- */

/*
 * Two ranks disagree: ask both, and keep the answer of each. Later, when both have answered or it
 * took too long, tell all.
 */
void sml_job_mismatch(struct sml_job *job, const struct sml_mismatch *mismatch);
void sml_job_describe_call(struct sml_job *job, unsigned which, const SmlControl__Description *in);
void sml_job_report_mismatch(struct sml_job *job);

/* ---- departed.c: ranks that have died after they had asked to leave ---- */

void sml_job_note_departed(struct sml_job *job, uint16_t rank, const char *why);

/*
 * The time at which to check whether a slot waits for one of these ranks; and the check. Returns
 * true if so: then the job is over.
 */
uint64_t sml_job_departed_due(const struct sml_job *job);
bool sml_job_misses_departed(struct sml_job *job);

/* A rank has answered what the slots in its host's memory wait for. */
void sml_job_note_host_stalls(struct sml_job *job, uint16_t from,
			      const SmlControl__StallReport *in);

/* ---- kept.c: the place of a job whose members change ---- */

/* The job ends. If ranks of it may go on, its place is kept for their next job. */
void sml_kept_begin(const struct sml_job *job);

/* That of the job with this tag; NULL if none is kept. */
struct sml_failed_job *sml_kept_find(const struct sml_jobs *jobs, uint64_t tag);

/* It is free. Nothing if it was not kept. */
void sml_kept_end(struct sml_jobs *jobs, struct sml_failed_job *job);

/* A rank of the job with this tag has joined this one. 0: of none. */
void sml_kept_take(struct sml_job *job, uint64_t tag);

/* The job runs: what was kept for its ranks is its own, also when others of the last one come. */
void sml_kept_use(const struct sml_job *job);

/* It is kept again, until the same time: the next job did not begin to gather. */
void sml_kept_again(struct sml_jobs *jobs, struct sml_failed_job *job, uint64_t until_ns);

/* A rank of it asks, and a decision is due at this time: it is kept until then. */
void sml_kept_asked(struct sml_jobs *jobs, uint64_t tag, uint64_t until_ns);

/* None of its ranks asks any more, so it is kept no longer than for ranks that may still come. */
void sml_kept_unasked(struct sml_jobs *jobs, uint64_t tag);

/* The rank may go on; or has gone, and when all have, the place is free. */
void sml_kept_for(struct sml_failed_job *job, unsigned rank);
void sml_kept_without(struct sml_jobs *jobs, struct sml_failed_job *job, unsigned rank);

/* That rank of the job with this tag is here, whatever became of its last connection. */
void sml_kept_back(const struct sml_jobs *jobs, uint64_t tag, unsigned rank);

uint64_t sml_kept_deadline(const struct sml_jobs *jobs);
void sml_kept_tick(struct sml_jobs *jobs);

#endif
