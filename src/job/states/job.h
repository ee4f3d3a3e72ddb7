/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One job of switch.h, and the interfaces between its files.
 *
 *	            all ranks are here        all are ready         one has asked
 *	JOINING ----------------> PROBING ----------------> RUNNING -----> LEAVING -> gone
 *	   |  \                    ^  |                         |              |
 *	   |   +--> HANDING OVER --+  |                         |              |
 *	   +---------- (resume.c) -+---- sml_job_fail() -----+--------------+
 *
 * The invariant: a job in PROBING or later has all its members, slots in the dataplane, and a
 * number by which packets name it.
 */
#ifndef SML_JOB_STATES_JOB_H
#define SML_JOB_STATES_JOB_H

#include "core/resume.h"
#include "job/common/ranks.h"
#include "job/common/waits.h"
#include "job/peer/heard.h"
#include "job/peer/output.h"
#include "switchml.h"

#define SML_VERSION_BYTES 32
/* A peer's own text within a text. */
#define SML_REASON_BYTES  300
#define SML_MACHINE_BYTES 128
#define SML_HOST_TOKEN	  16

enum sml_job_state {
	SML_JOB_JOINING,
	SML_JOB_HANDING_OVER,
	SML_JOB_PROBING,
	SML_JOB_RUNNING,
	SML_JOB_LEAVING
};

/* What a stripe has done so far. */
struct sml_served {
	uint64_t contributions, resends, duplicates;
	uint64_t bytes_received, bytes_sent;
};

/* What a rank has moved so far, as it counts. */
struct sml_traffic {
	uint64_t packets_sent, packets_received;
	uint64_t bytes_sent, bytes_received;
	uint64_t retransmits_timeout, retransmits_fast;
	uint32_t link_mbits;
	uint64_t told_ns; /* 0: never */
};

struct sml_member {
	struct sml_peer *peer; /* NULL: not here, or has left */
	char host[SML_NAME_BYTES];
	uint32_t pid;
	uint32_t lanes;		 /* that its path seems to carry; once ready, does carry */
	uint32_t shards;	 /* sockets that it has */
	uint32_t heartbeat_ms;	 /* silence that means death */
	uint64_t waits_until_ns; /* for the others to join */
	uint64_t heard_ns;	 /* when its connection ended: the time of its last message */
	uint64_t stalls_told_ns;
	/* Its count on the data path (signs.c), taken after its message at signs_of_ns. */
	uint64_t contributions, signs_of_ns;
	bool ready, leaving, stalls_wanted;
	bool stalls_asked;   /* about its own slots, and not answered yet */
	bool shards_set;     /* set by the user: it accepts no other number */
	bool told_unreached; /* that the group does not reach it */
	/* Where it takes packets, if it has slots: address 4 or 16 bytes, 0: the control port's. */
	uint8_t address[16], address_bytes;
	bool is_local; /* on this host */
	uint32_t ports[SML_MAX_SHARDS];
	struct sml_served served; /* as it last told; and what it has moved itself */
	struct sml_traffic traffic;
	/* Which ranks it may share memory with, and where they find it: job/members/hosts.c. */
	uint8_t machine[SML_MACHINE_BYTES], machine_bytes; /* 0: none */
	uint8_t host_token[SML_HOST_TOKEN];
	bool shares_memory;
	/*
	 * From PROBING on: the child that it is behind; of the ranks on its machine, behind the
	 * same switch, the lowest; of the lowest, how many there are.
	 */
	uint8_t child;
	uint16_t first_of_host, n_of_host;
	/* The chunks that it has and lacks, if it resumes. In protobuf-c's memory. */
	SmlControl__Join *resume;
};

/* What a dataplane knows as one rank: see job/members/children.c. */
struct sml_child {
	uint16_t first_rank, n_ranks;
	/* A leaf; NULL: a rank. */
	struct sml_branch *branch;
	struct sml_ranks ranks; /* behind it */
	bool ready;
	uint32_t lanes; /* once ready: that its path carries */
	/* A leaf that has the job: what its slots wait for, as it last said, of its ranks. */
	bool has_job;
	struct sml_waits waits;
	bool asked, told, silent; /* silent: it has not answered in time */
	uint64_t asked_ns;
};

