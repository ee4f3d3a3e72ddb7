/* SPDX-License-Identifier: BSD-3-Clause */
/* The states of a job, from admission to its end, and what remains of it. */
#ifndef SML_JOB_STATES_H
#define SML_JOB_STATES_H

#include "job/members/members.h"

/* ---- messages.c: what a job does with its members' messages ---- */

void sml_job_message(struct sml_peer *peer, const SmlControl__Envelope *message);

/* Is the path of a rank that says Ready known here? False: the job has failed. */
bool sml_job_knows_path(struct sml_job *job, uint16_t rank, const SmlControl__Ready *ready);

/*
 * Two ranks disagree: ask both, and keep the answer of each. Later, when both have answered or it
 * took too long, tell all.
 */
void sml_job_mismatch(struct sml_job *job, const struct sml_mismatch *mismatch);
void sml_job_report_mismatch(struct sml_job *job);

/* ---- job.c: who has joined, who leaves, and what is due when ---- */

/* The newcomer is a member now: admit the job if all ranks have joined. */
void sml_job_joined(struct sml_job *job, const struct sml_peer *newcomer);

/* A member asks to leave. */
void sml_job_leave(struct sml_job *job, uint16_t rank);

/*
 * A member's connection has ended, or counts as ended: why says how. may_live: that is no
 * sign of a death, while the job gathers.
 */
void sml_job_lost(struct sml_peer *peer, const char *why, bool may_live);

/*
 * A member has gone before all ranks have joined. It may come again: launchers restart processes
 * that fail early. why says how it was lost, or is NULL if it went by itself. May end the job.
 */
void sml_job_forget_member(struct sml_job *job, uint16_t gone, const char *why);

/* What is due; may end the job. And when something is. */
void sml_job_tick(struct sml_job *job);
uint64_t sml_job_deadline(const struct sml_job *job);

/* ---- admit.c: admission, and the start ---- */

/* Give the job its slots in the dataplane, and send every rank its admission. */
void sml_job_admit(struct sml_job *job, uint32_t epoch);

/*
 * Into a rank's Admitted: the packets that this switch has room for, besides others on its way; and
 * the rank's number and secrets, which only the switch has that the rank is connected to.
 */
void sml_job_describe_rank(const struct sml_job *job, uint16_t rank,
			   SmlControl__Admitted *admitted);

/* It runs in the dataplane and at its leaves. False: the job has failed. */
bool sml_job_start(struct sml_job *job);

/*
 * Start the job if all ranks are ready; at a leaf, tell the parent if all paths are known. The job
 * may fail.
 */
void sml_job_check_ready(struct sml_job *job);

/* ---- parent.c: a job at a leaf, whose root decides what becomes of it ---- */

/* The parent gives this leaf a job; it may not begin, and then the parent is told. */
void sml_parent_begin(struct sml_jobs *jobs, const SmlControl__Admitted *in);

/* The root's Admitted for this rank of a job gets this switch's numbers. */
void sml_parent_admit(const struct sml_peer *peer, SmlControl__Admitted *admitted);

/* As sml_job_check_ready(). And the parent starts it: the job may fail. */
void sml_parent_check_ready(struct sml_job *job);
void sml_parent_start(struct sml_job *job);

/* Tell the parent that two ranks disagree. */
void sml_parent_mismatch(const struct sml_job *job, const struct sml_mismatch *mismatch);

/* The job may fail. */
void sml_parent_tick(struct sml_job *job);
uint64_t sml_parent_deadline(const struct sml_job *job);

/* ---- resume.c: going on after another switch's death ---- */

/* All ranks are here and have reported: hand over, then sml_job_admit(). */
void sml_job_resume(struct sml_job *job);

/* A keeper's answer, for the ranks that lack the result. */
void sml_job_result(struct sml_job *job, const SmlControl__Result *result);

/* ---- liveness.c: what the data path shows of ranks ---- */

/* When quiet members are next checked on the data path; and the check. */
uint64_t sml_job_liveness_due(const struct sml_job *job);
void sml_job_check_liveness(struct sml_job *job);

/*
 * Writes the rank, host or leaf for which the others waited longest, as a text. Returns how long,
 * in milliseconds, or 0 if that is not known.
 */
uint64_t sml_job_slowest(const struct sml_job *job, char *text, size_t bytes);

/* A rank has died after it had asked to leave. */
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

/* ---- stall.c: the state of a job, for members that ask and for its end ---- */

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

/* A report of it, and the memory of its parts. */
struct sml_stalls {
	struct sml_waits_message message;
	SmlControl__RankState *ranks;
};

/* NULL: no memory, or the job has not begun. Then there is nothing to be closed. */
struct sml_stalls *sml_stalls_open(struct sml_job *job);
void sml_stalls_close(struct sml_stalls *stalls);

/*
 * ---- end.c: the ends of a job ----
 *
 * Each of these functions takes the job out of the switch's jobs, so that no
 * input finds it any more, and returns true: the job is over. Its memory lasts until the input that
 * ended it has been handled, because the code that handles it may still look at the job.
 *
 * The invariant: a job ends once.
 */

/* End a job that has no members, without a message. */
bool sml_job_close(struct sml_job *job);

/*
 * Send every member the error and this sentence, and give the slots back. At a leaf, the parent is
 * told instead.
 */
__attribute__((format(printf, 3, 4))) bool sml_job_fail(struct sml_job *job, int error,
							const char *format, ...);

/* The same, for lack of room or memory: its ranks may come again. */
bool sml_job_fail_for_now(struct sml_job *job, const char *text);

/* The same, because the switch lost this rank's connection: the rank may live, and resume. */
__attribute__((format(printf, 3, 4))) bool sml_job_fail_without(struct sml_job *job, uint16_t rank,
								const char *format, ...);

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

/* ---- end.c: ranks of a job that has ended, which may go on in its next membership ---- */

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

/* When the first connection or place has stayed for long enough; and end what has. */
uint64_t sml_survivors_deadline(const struct sml_jobs *jobs);
void sml_survivors_tick(struct sml_jobs *jobs);

/* ---- end.c: the place of a job whose members change ---- */

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

/* The rank has gone; when all have, the place is free. */
void sml_kept_without(struct sml_jobs *jobs, struct sml_failed_job *job, unsigned rank);

/* That rank of the job with this tag is here, whatever became of its last connection. */
void sml_kept_back(const struct sml_jobs *jobs, uint64_t tag, unsigned rank);

#endif
