/* SPDX-License-Identifier: BSD-3-Clause */
/* Members of a job: their peers, children and hosts; and what a dataplane need not have. */
#ifndef SML_JOB_MEMBERS_MEMBERS_H
#define SML_JOB_MEMBERS_MEMBERS_H

#include "job/members/job.h"

/*
 * Makes a job without members that is not in the list of the switch's jobs. Returns NULL if there
 * is no memory. And puts it at a free place there.
 */
struct sml_job *sml_job_new(struct sml_jobs *jobs, const char *name, uint32_t n_ranks);
void sml_job_take_place(struct sml_job *job, uint32_t place);

/* It has no members, or is over. A decision may be NULL. */
void sml_job_free(struct sml_job *job);
void sml_decision_free(struct sml_decision *decision);

/* Free the jobs that are over. Between two inputs. */
void sml_jobs_sweep(struct sml_jobs *jobs);

/* Separates the rank from its peer. Returns the peer; NULL if there was none. */
struct sml_peer *sml_job_release(struct sml_job *job, unsigned rank);

/*
 * Of the ranks, those that were not in the job that this one follows, and that job's ranks that are
 * not in this one. 0 until all ranks are here, and if it follows none.
 */
void sml_job_count_changes(const struct sml_job *job, uint32_t *joined, uint32_t *left);

/*
 * Do ranks still come? Not when all are here, even if the job waits for slots of ended jobs: then a
 * rank that goes ends it, as it does later.
 */
static inline bool sml_job_gathers(const struct sml_job *job)
{
	return job->state == SML_JOB_JOINING && job->members.n < job->n_ranks;
}

/* The heartbeat of a rank that joins, within this switch's bounds. */
uint32_t sml_jobs_heartbeat_ms(const struct sml_jobs *jobs, const SmlControl__Join *join);

/* Each rank takes a silent switch for dead after its own heartbeat. */
uint32_t sml_job_longest_heartbeat_ms(const struct sml_job *job);

/* To all members that are here. */
void sml_job_send_all(const struct sml_job *job, const SmlControl__Envelope *message);

/* A job that has come to a bad end here, by its tag; NULL if none is known. */
struct sml_failed_job *sml_jobs_find_failed(const struct sml_jobs *jobs, uint64_t tag);

/*
 * The same, if this switch knows which of its ranks can be in another membership: not if it ran
 * elsewhere, and never went on here, because some of its ranks may be there again.
 */
struct sml_failed_job *sml_jobs_find_judged(const struct sml_jobs *jobs, uint64_t tag);

/*
 * What the rank's next membership follows: this job, which has failed; but the job before it if
 * this one has never run, and then *rank becomes the rank in that one. NULL if it follows none.
 */
struct sml_failed_job *sml_job_followed(const struct sml_job *job, uint16_t *rank);

/* Does this switch take no lanes of two int16? */
static inline bool sml_jobs_only_int32(const struct sml_jobs *jobs)
{
	return jobs->operations->only_int32 != NULL &&
	       jobs->operations->only_int32(jobs->dataplane);
}

/* Does it round sums of narrow lanes? Not if it has no narrow lanes. */
static inline bool sml_jobs_round(const struct sml_jobs *jobs)
{
	return jobs->operations->rounds && !sml_jobs_only_int32(jobs);
}

/* A rank that resumes may have results. One that begins, or has never begun, has none. */
static inline bool sml_join_resumes(const SmlControl__Join *join)
{
	return join->resume != NULL && !join->resume->begins;
}

/* ---- what the ranks of a job that resumes report, and the plans ---- */

void sml_job_free_plans(struct sml_job *job);

/* The reader of a message frees it. NULL if there is no memory. To be freed as an unpacked one. */
SmlControl__Join *sml_join_copy(const SmlControl__Join *join);

/*
 * Keep what a member reports with its Join. False if there is no memory, or the job has reported
 * too much.
 */
bool sml_job_keep_report(struct sml_job *job, unsigned rank, const SmlControl__Join *join);
void sml_job_free_report(struct sml_job *job, unsigned rank);

/* ---- a job's slots at this switch, and its children there (pool.c) ---- */

/*
 * All ranks have joined: number the children. Returns false if there are more than a switch can
 * have, and sets the text.
 */
bool sml_job_form_children(struct sml_job *job, char *text, size_t bytes);

/*
 * The same, when hosts are known, of those ranks that are here: at a leaf, some may have gone since
 * the root has admitted the job. Returns false if there are too many.
 */
bool sml_job_number_children(struct sml_job *job);

/* Give the job to its leaves, once the dataplane has it. Returns false if there is no memory. */
bool sml_job_give(struct sml_job *job);

/*
 * Whether the rank is a child by itself. If it is not, what a child does proves nothing about one
 * rank.
 */
bool sml_job_is_child(const struct sml_job *job, unsigned rank);

/* All ranks that are behind this switch, n_behind, are behind its children: draw their cookies. */
void sml_job_pool_draw(struct sml_job *job, unsigned n_behind);

/* Of all jobs that have begun here: children that share the dataplane's buffers. */
uint32_t sml_job_pools_children(const struct sml_jobs *jobs);

/* Add the job to the dataplane. Returns 0 or a negative errno. */
int sml_job_pool_add(struct sml_job *job);
/* End it there, if it has begun. how, planned: for the logs of leaves, as in an Abort. */
void sml_job_pool_end(struct sml_job *job, const char *how, bool planned);

/* The child that is this leaf, or NULL. */
struct sml_child *sml_job_pool_leaf(struct sml_job *job, const struct sml_branch *branch);

/* The leaf is about to go. Returns whether it was a child. */
bool sml_job_pool_forget(struct sml_job *job, const struct sml_branch *branch);

