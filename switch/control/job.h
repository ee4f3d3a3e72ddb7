/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job on the switch.
 *
 *	            all ranks are here        all are ready         one has asked
 *	JOINING ----------------> PROBING ----------------> RUNNING -----> LEAVING -> gone
 *	   |  \                    ^  |                         |              |
 *	   |   +--> HANDING OVER --+  |                         |              |
 *	   +---------- (job_resume.c) +---- sml_job_fail() -----+--------------+
 *
 * The invariant: a job in PROBING or later has all its members, slots in the
 * dataplane, and a number by which packets name it.
 */
#ifndef SML_SWITCH_JOB_H
#define SML_SWITCH_JOB_H

#include "core/resume.h"
#include "switch/control/server.h"

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

struct sml_member {
	struct sml_connection *connection; /* NULL: not here, or has left */
	char host[SML_NAME_BYTES];
	uint32_t pid;
	uint32_t lanes;	       /* that its path seems to take; when ready, takes */
	uint32_t heartbeat_ms; /* silence that means death */
	uint64_t heard_ns;     /* when its connection ended: the last that was heard */
	uint64_t stalls_told_ns;
	bool ready, leaving, stalls_wanted;
	bool told_unreached; /* that the group does not reach it */
	/* Where it takes packets, if it has slots: address 4 or 16 bytes, 0: the control port's. */
	uint8_t address[16], host_bytes;
	bool is_local; /* on this host */
	uint32_t ports[SML_MAX_SHARDS];
	struct sml_served served; /* as it last told */
	/* What it says it has and lacks: it resumes. Of protobuf-c's memory. */
	SmlControl__Join *resume;
};

struct sml_job {
	struct sml_server *server;
	char name[SML_NAME_BYTES];
	uint32_t place; /* in server->jobs */
	enum sml_job_state state;
	uint8_t n_ranks, first_rank; /* first_rank: who joined first and set the terms */
	uint8_t n_members, n_ready, n_leaving;
	uint64_t begun_ns, waiting_told_ns;
	/* The terms that all ranks must share. */
	char library_version[SML_VERSION_BYTES];
	uint32_t shards, head_slots_wanted, data_slots_wanted, stripe, stripes;
	bool no_tickets;
	struct sml_pool_rules rules;
	bool has_pool;
	struct sml_member members[SML_MAX_RANKS];
	/* While two ranks are asked what they believe. */
	struct sml_mismatch mismatch;
	uint64_t mismatch_ns; /* 0: none */
	char beliefs[2][SML_REASON_BYTES];
	uint64_t *secrets; /* of stripes that the ranks have: job_peers.c */
	/* Going on after another switch's death. */
	bool resumes;
	struct sml_resume_plan plans[SML_STREAMS];
	uint32_t n_results_missing;
};

/* Two chunks a slot of the largest job that there can be. */
#define SML_MAX_PLAN (2 * SML_MAX_SLOTS)

uint64_t sml_random_u64(void);

/* A message's peers, to be freed when it has been sent. */
struct sml_meeting {
	SmlControl__Peer peers[SML_MAX_RANKS], *list[SML_MAX_RANKS];
};

/* Of a rank that brings slots: where it is. */
void sml_job_note_peer(struct sml_member *member, const SmlControl__Join *join);

/* All such ranks are here: how many stripes, and their secrets. 0 or -ENOMEM. */
int sml_job_meet(struct sml_job *job);

/* "rank 3 at 10.0.0.4, UDP port 40001" */
void sml_job_name_stripe(const struct sml_job *job, uint32_t stripe, char *text, size_t bytes);

/* What one rank is to know of all. To be freed; NULL: no memory. */
struct sml_meeting *sml_job_describe_peers(const struct sml_job *job, uint8_t to,
					   SmlControl__Admitted *admitted);

/* All ranks are here and have reported: hand over, then sml_job_admit(). */
void sml_job_resume(struct sml_job *job);

/* A keeper's answer: to those who lack it. */
void sml_job_result(struct sml_job *job, const SmlControl__Result *result);

void sml_job_free_plans(struct sml_job *job);

/* The packets' length is known: where the choice is the switch's, some are enough. */
void sml_job_give_back_slots(struct sml_job *job);

/* Its call does not end: tell it what slots are waiting for, if it has not just been told. */
void sml_job_tell_stalls(struct sml_job *job, struct sml_member *member);

/* A rank tells what its slots are waiting for: to those who have asked. */
void sml_job_pass_stalls(struct sml_job *job, uint8_t from, const SmlControl__StallReport *in);

/* The job has failed: tell every member, with what slots are waiting for, and end the connections.
 */
void sml_job_abort_all(struct sml_job *job, int error, const char *text);

/* What it is to know of its group, in this message's memory. Nothing where there is none. */
struct sml_group;
void sml_job_describe_group(const struct sml_job *job, struct sml_group *group,
			    SmlControl__Group *message, SmlControl__Admitted *admitted);

/* Does a packet to the group reach the rank? It has just said. */
void sml_job_note_group(struct sml_job *job, uint8_t rank, bool reached);

/* Say, once for each, whom the group does not reach, from the beginning or any more. */
void sml_job_watch_group(struct sml_job *job);

/* Do results go to the rank by multicast? */
bool sml_job_is_by_group(const struct sml_job *job, uint8_t rank);

/* Give the job its slots in the dataplane and tell every rank. */
void sml_job_admit(struct sml_job *job, uint32_t epoch);

#endif
