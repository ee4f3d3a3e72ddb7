/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs whose ranks have the slots: see peers.c. */
#ifndef SML_JOB_MEMBERS_PEERS_H
#define SML_JOB_MEMBERS_PEERS_H

#include "job/members/job.h"

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

/* A rank that has slots reports their counters. */
void sml_job_note_served(struct sml_peer *peer, const SmlControl__StripeStatus *served);

/* What is counted here of a job; of a job whose ranks have the slots, how long they waited. */
void sml_job_count(const struct sml_job *job, struct sml_job_counters *counters);

/* The peers that one rank must know. The caller frees them. Returns NULL if there is no memory. */
struct sml_peer_list *sml_job_describe_peers(const struct sml_job *job, uint16_t to,
					     SmlControl__Admitted *admitted);

#endif
