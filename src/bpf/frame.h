/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * eBPF: from a frame to a UDP payload and back. Uses offsets, not pointers, because offsets stay
 * valid when the frame's tail moves.
 */
#ifndef SML_BPF_FRAME_H
#define SML_BPF_FRAME_H

#include "bpf/layout.h"

#define ETHERTYPE_IPV4	 0x0800
#define ETHERTYPE_IPV6	 0x86dd
#define ETHERTYPE_8021Q	 0x8100
#define ETHERTYPE_8021AD 0x88a8
#define PROTOCOL_UDP	 17
#define FRAGMENT_BITS	 0x3fff /* more fragments, or not the first */
#define DONT_FRAGMENT	 0x4000

struct frame {
	uint32_t l3;
	uint32_t udp;
	uint32_t length;	/* of UDP's payload */
	uint32_t addresses_sum; /* and protocol: the pseudo header without the length */
	bool v6;
};

struct vlan_tag {
	uint16_t tci_be;
	uint16_t type_be;
};

static __always_inline void *frame_data(struct xdp_md *ctx)
{
	return (void *)(long)ctx->data;
}

static __always_inline void *frame_end(struct xdp_md *ctx)
{
	return (void *)(long)ctx->data_end;
}

/* One's complement sums: words in wire order, whatever the CPU's byte order. */
static __always_inline uint16_t sum_fold(uint64_t sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

static __always_inline bool parse_ipv4(struct frame *frame, const struct iphdr *ip, void *end,
				       uint32_t *udp_length)
{
	if ((void *)(ip + 1) > end || *(const uint8_t *)ip != 0x45 ||
	    ip->protocol != PROTOCOL_UDP || (ip->frag_off & sml_be16(FRAGMENT_BITS)))
		return false;
	*udp_length = sml_be16(ip->tot_len) - (uint32_t)sizeof(*ip);
	frame->addresses_sum = sum_fold((uint64_t)ip->saddr + ip->daddr + sml_be16(PROTOCOL_UDP));
	frame->v6 = false;
	return true;
}

static __always_inline uint64_t address_sum(const struct in6_addr *address)
{
	const uint32_t *words = (const uint32_t *)address;

	return (uint64_t)words[0] + words[1] + words[2] + words[3];
}

static __always_inline bool parse_ipv6(struct frame *frame, const struct ipv6hdr *ip, void *end,
				       uint32_t *udp_length)
{
	if ((void *)(ip + 1) > end || ip->version != 6 || ip->nexthdr != PROTOCOL_UDP)
		return false;
	*udp_length = sml_be16(ip->payload_len);
	frame->addresses_sum = sum_fold(address_sum(&ip->saddr) + address_sum(&ip->daddr) +
					sml_be16(PROTOCOL_UDP));
	frame->v6 = true;
	return true;
}

static __always_inline struct udphdr *frame_udp(struct xdp_md *ctx, const struct frame *frame)
{
	struct udphdr *udp = frame_data(ctx) + frame->udp;

	return (void *)(udp + 1) > frame_end(ctx) ? (void *)0 : udp;
}

static __always_inline struct sml_header *frame_header(struct xdp_md *ctx,
						       const struct frame *frame)
{
	struct udphdr *udp = frame_data(ctx) + frame->udp;
	struct sml_header *header = (struct sml_header *)(udp + 1);

	return (void *)(header + 1) > frame_end(ctx) ? (void *)0 : header;
}

/* Skips at most two VLAN tags. Returns the big-endian type of the header at *offset. */
static __always_inline uint16_t parse_ethernet(const struct ethhdr *ethernet, void *end,
					       uint32_t *offset)
{
	uint16_t type_be;

	*offset = sizeof(*ethernet);
	if ((void *)(ethernet + 1) > end)
		return 0;
	type_be = ethernet->h_proto;
#pragma clang loop unroll(full)
	for (int i = 0; i < 2; i++) {
		const struct vlan_tag *tag = (const void *)ethernet + *offset;

		if (type_be != sml_be16(ETHERTYPE_8021Q) && type_be != sml_be16(ETHERTYPE_8021AD))
			break;
		if ((void *)(tag + 1) > end)
			return 0;
		type_be = tag->type_be;
		*offset += sizeof(*tag);
	}
	return type_be;
}

/*
 * Is this a whole UDP datagram to our port? Anything else goes to the stack: fragments, options,
 * extension headers, and inconsistent lengths.
 */
static __always_inline bool frame_parse(struct xdp_md *ctx, uint16_t port_be, struct frame *frame)
{
	void *data = frame_data(ctx), *end = frame_end(ctx);
	const struct udphdr *udp;
	uint32_t udp_length = 0;
	uint16_t type_be = parse_ethernet(data, end, &frame->l3);

	if (type_be == sml_be16(ETHERTYPE_IPV4)) {
		if (!parse_ipv4(frame, data + frame->l3, end, &udp_length))
			return false;
		frame->udp = frame->l3 + sizeof(struct iphdr);
	} else if (type_be == sml_be16(ETHERTYPE_IPV6)) {
		if (!parse_ipv6(frame, data + frame->l3, end, &udp_length))
			return false;
		frame->udp = frame->l3 + sizeof(struct ipv6hdr);
	} else {
		return false;
	}
	udp = data + frame->udp;
	if ((void *)(udp + 1) > end || udp->dest != port_be || sml_be16(udp->len) != udp_length ||
	    udp_length < sizeof(*udp) || udp_length > 0xffff)
		return false;
	frame->length = udp_length - (uint32_t)sizeof(*udp);
	return true;
}

/* A parsed frame: does it come from there? */
static __always_inline bool frame_is_from(struct xdp_md *ctx, const struct frame *frame,
					  const struct sml_xdp_endpoint *source)
{
	const struct udphdr *udp = frame_udp(ctx, frame);
	void *l3 = frame_data(ctx) + frame->l3;
	const struct ipv6hdr *v6 = l3;
	const struct iphdr *v4 = l3;
	const uint32_t *words = (const uint32_t *)&v6->saddr, *wanted = source->address_be;

	if (!udp || udp->source != source->port_be)
		return false;
	if (!frame->v6)
		return (void *)(v4 + 1) <= frame_end(ctx) && (wanted[0] | wanted[1]) == 0 &&
		       wanted[2] == sml_be32(0xffff) && wanted[3] == v4->saddr;
	return (void *)(v6 + 1) <= frame_end(ctx) && wanted[0] == words[0] &&
	       wanted[1] == words[1] && wanted[2] == words[2] && wanted[3] == words[3];
}

/*
 * Returned as one number, because a separately verified function can return nothing else. The
 * verifier then checks the caller once, and not once for each encapsulation.
 */
static __always_inline uint64_t frame_pack(const struct frame *frame)
{
	return (uint64_t)frame->addresses_sum << 48 | (uint64_t)frame->length << 32 |
	       (uint64_t)frame->v6 << 16 | frame->l3 << 8 | frame->udp;
}

static __always_inline void frame_unpack(struct frame *frame, uint64_t packed)
{
	frame->addresses_sum = (uint32_t)(packed >> 48);
	frame->length = (uint32_t)(packed >> 32) & 0xffff;
	frame->v6 = packed >> 16 & 1;
	frame->l3 = (uint32_t)(packed >> 8) & 31;
	frame->udp = (uint32_t)packed & 63;
}

/* Shorten or extend the frame so that it ends after `length` bytes of payload. */
static __always_inline bool frame_set_length(struct xdp_md *ctx, struct frame *frame,
					     uint32_t length)
{
	int have = (int)(ctx->data_end - ctx->data);
	int want = (int)(frame->udp + sizeof(struct udphdr) + length);

	frame->length = length;
	return have == want || bpf_xdp_adjust_tail(ctx, want - have) == 0;
}

#endif