/* The ranks that disagree, for a dataplane's report on children. False: there are no such children.
 */
bool sml_job_pool_name_ranks(const struct sml_job *job, struct sml_mismatch *mismatch);

/* As the dataplane's operations; an address is renewed only once the job has started. */
const char *sml_job_pool_misses_address(const struct sml_job *job, unsigned child);
void sml_job_pool_renew(const struct sml_job *job, unsigned child, uint32_t shard, uint32_t number);

/* Zeroed counters stay so where nothing is counted. */
void sml_job_pool_count(const struct sml_job *job, struct sml_job_counters *counters);

/* ---- what slots wait for ---- */

/* Ask the leaves that have not been asked what their slots wait for. */
void sml_job_pool_ask(struct sml_job *job);

/* A leaf has answered. */
void sml_job_pool_note_answer(const struct sml_job *job, struct sml_child *child,
			      const SmlControl__StallReport *in);

/*
 * If leaves are queried: when the last answer is due; UINT64_MAX: nobody waits. And whether the
 * query is over; then it is forgotten, and what late leaves said before counts no more.
 */
uint64_t sml_job_pool_answers_due(const struct sml_job *job);
bool sml_job_pool_is_answered(struct sml_job *job);

/* What all slots wait for, here and at leaves. False: no memory; then fini is not needed. */
bool sml_job_pool_look(const struct sml_job *job, struct sml_waits *waits);

/* ---- how the switch's slots are divided (slots.c) ---- */

/* Reserve the minimum for a job. Returns false if there is not even that, and sets the text. */
bool sml_job_reserve_slots(struct sml_job *job, char *text, size_t bytes);

/*
 * The packets' length is known: give the job the slots that it wants, or its share of those that
 * are free. Returns false if a leaf has not even the minimum.
 */
bool sml_job_take_slots(struct sml_job *job);

/*
 * The free slots were fragmented: give the job half as many, if that is enough. Returns false if it
 * had the minimum.
 */
bool sml_job_take_fewer_slots(struct sml_job *job);

/*
 * Right after that, if the job has to wait: it holds what it reserved again, and no more meanwhile.
 */
void sml_job_keep_reserve(struct sml_job *job);

/* What a job reserves while it gathers, and how many it wants in addition. */
uint32_t sml_job_fewest_slots(const struct sml_job *job, uint32_t *more);

void sml_job_give_back_slots(struct sml_job *job);

/* ---- ranks on one machine, which may share memory (hosts.c) ---- */

/* Whether what a Join contains about the rank's machine is well-formed; and keep it. */
bool sml_job_is_machine(const SmlControl__Join *join);
void sml_job_note_machine(struct sml_member *member, const SmlControl__Join *join);

/* A message's host group, to be used while the list exists. */
struct sml_host_list {
	SmlControl__HostGroup group;
	uint32_t ranks[SML_MAX_CHILDREN];
	ProtobufCBinaryData tokens[SML_MAX_CHILDREN];
};

/*
 * Writes into the message which ranks are on the same machine as this one; nothing if the rank is
 * alone there.
 */
void sml_job_describe_hosts(const struct sml_job *job, uint16_t to, struct sml_host_list *list,
			    SmlControl__Admitted *admitted);

/* Whether ranks are on several machines, and some of them are together on one. */
bool sml_job_has_hosts(const struct sml_job *job);

/*
 * If ranks have the slots, and all are ready: whether each shares memory with all ranks of its
 * machine.
 */
bool sml_job_shares_memory(const struct sml_job *job);

/*
 * Whether this rank has a stripe, and which one. Of ranks that share memory, only the first may
 * have one.
 */
bool sml_job_has_stripe(const struct sml_job *job, unsigned rank, uint32_t *stripe);

/* All ranks are here: find those of one machine that are connected to the same switch. */
void sml_job_find_hosts(struct sml_job *job);

/* Is a rank to contribute together with others of its host, here or at a leaf? Are these two? */
bool sml_job_is_grouped(const struct sml_job *job, unsigned rank);
bool sml_job_is_one_host(const struct sml_job *job, unsigned a, unsigned b);

/* The rank that sends this one's packets, if any are sent: itself, or the first of its host. */
unsigned sml_job_sender(const struct sml_job *job, unsigned rank);

/*
 * All are ready: do some contribute together, and does a rank that could not share memory, here or
 * at another switch of the job?
 */
bool sml_job_lacks_memory(const struct sml_job *job);

/* ---- ranks that have the slots (peers.c) ---- */

/* A message's peers, to be freed when it has been sent. */
struct sml_peer_list {
	SmlControl__Peer peers[SML_MAX_STRIPES], *list[SML_MAX_STRIPES];
};

/* The address of a rank that brings slots. */
void sml_job_note_peer(struct sml_member *member, const SmlControl__Join *join);

/*
 * All such ranks have joined: choose the number of stripes, and their secrets. Returns 0 or
 * -ENOMEM.
 */
int sml_job_meet(struct sml_job *job);

/* "rank 3 at 10.0.0.4, UDP port 40001" */
void sml_job_name_stripe(const struct sml_job *job, uint32_t stripe, char *text, size_t bytes);

/* What a rank says of its traffic, and of its stripe, if it has one. */
void sml_job_note_ping(struct sml_peer *peer, const SmlControl__Ping *ping);

/* What is counted here of a job; of a job whose ranks have the slots, how long they waited. */
void sml_job_count(const struct sml_job *job, struct sml_job_counters *counters);

/* The peers that one rank must know. The caller frees them. Returns NULL if there is no memory. */
struct sml_peer_list *sml_job_describe_peers(const struct sml_job *job, uint16_t to,
					     SmlControl__Admitted *admitted);

#endif
