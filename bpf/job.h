/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/* eBPF: a job's rows in the maps, and what is counted in them. */
#ifndef SML_BPF_JOB_H
#define SML_BPF_JOB_H

#include "bpf/maps.h"

/* The job may be another one: the caller looks at its number. */
static __always_inline struct sml_xdp_job *job_of(const struct sml_header *header)
{
	uint32_t place = sml_be32(header->job_be) % SML_XDP_JOB_PLACES;

	return bpf_map_lookup_elem(&sml_jobs, &place);
}

static __always_inline struct sml_xdp_peer *peer_of(uint32_t index, uint8_t rank, uint8_t shard)
{
	uint32_t row = (index * SML_MAX_RANKS + rank) * SML_MAX_SHARDS + shard;

	return bpf_map_lookup_elem(&sml_peers, &row);
}

static __always_inline struct sml_xdp_counters *counters_of(const struct sml_xdp_job *job)
{
	uint32_t index = job->index;

	return bpf_map_lookup_elem(&sml_counters, &index);
}

static __always_inline void count(const struct sml_xdp_job *job, uint32_t fate)
{
	struct sml_xdp_counters *counters = counters_of(job);

	if (counters && fate < SML_XDP_FATES)
		counters->traffic.fates[fate]++;
}

/* A packet that ends here: the stack won't see it. */
static __always_inline void count_received(const struct sml_xdp_job *job, uint32_t fate,
					   uint32_t bytes)
{
	struct sml_xdp_counters *counters = counters_of(job);

	if (!counters || fate >= SML_XDP_FATES)
		return;
	counters->traffic.fates[fate]++;
	counters->traffic.packets_received++;
	counters->traffic.bytes_received += bytes;
}

static __always_inline void count_sent(const struct sml_xdp_job *job, uint32_t packets,
				       uint32_t bytes)
{
	struct sml_xdp_counters *counters = counters_of(job);

	if (!counters)
		return;
	counters->traffic.packets_sent += packets;
	counters->traffic.bytes_sent += (uint64_t)packets * bytes;
}

static __always_inline void count_rank(const struct sml_xdp_job *job, uint8_t rank,
				       enum sml_verdict verdict)
{
	uint32_t row = job->index * SML_MAX_RANKS + rank;
	struct sml_xdp_rank_counters *counters = bpf_map_lookup_elem(&sml_rank_counters, &row);

	if (!counters)
		return;
	if (verdict == SML_VERDICT_ABSORBED || verdict == SML_VERDICT_COMPLETED)
		counters->contributions++;
	else if (verdict == SML_VERDICT_RESEND)
		counters->resends++;
}

#endif