struct sml_job {
	struct sml_jobs *jobs;
	char name[SML_NAME_BYTES];
	uint32_t place; /* in jobs->jobs */
	enum sml_job_state state;
	uint16_t n_ranks, first_rank; /* first_rank: the rank that joined first and set the terms */
	uint16_t n_members, n_ready, n_leaving;
	uint64_t begun_ns, waiting_told_ns, watched_ns, signs_ns, gone_looked_ns;
	/* The terms that all ranks must share. */
	char library_version[SML_VERSION_BYTES];
	uint32_t shards;      /* the least of all ranks */
	uint32_t most_shards; /* the number that slots were reserved for */
	uint32_t head_slots_wanted, data_slots_wanted, stripe, stripes;
	bool no_tickets;
	uint64_t membership;		  /* a secret of its ranks, in all epochs */
	uint64_t report_tag;		  /* of this epoch, in reports */
	char refused[SML_SENTENCE_BYTES]; /* why the last rank that tried to join was refused */
	struct sml_pool_rules rules;
	uint64_t tries_again_ns; /* since when all are here but the dataplane has no room; 0: not so
				  */
	bool has_pool;		 /* the slots that rules name are its own */
	bool lacks_room;	 /* why it fails: lack of room, so it may come again */
	struct sml_member *members; /* n_ranks */
	/* From PROBING on: who contributes to the slots. */
	uint8_t n_children, n_leaves, n_leaves_ready;
	struct sml_child children[SML_MAX_CHILDREN];
	/* While two ranks are asked for their calls. */
	struct sml_mismatch mismatch;
	uint64_t mismatch_ns; /* 0: none */
	char beliefs[2][SML_REASON_BYTES];
	/* Ranks that have died after they had asked to leave; how the last did. */
	struct sml_ranks gone;
	uint16_t n_gone;
	struct sml_ranks gone_missed; /* of them, those that a slot waited for at the last look */
	struct sml_ranks host_misses; /* those that slots in shared memory wait for, since then */
	char gone_why[SML_REASON_BYTES];
	uint64_t *secrets;   /* of stripes that the ranks have: job/members/peers.c */
	uint64_t *completed; /* there, by stripe and rank: as in struct sml_job_counters */
	bool shares_memory;  /* each of its ranks does, with those of its machine */
	bool leaves_asked;   /* for ranks that want to know; they are not told yet */
	bool apart;	     /* ranks of one machine cannot share memory: each sends its own */
	/* Resuming after another switch's death. */
	bool resumes;
	struct sml_resume_plan plans[SML_STREAMS];
	uint32_t n_results_missing;
	size_t handed_bytes;   /* of results, to all ranks that lacked them */
	size_t reported_bytes; /* of all members' reports */
	bool waiting_changed;  /* since waiting_told_ns */
};

/* The number of a job's results that are handed over after a death, to all ranks together. */
#define SML_MAX_HANDED_BYTES ((size_t)1 << 30)

/* All reports of a job, as they were sent: 16 KiB for each of 4,096 ranks, 256 of the longest. */
#define SML_MAX_REPORTED_BYTES ((size_t)64 << 20)

/* Two chunks a slot of the largest job that there can be. */
#define SML_MAX_PLAN (2 * SML_MAX_SLOTS)

/* To all members that are here. */
void sml_job_send_all(const struct sml_job *job, const SmlControl__Envelope *message);

/* Does this switch take no lanes of two int16? */
bool sml_jobs_only_int32(const struct sml_jobs *jobs);

/*
 * Is there a file for one more that stays? False: the peer has been refused. join: what it sends,
 * NULL: it is a leaf. Others may have to make room (job/join/room.c).
 */
bool sml_jobs_has_room_for_member(struct sml_jobs *jobs, struct sml_peer *peer,
				  const SmlControl__Join *join);

/* What has the weakest claim goes. False: there is nothing of the kind, or nobody resumes. */
bool sml_jobs_displace(struct sml_jobs *jobs, const SmlControl__Join *join);
bool sml_jobs_close_idle_leaf(struct sml_jobs *jobs);

