/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by dataplane.c (operations), jobs.c (a job on the target), hosts.c and thread.c. */
#ifndef SML_SWITCH_P4_INTERNAL_H
#define SML_SWITCH_P4_INTERNAL_H

#include "net/listen_address.h"
#include "p4/constants.h"
#include "switch/p4/target.h"
#include "switch/shared/daemon.h"

#define SML_P4_MAC_BYTES 6

/* What --hosts can have. */
#define SML_P4_HOSTS	  1024
#define SML_P4_HOST_PORTS 64

struct sml_p4_host {
	uint8_t mac[SML_P4_MAC_BYTES];
	uint16_t port; /* of the switch */
};

struct sml_p4_hosts {
	struct sml_p4_host all[SML_P4_HOSTS];
	unsigned n;
	struct sml_p4_node ports[SML_P4_HOST_PORTS]; /* each of the hosts' ports once */
	unsigned n_ports;
};

/* Where a rank's packets come from, as the program has written it into a probe. */
struct sml_p4_peer {
	uint8_t mac[SML_P4_MAC_BYTES];
	uint16_t port; /* of the switch */
	bool tagged;
	uint16_t tci;
	struct sml_path path; /* its address */
	bool known;	      /* a probe has come */
	bool stamped;	      /* it has come through the program */
};

struct sml_p4_job {
	struct sml_daemon_job common;
	uint32_t incarnation;
	uint32_t first_buffer;
	bool has_entries; /* on the target: of its ranks and slots, and a group */
	/* What the counters of its place showed before it came. */
	uint64_t fates_before[SML_P4_FATES], bytes_before[SML_P4_FATES];
	uint64_t sent_before[2];
	uint64_t contributions_before[SML_MAX_CHILDREN], resends_before[SML_MAX_CHILDREN];
	/* Once the job runs, under both mutexes. */
	struct sml_p4_peer peers[SML_MAX_CHILDREN][SML_MAX_SHARDS];
};

struct sml_dataplane {
	struct sml_daemon daemon; /* its counters: of ended jobs, too */
	/* The target, for the control thread and the dataplane's. */
	pthread_mutex_t target_mutex;
	const struct sml_p4_target_operations *operations;
	struct sml_p4_address target_address;
	struct sml_p4_target *target;
	struct sml_p4_limits limits;
	struct sml_p4_hosts hosts; /* of --hosts */
	uint32_t incarnation;
	uint64_t looks_again_ns;       /* at registers, for the control thread */
	struct sml_listen_address own; /* the address that results come from */
};

static inline struct sml_p4_job *sml_p4_job_of(struct sml_dataplane *dataplane, uint32_t number)
{
	return (struct sml_p4_job *)sml_daemon_job_of(&dataplane->daemon, number);
}

static inline uint32_t sml_p4_buffers(const struct sml_p4_job *job)
{
	return 2u * ((uint32_t)job->common.rules.head_slots + job->common.rules.data_slots);
}

/* The job's number in all arrays of jobs. */
static inline uint16_t sml_p4_job_index(const struct sml_p4_job *job)
{
	return (uint16_t)(job->common.rules.job % SML_MAX_JOBS);
}

/* Ports of different pipes have different registers. */
static inline unsigned sml_p4_pipe(const struct sml_dataplane *dataplane, uint16_t port)
{
	unsigned ports = dataplane->operations->pipe_ports;

	return ports > 0 ? port / ports : 0;
}

/* ---- load.c ---- */

/*
 * A target as its user gives it, "[PROTOCOL://]HOST:PORT[/DEVICE]", and the operations of its
 * protocol's module: 0, or an error with a text.
 */
int sml_p4_load(const char *text, struct sml_p4_address *address,
		const struct sml_p4_target_operations **operations);
extern const struct sml_p4_services sml_p4_services;

/* ---- hosts.c ---- */

/* Where all other traffic goes, as its user gives it: "MAC=PORT,MAC=PORT". */
int sml_p4_hosts_parse(struct sml_p4_hosts *hosts, const char *text);
/* The same, onto the target. Both: 0, or an error with a text. */
int sml_p4_hosts_set(struct sml_dataplane *dataplane);

/* ---- jobs.c: the control thread. Without a result: a lost target has ended the process. ---- */

int sml_p4_job_add(struct sml_dataplane *dataplane, struct sml_p4_job *job);
void sml_p4_job_start(struct sml_dataplane *dataplane, struct sml_p4_job *job);
void sml_p4_job_remove(struct sml_dataplane *dataplane, struct sml_p4_job *job);
/* The dataplane's thread, with its mutex: from now on, results go there. */
void sml_p4_job_renew(struct sml_dataplane *dataplane, struct sml_p4_job *job, uint8_t rank,
		      uint8_t shard, const struct sml_p4_peer *peer);
void sml_p4_job_count(struct sml_dataplane *dataplane, const struct sml_p4_job *job,
		      struct sml_job_counters *counters);
/* Adds the job's packets and bytes. */
void sml_p4_job_traffic(struct sml_dataplane *dataplane, const struct sml_p4_job *job,
			struct sml_dataplane_counters *counters);

/*
 * The target is gone or does not do what it is told, so nothing here can go on: end the process, as
 * a switch ends that dies, and the ranks resume at another one, or here when it has started again.
 */
_Noreturn void sml_p4_lost(void);
void sml_p4_must(int rc);

/* ---- slots.c: the control thread, as in jobs.c ---- */

/* The entries of a staged program: many at once. The target's mutex is taken by the caller. */
void sml_p4_slots_change(struct sml_dataplane *dataplane, const struct sml_p4_job *job,
			 sml_p4_change *change);

uint32_t sml_p4_job_slots(struct sml_dataplane *dataplane, const struct sml_p4_job *job,
			  struct sml_slot_progress *states, uint32_t n);

/* ---- thread.c ---- */

#define SML_P4_INBOX_BYTES (256u << 10)

extern const struct sml_daemon_service sml_p4_thread_service;

#endif
