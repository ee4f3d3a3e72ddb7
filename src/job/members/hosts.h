/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks of one job on one machine, which may share memory: see hosts.c. */
#ifndef SML_JOB_MEMBERS_HOSTS_H
#define SML_JOB_MEMBERS_HOSTS_H

#include "job/members/job.h"

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

#endif
