/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/* eBPF: a worker's address, learned from its probe, and the headers of packets to it. */
#ifndef SML_BPF_PEER_H
#define SML_BPF_PEER_H

#include "bpf/frame.h"

/* All lengths of headers are 2 more than a multiple of 4: 42, 46, 50, 62, 66, 70. */
#define HEADER_WORDS ((SML_XDP_MAX_HEADERS - 4) / 4)

static __always_inline bool copy_headers(uint8_t *to, void *to_end, const uint8_t *from,
					 const void *from_end, uint32_t bytes)
{
	if ((void *)(to + 2) > to_end || (const void *)(from + 2) > from_end)
		return false;
	*(uint16_t *)to = *(const uint16_t *)from;
	for (uint32_t i = 0; i < HEADER_WORDS; i++) {
		uint32_t at = 2 + 4 * i;

		if (at + 4 > bytes)
			break;
		if ((void *)(to + at + 4) > to_end || (const void *)(from + at + 4) > from_end)
			return false;
		*(uint32_t *)(to + at) = *(const uint32_t *)(from + at);
	}
	return true;
}

static __always_inline void turn_ethernet(uint8_t *headers)
{
	uint16_t *words = (uint16_t *)headers;

#pragma clang loop unroll(full)
	for (int i = 0; i < 3; i++) {
		uint16_t word = words[i];

		words[i] = words[i + 3];
		words[i + 3] = word;
	}
}

static __always_inline void turn_ipv4(struct sml_xdp_peer *peer, struct iphdr *ip)
{
	const uint16_t *words = (const uint16_t *)ip;
	uint32_t address = ip->saddr, sum = 0;

	ip->saddr = ip->daddr;
	ip->daddr = address;
	ip->tos = 0;
	ip->tot_len = 0;
	ip->id = 0;
	ip->frag_off = sml_be16(DONT_FRAGMENT);
	ip->ttl = 64;
	ip->check = 0;
#pragma clang loop unroll(full)
	for (int i = 0; i < 10; i++)
		sum += words[i];
	peer->ip_sum = sum_fold(sum);
}

static __always_inline void turn_ipv6(struct ipv6hdr *ip)
{
	struct in6_addr address = ip->saddr;

	ip->saddr = ip->daddr;
	ip->daddr = address;
	*(uint32_t *)ip = sml_be32(0x60000000);
	ip->payload_len = 0;
	ip->hop_limit = 64;
}

static __always_inline void turn_udp(struct sml_xdp_peer *peer, struct udphdr *udp,
				     const struct frame *frame)
{
	uint16_t port = udp->source;

	udp->source = udp->dest;
	udp->dest = port;
	udp->len = 0;
	udp->check = 0;
	peer->udp_sum = sum_fold((uint64_t)frame->addresses_sum + udp->source + udp->dest);
}

/* Reverse a probe's headers. False: the frame is too unusual to be answered. */
static __always_inline bool peer_learn(struct sml_xdp_peer *peer, struct xdp_md *ctx,
				       const struct frame *frame)
{
	uint32_t l3 = frame->l3, bytes = frame->udp + sizeof(struct udphdr);
	void *l4;

	if (l3 > 22 || bytes > 70)
		return false;
	l3 = sml_below(l3, 32);
	peer->ifindex = 0;
	if (!copy_headers(peer->headers, peer->headers + SML_XDP_MAX_HEADERS, frame_data(ctx),
			  frame_end(ctx), bytes))
		return false;
	peer->headers_bytes = (uint16_t)bytes;
	peer->l3 = (uint16_t)l3;
	peer->v6 = frame->v6;
	turn_ethernet(peer->headers);
	if (frame->v6) {
		turn_ipv6((void *)peer->headers + l3);
		l4 = peer->headers + l3 + sizeof(struct ipv6hdr);
	} else {
		turn_ipv4(peer, (void *)peer->headers + l3);
		l4 = peer->headers + l3 + sizeof(struct iphdr);
	}
	turn_udp(peer, l4, frame);
	peer->ifindex = ctx->ingress_ifindex;
	return true;
}

static __always_inline void write_lengths(const struct sml_xdp_peer *peer, uint8_t *l3, bool v6,
					  uint16_t payload_sum, uint32_t udp_length)
{
	uint16_t length_be = sml_be16((uint16_t)udp_length), check;
	struct udphdr *udp;

	if (v6) {
		struct ipv6hdr *ip = (void *)l3;

		ip->payload_len = length_be;
		udp = (void *)(ip + 1);
	} else {
		struct iphdr *ip = (void *)l3;

		ip->tot_len = sml_be16((uint16_t)(udp_length + sizeof(*ip)));
		ip->check = (uint16_t)~sum_fold((uint64_t)peer->ip_sum + ip->tot_len);
		udp = (void *)(ip + 1);
	}
	udp->len = length_be;
	check = (uint16_t)~sum_fold((uint64_t)peer->udp_sum + payload_sum + 2u * length_be);
	udp->check = check ? check : 0xffff;
}

/*
 * Give the frame, whose UDP header lies at `old_udp` and whose payload has `length`
 * bytes and the sum payload_sum, the headers of a packet to the peer.
 */
static __always_inline bool peer_address(const struct sml_xdp_peer *peer, struct xdp_md *ctx,
					 uint32_t old_udp, uint32_t length, uint16_t payload_sum)
{
	uint32_t bytes = peer->headers_bytes, l3 = peer->l3, l3_bytes;
	uint32_t old_bytes = old_udp + sizeof(struct udphdr);
	uint8_t *data, *end, *ip;
	bool v6 = peer->v6;

	if (bytes != old_bytes && bpf_xdp_adjust_head(ctx, (int)old_bytes - (int)bytes) != 0)
		return false;
	data = frame_data(ctx);
	end = frame_end(ctx);
	if (!copy_headers(data, end, peer->headers, peer->headers + SML_XDP_MAX_HEADERS, bytes))
		return false;
	l3_bytes = (v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr)) + sizeof(struct udphdr);
	if (l3 > 22 || l3 + l3_bytes != bytes)
		return false;
	ip = data + sml_below(l3, 32);
	if (ip + sizeof(struct ipv6hdr) + sizeof(struct udphdr) > end)
		return false;
	write_lengths(peer, ip, v6, payload_sum, length + (uint32_t)sizeof(struct udphdr));
	return true;
}

#endif
