/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * The unchanged program behind another entry. This entry turns the one packet of a
 * BPF_PROG_TEST_RUN with repetitions into the next contribution each time: rank after rank,
 * slot after slot. A second entry measures the cost of this entry itself.
 */
#include "bpf/switchml.bpf.c"

const volatile uint32_t bench_ranks = 1;
const volatile uint32_t bench_slots = 1;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(
		value, struct { uint32_t turn; });
} bench_state SEC(".maps");

/* Headers for IPv4 without VLAN, as the test makes them. The lanes' sum is 0. */
static __always_inline int next_contribution(struct xdp_md *ctx)
{
	uint32_t zero = 0, *turn = bpf_map_lookup_elem(&bench_state, &zero), t;
	struct udphdr *udp = frame_data(ctx) + sizeof(struct ethhdr) + sizeof(struct iphdr);
	struct iphdr *ip = frame_data(ctx) + sizeof(struct ethhdr);
	struct sml_header *header = (struct sml_header *)(udp + 1);
	struct sml_xdp_job *job;
	uint32_t rank;
	uint64_t sum;

	if (!turn || (void *)(header + 1) > frame_end(ctx))
		return -1;
	job = job_of(header);
	if (!job)
		return -1;
	t = (*turn)++;
	rank = t % bench_ranks;
	t /= bench_ranks;
	header->kind = SML_PACKET_CONTRIBUTION;
	header->rank = (uint8_t)rank;
	header->slot_be = sml_be16((uint16_t)(t % bench_slots));
	header->use_be = sml_be32(t / bench_slots);
	header->key_be = sml_be64(job->rules.cookies[rank % SML_MAX_CHILDREN]);
	header->digest_be = 0;
	sum = (uint64_t)sum_fold((uint64_t)ip->saddr + ip->daddr + sml_be16(PROTOCOL_UDP)) +
	      udp->source + udp->dest + 2u * udp->len + header_sum(header);
	udp->check = (uint16_t)~sum_fold(sum);
	return 0;
}

SEC("xdp")
int bench_entry(struct xdp_md *ctx)
{
	if (next_contribution(ctx) < 0)
		return XDP_ABORTED;
	return receive(16, ctx);
}

SEC("xdp")
int bench_overhead(struct xdp_md *ctx)
{
	return next_contribution(ctx) < 0 ? XDP_ABORTED : XDP_DROP;
}
