/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/* eBPF: a job's rows in the maps, and their counters. */
#ifndef SML_BPF_JOB_H
#define SML_BPF_JOB_H

#include "bpf/maps.h"

/* This may be another job: the caller checks its number. */
static __always_inline struct sml_xdp_job *job_of(const struct sml_header *header)
{
	uint32_t map_row = sml_be32(header->job_be) % SML_XDP_JOB_PLACES;

	return bpf_map_lookup_elem(&sml_jobs, &map_row);
}

/* The job that this packet of a parent is for, or NULL. */
static __always_inline struct sml_xdp_job *leaf_job_of(const struct sml_header *header)
{
	uint32_t parents = sml_be32(header->job_be) % SML_XDP_JOB_PLACES, map_row;
	uint32_t *found = bpf_map_lookup_elem(&sml_leaf_places, &parents);
	struct sml_xdp_job *job;

	if (!found || *found == 0)
		return (void *)0;
	map_row = *found - 1;
	job = bpf_map_lookup_elem(&sml_jobs, &map_row);
	if (!job || !job->rules.is_leaf || header->job_be != sml_be32(job->rules.parent.job))
		return (void *)0;
	return job;
}

static __always_inline struct sml_xdp_peer *peer_of(uint32_t index, uint8_t rank, uint8_t shard)
{
	uint32_t row = (index * (SML_MAX_CHILDREN + 1) + rank) * SML_MAX_SHARDS + shard;

	return bpf_map_lookup_elem(&sml_peers, &row);
}

static __always_inline uint32_t *renewal_of(uint32_t index, uint8_t rank, uint8_t shard)
{
	uint32_t row = (index * (SML_MAX_CHILDREN + 1) + rank) * SML_MAX_SHARDS + shard;

	return bpf_map_lookup_elem(&sml_renewals, &row);
}

static __always_inline struct sml_xdp_counters *counters_of(const struct sml_xdp_job *job)
{
	uint32_t index = job->index;

	return bpf_map_lookup_elem(&sml_counters, &index);
}

static __always_inline void count(struct sml_xdp_counters *counters, uint32_t fate)
{
	if (fate < SML_XDP_FATES)
		counters->traffic.fates[fate]++;
}

/* A packet of the job that ends here: the stack does not see it. */
static __always_inline void count_received(struct sml_xdp_counters *counters, uint32_t fate,
					   uint32_t rank, uint32_t bytes)
{
	count(counters, fate);
	counters->traffic.packets_received++;
	counters->traffic.bytes_received += bytes;
	if (rank >= SML_MAX_CHILDREN)
		return;
	if (fate == SML_VERDICT_ABSORBED || fate == SML_VERDICT_COMPLETED ||
	    fate == SML_VERDICT_FULL)
		counters->contributions[sml_below(rank, SML_MAX_CHILDREN)]++;
	else if (fate == SML_VERDICT_RESEND)
		counters->resends[sml_below(rank, SML_MAX_CHILDREN)]++;
}

static __always_inline void count_sent(struct sml_xdp_counters *counters, uint32_t packets,
				       uint32_t bytes)
{
	counters->traffic.packets_sent += packets;
	counters->traffic.bytes_sent += (uint64_t)packets * bytes;
}

#endif