/* ---- what a dataplane need not have ---- */

static inline uint32_t sml_job_slot_states(const struct sml_job *job,
					   struct sml_slot_progress *states, uint32_t n)
{
	const struct sml_jobs *jobs = job->jobs;

	if (jobs->operations->slot_states == NULL)
		return 0;
	return jobs->operations->slot_states(jobs->dataplane, job->rules.job, states, n);
}

/* Zeroed counters stay so where nothing is counted. */
static inline void sml_job_count(const struct sml_job *job, struct sml_job_counters *counters)
{
	const struct sml_jobs *jobs = job->jobs;

	if (jobs->operations->job_counters)
		jobs->operations->job_counters(jobs->dataplane, job->rules.job, counters);
}

/* ---- states and ends (job.c) ---- */

/* The newcomer is a member now: are all here? */
void sml_job_joined(struct sml_job *job, const struct sml_peer *newcomer);

/* A member asks to leave. */
void sml_job_leave(struct sml_job *job, uint16_t rank);

/* A member's connection has ended, or counts as ended: why says how. */
void sml_job_lost(struct sml_peer *peer, const char *why);

/* The rank's peer is not its member any more. Returns it; NULL: there was none. */
struct sml_peer *sml_job_release(struct sml_job *job, unsigned rank);

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

/* What is due; may end the job. And when something is. */
void sml_job_tick(struct sml_job *job);
uint64_t sml_job_deadline(const struct sml_job *job);

/* ---- this switch's own absence (job/input/absence.c) ---- */

/* Of the input that is handled now. May find that the switch did not run for a while. */
void sml_jobs_set_time(struct sml_jobs *jobs, uint64_t now_ns);

/* A doubted rank has gone: its job ends or looks for its switches again, and nobody is blamed. */
void sml_job_given_up(struct sml_job *job, uint16_t rank, uint64_t missed_ns, const char *why);

/* Does a rank resume that has this job here, and whose old connection is doubted? */
bool sml_job_is_given_up_by(const struct sml_job *job, const SmlControl__Join *join);

/* Is there anybody whom an absence would matter to? */
bool sml_jobs_has_dependents(const struct sml_jobs *jobs);

/* ---- admission (admit.c) ---- */

/* Give the job its slots in the dataplane and tell every rank. */
void sml_job_admit(struct sml_job *job, uint32_t epoch);

/* Are all ready? Then it starts. */
void sml_job_check_ready(struct sml_job *job);

/* ---- who contributes to the slots (job/members/children.c) ---- */

/*
 * All ranks are here: number the children. False: there are more than a switch can have; text says
 * so.
 */
bool sml_job_form_children(struct sml_job *job, char *text, size_t bytes);

/* The ranks behind these children, as bits. */
void sml_job_ranks_behind(const struct sml_job *job, uint64_t children, struct sml_ranks *ranks);

/* Is the rank a child by itself? Otherwise what a child does says nothing about one rank. */
bool sml_job_is_child(const struct sml_job *job, unsigned rank);

/* Is it one of several ranks that share memory, and are one child of this switch? */
bool sml_job_is_in_host(const struct sml_job *job, unsigned rank);

/* ---- its leaves (job/tree/leaves.c) ---- */

/* The dataplane has the job: the leaves get it, too. False: no memory. */
bool sml_job_spread(struct sml_job *job);

/* The slots that every leaf of the job still has room for; UINT32_MAX without leaves. */
uint32_t sml_job_leaf_room(const struct sml_job *job);

/* All are ready: the leaves' dataplanes start. */
void sml_job_start_leaves(struct sml_job *job);

/* The job is about to go. */
void sml_job_leave_leaves(struct sml_job *job);

/* A leaf is about to go. May end the job. */
void sml_job_forget_branch(struct sml_job *job, const struct sml_branch *branch, const char *why);

/* A leaf's message about the job. May end the job. */
void sml_job_leaf_message(struct sml_job *job, struct sml_branch *branch,
			  const SmlControl__Envelope *message);

/* Ask the leaves that have not been asked what their slots wait for. */
void sml_job_ask_leaves(struct sml_job *job);

