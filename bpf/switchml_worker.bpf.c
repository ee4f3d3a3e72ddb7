/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * Passes a worker's results around the network stack. A packet of a registered flow goes to the
 * flow's AF_XDP socket if it is exactly one of our packets and arrived on the queue that the socket
 * is bound to. All other packets go to the stack unchanged. The worker loses nothing by that,
 * because its UDP socket is there.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#include <bpf/bpf_helpers.h>

#include "bpf/frame.h"
#include "bpf/worker.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SML_WORKER_FLOWS);
	__type(key, struct sml_worker_flow_key);
	__type(value, struct sml_worker_flow);
} sml_wflows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SML_WORKER_PLACES);
	__type(key, uint32_t);
	__type(value, uint64_t);
} sml_wowners SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, SML_WORKER_PLACES);
	__type(key, uint32_t);
	__type(value, uint32_t);
} sml_wsockets SEC(".maps");

static __always_inline bool is_owned(const struct sml_worker_flow *flow)
{
	uint32_t place = flow->place;
	uint64_t *owner = bpf_map_lookup_elem(&sml_wowners, &place);

	return owner && *owner == flow->owner;
}

/* Exactly one whole packet of ours: not several that the stack has coalesced. */
static __always_inline bool is_one_packet(const struct udphdr *udp, const void *end,
					  uint32_t udp_length)
{
	const struct sml_header *header = (const struct sml_header *)(udp + 1);

	return (const void *)(header + 1) <= end && sml_be16(udp->len) == udp_length &&
	       udp_length == sizeof(*udp) + SML_HEADER_BYTES + 4u * sml_be16(header->lanes_be);
}

static __always_inline int deliver(struct xdp_md *ctx, struct sml_worker_flow_key *key,
				   const struct udphdr *udp, uint32_t udp_length)
{
	const uint32_t headers = sizeof(struct ethhdr) + sizeof(struct ipv6hdr);
	uint32_t queue = ctx->rx_queue_index;
	struct sml_worker_flow *flow;

	if ((const void *)(udp + 1) > frame_end(ctx))
		return XDP_PASS;
	key->source_port = udp->source;
	key->destination_port = udp->dest;
	flow = bpf_map_lookup_elem(&sml_wflows, key);
	if (!flow)
		return XDP_PASS;
	if (flow->seen != queue + 1)
		flow->seen = queue + 1;
	if (flow->queue != queue || headers + udp_length > flow->most_bytes ||
	    !is_one_packet(udp, frame_end(ctx), udp_length) || !is_owned(flow))
		return XDP_PASS;
	return (int)bpf_redirect_map(&sml_wsockets, flow->place, XDP_PASS);
}

/*
 * Offsets are constant in each function, so that the verifier accepts them without CAP_PERFMON. So
 * there are separately compiled functions, and no VLAN tags.
 */
static __noinline int take_ipv4(struct xdp_md *ctx)
{
	const struct iphdr *ip = frame_data(ctx) + sizeof(struct ethhdr);
	struct sml_worker_flow_key key = {0};
	struct frame frame = {0};
	uint32_t udp_length = 0;

	if (!parse_ipv4(&frame, ip, frame_end(ctx), &udp_length))
		return XDP_PASS;
	key.source[2] = key.destination[2] = sml_be32(0xffff);
	key.source[3] = ip->saddr;
	key.destination[3] = ip->daddr;
	return deliver(ctx, &key, (const struct udphdr *)(ip + 1), udp_length);
}

static __noinline int take_ipv6(struct xdp_md *ctx)
{
	const struct ipv6hdr *ip = frame_data(ctx) + sizeof(struct ethhdr);
	struct sml_worker_flow_key key = {0};
	struct frame frame = {0};
	uint32_t udp_length = 0;

	if (!parse_ipv6(&frame, ip, frame_end(ctx), &udp_length))
		return XDP_PASS;
	__builtin_memcpy(key.source, &ip->saddr, sizeof(key.source));
	__builtin_memcpy(key.destination, &ip->daddr, sizeof(key.destination));
	return deliver(ctx, &key, (const struct udphdr *)(ip + 1), udp_length);
}

SEC("xdp")
int sml_worker(struct xdp_md *ctx)
{
	const struct ethhdr *ethernet = frame_data(ctx);

	if ((const void *)(ethernet + 1) > frame_end(ctx))
		return XDP_PASS;
	if (ethernet->h_proto == sml_be16(ETHERTYPE_IPV4))
		return take_ipv4(ctx);
	return ethernet->h_proto == sml_be16(ETHERTYPE_IPV6) ? take_ipv6(ctx) : XDP_PASS;
}
