/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * A worker's results past the network stack: a packet of one of the registered flows,
 * which is exactly one of ours and came by the queue that the flow's AF_XDP socket is
 * bound to, goes there. Everything else goes to the stack as it came, and for the
 * worker that is no loss: its UDP socket is there.
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

static __always_inline void map_ipv4(uint32_t *words, uint32_t address)
{
	words[0] = words[1] = 0;
	words[2] = sml_be32(0xffff);
	words[3] = address;
}

static __always_inline bool read_key(struct xdp_md *ctx, const struct frame *frame,
				     struct sml_worker_flow_key *key)
{
	const void *l3 = frame_data(ctx) + sml_below(frame->l3, 32);
	const struct udphdr *udp = frame_data(ctx) + sml_below(frame->udp, 64);
	const struct ipv6hdr *v6 = l3;
	const struct iphdr *v4 = l3;

	if ((const void *)(udp + 1) > frame_end(ctx))
		return false;
	key->source_port = udp->source;
	key->destination_port = udp->dest;
	if (!frame->v6) {
		if ((const void *)(v4 + 1) > frame_end(ctx))
			return false;
		map_ipv4(key->source, v4->saddr);
		map_ipv4(key->destination, v4->daddr);
		return true;
	}
	if ((const void *)(v6 + 1) > frame_end(ctx))
		return false;
	__builtin_memcpy(key->source, &v6->saddr, sizeof(key->source));
	__builtin_memcpy(key->destination, &v6->daddr, sizeof(key->destination));
	return true;
}

/* One packet of ours, whole: not several that the stack has glued together. */
static __always_inline bool is_one_packet(struct xdp_md *ctx, const struct frame *frame)
{
	const struct udphdr *udp = frame_data(ctx) + sml_below(frame->udp, 64);
	const struct sml_header *header = (const struct sml_header *)(udp + 1);

	return (const void *)(header + 1) <= frame_end(ctx) &&
	       frame->length == SML_HEADER_BYTES + 4u * sml_be16(header->lanes_be);
}

static __always_inline bool is_owned(const struct sml_worker_flow *flow)
{
	uint32_t place = flow->place;
	uint64_t *owner = bpf_map_lookup_elem(&sml_wowners, &place);

	return owner && *owner == flow->owner;
}

SEC("xdp")
int sml_worker(struct xdp_md *ctx)
{
	struct sml_worker_flow_key key = {0};
	struct sml_worker_flow *flow;
	struct frame frame = {0};
	uint32_t queue = ctx->rx_queue_index;

	if (!frame_parse_udp(ctx, &frame) || !read_key(ctx, &frame, &key))
		return XDP_PASS;
	flow = bpf_map_lookup_elem(&sml_wflows, &key);
	if (!flow)
		return XDP_PASS;
	if (flow->seen != queue + 1)
		flow->seen = queue + 1;
	if (flow->queue != queue || (uint32_t)(ctx->data_end - ctx->data) > flow->most_bytes ||
	    !is_one_packet(ctx, &frame) || !is_owned(flow))
		return XDP_PASS;
	return (int)bpf_redirect_map(&sml_wsockets, flow->place, XDP_PASS);
}