/*
 * Ranks want to know it: they are told when all leaves have answered, or when it took too long. And
 * when that is; UINT64_MAX: nobody waits.
 */
void sml_job_ask_for_ranks(struct sml_job *job);
void sml_job_look_for_answers(struct sml_job *job);
uint64_t sml_job_answers_due(const struct sml_job *job);

/*
 * The ranks that a slot waits for, from the bits of its children that it waits for. False: only
 * leaves know one, and have not said it.
 */
bool sml_job_ranks_missing(const struct sml_job *job, const struct sml_slot_progress *slot,
			   struct sml_ranks *ranks);

/* ---- ranks that have died after they had asked to leave (gone.c) ---- */

void sml_job_note_gone(struct sml_job *job, uint16_t rank, const char *why);

/* When to check whether a slot waits for them; and the check. True: yes, and the job is gone. */
uint64_t sml_job_gone_due(const struct sml_job *job);
bool sml_job_misses_gone(struct sml_job *job);

/* A rank that was asked says what slots in its host's memory wait for. */
void sml_job_note_host_stalls(struct sml_job *job, uint16_t from,
			      const SmlControl__StallReport *in);

/* ---- messages of members (messages.c) ---- */

void sml_job_message(struct sml_peer *peer, const SmlControl__Envelope *message);

/* Two ranks disagree: ask both. Later, when both have answered or it took too long, tell all. */
void sml_job_mismatch(struct sml_job *job, const struct sml_mismatch *mismatch);
void sml_job_tell_mismatch(struct sml_job *job);

/* ---- joining (job/join/join.c) ---- */

/* A worker asks to join. May refuse it, or fail a whole job. */
void sml_job_join(struct sml_jobs *jobs, struct sml_peer *peer, const SmlControl__Join *join);

/* ---- where ranks have the slots (job/members/peers.c) ---- */

/* A message's peers, to be freed when it has been sent. */
struct sml_peer_list {
	SmlControl__Peer peers[SML_MAX_STRIPES], *list[SML_MAX_STRIPES];
};

/* The address of a rank that brings slots. */
void sml_job_note_peer(struct sml_member *member, const SmlControl__Join *join);

/* All such ranks are here: how many stripes, and their secrets. 0 or -ENOMEM. */
int sml_job_meet(struct sml_job *job);

/* "rank 3 at 10.0.0.4, UDP port 40001" */
void sml_job_name_stripe(const struct sml_job *job, uint32_t stripe, char *text, size_t bytes);

/* A rank that has slots reports their counters. */
void sml_job_note_served(struct sml_peer *peer, const SmlControl__StripeStatus *served);

/* There: the uses that the rank completed, in all stripes. */
uint64_t sml_job_completed_by(const struct sml_job *job, uint16_t rank);

/* What one rank must know of all ranks. The caller frees it; NULL: no memory. */
struct sml_peer_list *sml_job_describe_peers(const struct sml_job *job, uint16_t to,
					     SmlControl__Admitted *admitted);

/* ---- ranks that share memory (job/members/hosts.c) ---- */

/* Is what a Join says about its machine well-formed? And note it. */
bool sml_job_is_machine(const SmlControl__Join *join);
void sml_job_note_machine(struct sml_member *member, const SmlControl__Join *join);

/* A message's host group, to be used while the list exists. */
struct sml_host_list {
	SmlControl__HostGroup group;
	uint32_t ranks[SML_MAX_CHILDREN];
	ProtobufCBinaryData tokens[SML_MAX_CHILDREN];
};

/* The ranks on the same machine as this one. Nothing if it is alone there. */
void sml_job_describe_hosts(const struct sml_job *job, uint16_t to, struct sml_host_list *list,
			    SmlControl__Admitted *admitted);

/* Ranks are on several machines, and some of them are together on one. */
bool sml_job_has_hosts(const struct sml_job *job);

/*
 * Where ranks have the slots, and all are ready: do all of them share memory with those of their
 * machine?
 */
bool sml_job_shares_memory(const struct sml_job *job);

/* Has this rank a stripe, and which one? Of the ranks that share memory, the first may have one. */
bool sml_job_has_stripe(const struct sml_job *job, unsigned rank, uint32_t *stripe);

