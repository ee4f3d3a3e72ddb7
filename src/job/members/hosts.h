/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks of one job on one machine, which may share memory: see hosts.c. */
#ifndef SML_JOB_MEMBERS_HOSTS_H
#define SML_JOB_MEMBERS_HOSTS_H

#include "job/members/job.h"

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

/* The rank that sends this one's packets, if any are sent: itself, or the first of its host. */
unsigned sml_job_sender(const struct sml_job *job, unsigned rank);

/*
 * All are ready: do some contribute together, and does a rank that could not share memory, here or
 * at another switch of the job?
 */
bool sml_job_lacks_memory(const struct sml_job *job);

#endif