/* All ranks are here: find those of one machine that are connected to the same switch. */
void sml_job_find_hosts(struct sml_job *job);

/* Is a rank to contribute together with others of its host, here or at a leaf? Are these two? */
bool sml_job_is_grouped(const struct sml_job *job, unsigned rank);
bool sml_job_is_one_host(const struct sml_job *job, unsigned a, unsigned b);

/*
 * All are ready: do some contribute together, and does a rank that could not share memory, here or
 * at another switch of the job?
 */
bool sml_job_lacks_memory(const struct sml_job *job);

/* ---- going on after a switch's death (resume.c) ---- */

/* All ranks are here and have reported: hand over, then sml_job_admit(). */
void sml_job_resume(struct sml_job *job);

/* A keeper's answer, for the ranks that lack the result. */
void sml_job_result(struct sml_job *job, const SmlControl__Result *result);

void sml_job_free_plans(struct sml_job *job);

/* Keep what a member reports with its Join. False: no memory, or the job has reported too much. */
bool sml_job_keep_report(struct sml_job *job, unsigned rank, const SmlControl__Join *join);
void sml_job_free_report(struct sml_job *job, unsigned rank);

/* ---- slots (job/members/slots.c) ---- */

/* Reserve the minimum for a job. False: there is not even that; text says so. */
bool sml_job_reserve_slots(struct sml_job *job, char *text, size_t bytes);

/*
 * The packets' length is known: what it wants, or its share of what there is. False: a leaf has not
 * even the minimum.
 */
bool sml_job_take_slots(struct sml_job *job);

/*
 * The free slots were fragmented: take half as many, if that is enough. False: it was the minimum.
 */
bool sml_job_take_fewer_slots(struct sml_job *job);

/*
 * Right after that, if the job has to wait: it holds what it reserved again. Its members may still
 * change, and the next ones may have more shards.
 */
void sml_job_keep_reserve(struct sml_job *job);

void sml_job_give_back_slots(struct sml_job *job);

/* ---- the state of a job (stall.c) ---- */

/* Its call does not end: tell it what slots are waiting for, but not too often. */
void sml_job_tell_stalls(struct sml_job *job, struct sml_member *member);

/* All leaves have said it, or had the time: the ranks that have asked are told. */
void sml_job_pass_leaves_stalls(struct sml_job *job);

/* A rank reports what its slots are waiting for: pass it to those who have asked. */
void sml_job_pass_stalls(struct sml_job *job, uint16_t from, const SmlControl__StallReport *in);

/* The job has failed: tell every member, with what slots are waiting for, and end the connections.
 */
void sml_job_abort_all(struct sml_job *job, int error, const char *text);

/* ---- results by multicast (job/members/multicast.c) ---- */

/* What a rank must know of its group, in this message's memory. Nothing if there is no group. */
struct sml_group;
void sml_job_describe_group(const struct sml_job *job, struct sml_group *group,
			    SmlControl__Group *message, SmlControl__Admitted *admitted);

/* Note whether a packet to the group reaches the rank, as it has just said. */
void sml_job_note_group(struct sml_job *job, uint16_t rank, bool reached);

/* Log, once for each, the ranks that the group does not reach, or no longer reaches. */
void sml_job_watch_group(struct sml_job *job);

/* When to check again; UINT64_MAX: never. */
uint64_t sml_job_watch_ends(const struct sml_job *job);

/* Do results go to the rank by multicast? */
bool sml_job_is_by_group(const struct sml_job *job, uint16_t rank);

/* ---- status requests (job/report/status.c) ---- */

void sml_status_send(struct sml_jobs *jobs, struct sml_peer *peer);

/* A Status as it is now, packed; the caller frees it. NULL: no memory. */
uint8_t *sml_status_pack(struct sml_jobs *jobs, size_t *n);

/* A rank tells what it has moved. */
void sml_job_note_traffic(struct sml_peer *peer, const SmlControl__Traffic *traffic);

/* When quiet members are next checked on the data path; and the check. */
uint64_t sml_job_signs_due(const struct sml_job *job);
void sml_job_look_for_signs(struct sml_job *job);

#endif
