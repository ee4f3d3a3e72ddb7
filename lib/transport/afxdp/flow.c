/* SPDX-License-Identifier: BSD-3-Clause */
/* One's complement sums use words in wire order on every CPU. */
#include "lib/transport/afxdp/flow.h"

#include <linux/if_ether.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include <stddef.h>
#include <string.h>

#define IPV4_NO_OPTIONS 0x45
#define TIME_TO_LIVE	64
#define FRAGMENT_BITS	0x3fff
#define VLAN_TAG_BYTES	4
#define VLAN_TAGS	2

/* ---- sums ---- */

static uint16_t fold(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

static uint64_t sum_tail(const uint8_t *bytes, uint32_t length)
{
	uint32_t word = 0;

	memcpy(&word, bytes, length);
	return word;
}

static uint64_t sum_bytes(const uint8_t *bytes, uint32_t length)
{
	uint64_t sum = 0;
	uint32_t word, at = 0;

	for (; at + sizeof(word) <= length; at += (uint32_t)sizeof(word)) {
		memcpy(&word, bytes + at, sizeof(word));
		sum += word;
	}
	return sum + sum_tail(bytes + at, length - at);
}

static uint64_t copy_and_sum(uint8_t *to, const uint8_t *from, uint32_t length)
{
	uint64_t sum = 0;
	uint32_t word, at = 0;

	for (; at + sizeof(word) <= length; at += (uint32_t)sizeof(word)) {
		memcpy(&word, from + at, sizeof(word));
		memcpy(to + at, &word, sizeof(word));
		sum += word;
	}
	memcpy(to + at, from + at, length - at);
	return sum + sum_tail(from + at, length - at);
}

/* ---- the flow ---- */

static void put_ipv4(struct sml_flow_headers *headers, const union sml_sockaddr *from,
		     const union sml_sockaddr *to)
{
	struct iphdr ip = {
		.ihl = 5,
		.version = 4,
		.frag_off = htons(IP_DF),
		.ttl = TIME_TO_LIVE,
		.protocol = IPPROTO_UDP,
		.saddr = from->v4.sin_addr.s_addr,
		.daddr = to->v4.sin_addr.s_addr,
	};

	memcpy(headers->bytes + headers->ip, &ip, sizeof(ip));
	headers->udp = headers->ip + (uint32_t)sizeof(ip);
	headers->ip_sum = sum_bytes((const uint8_t *)&ip, sizeof(ip));
	headers->udp_sum = (uint64_t)ip.saddr + ip.daddr;
}

static void put_ipv6(struct sml_flow_headers *headers, const union sml_sockaddr *from,
		     const union sml_sockaddr *to)
{
	struct ip6_hdr ip = {
		.ip6_src = from->v6.sin6_addr,
		.ip6_dst = to->v6.sin6_addr,
	};

	ip.ip6_flow = htonl(0x60000000);
	ip.ip6_nxt = IPPROTO_UDP;
	ip.ip6_hlim = TIME_TO_LIVE;
	memcpy(headers->bytes + headers->ip, &ip, sizeof(ip));
	headers->udp = headers->ip + (uint32_t)sizeof(ip);
	headers->udp_sum = sum_bytes((const uint8_t *)&ip.ip6_src, 2 * sizeof(ip.ip6_src));
}

void sml_flow_headers_init(struct sml_flow_headers *headers, const union sml_sockaddr *from,
			   const union sml_sockaddr *to)
{
	/* The port is at the same offset in both families. */
	struct udphdr udp = {.source = from->v4.sin_port, .dest = to->v4.sin_port};
	uint16_t type;

	*headers = (struct sml_flow_headers){
		.ip = ETH_HLEN,
		.v6 = to->any.sa_family == AF_INET6,
	};
	type = htons(headers->v6 ? ETH_P_IPV6 : ETH_P_IP);
	memcpy(headers->bytes + 2 * SML_MAC_BYTES, &type, sizeof(type));
	if (headers->v6)
		put_ipv6(headers, from, to);
	else
		put_ipv4(headers, from, to);
	memcpy(headers->bytes + headers->udp, &udp, sizeof(udp));
	headers->payload = headers->udp + (uint32_t)sizeof(udp);
	headers->udp_sum += (uint64_t)htons(IPPROTO_UDP) + udp.source + udp.dest;
}

void sml_flow_headers_set_macs(struct sml_flow_headers *headers, const uint8_t from[SML_MAC_BYTES],
			       const uint8_t to[SML_MAC_BYTES])
{
	memcpy(headers->bytes, to, SML_MAC_BYTES);
	memcpy(headers->bytes + SML_MAC_BYTES, from, SML_MAC_BYTES);
}

/* ---- out ---- */

static void put16(uint8_t *place, uint16_t value)
{
	memcpy(place, &value, sizeof(value));
}

uint32_t sml_flow_write(const struct sml_flow_headers *headers, uint8_t *frame, const void *payload,
			uint32_t length)
{
	uint16_t udp_length = htons((uint16_t)(length + sizeof(struct udphdr))), ip_length, check;
	uint8_t *ip = frame + headers->ip, *udp = frame + headers->udp;
	uint64_t sum;

	memcpy(frame, headers->bytes, headers->payload);
	if (headers->v6) {
		put16(ip + offsetof(struct ip6_hdr, ip6_plen), udp_length);
	} else {
		ip_length = htons((uint16_t)(length + headers->payload - headers->ip));
		put16(ip + offsetof(struct iphdr, tot_len), ip_length);
		check = (uint16_t)~fold(headers->ip_sum + ip_length);
		put16(ip + offsetof(struct iphdr, check), check);
	}
	sum = copy_and_sum(frame + headers->payload, payload, length);
	/* The pseudo header also has UDP's length, so the sum counts it twice. */
	check = (uint16_t)~fold(headers->udp_sum + 2ull * udp_length + sum);
	put16(udp + offsetof(struct udphdr, len), udp_length);
	put16(udp + offsetof(struct udphdr, check), check ? check : 0xffff);
	return headers->payload + length;
}

/* ---- in ---- */

static uint16_t get16(const uint8_t *place)
{
	uint16_t value;

	memcpy(&value, place, sizeof(value));
	return value;
}

/* Skip the Ethernet header and VLAN tags. 0: too short, or not of this family. */
static uint32_t find_ip(const uint8_t *frame, uint32_t bytes, bool v6)
{
	uint32_t at = ETH_HLEN;
	uint16_t type;

	for (unsigned tags = 0; at <= bytes; tags++) {
		type = ntohs(get16(frame + at - sizeof(type)));
		if (type == (v6 ? ETH_P_IPV6 : ETH_P_IP))
			return at;
		if ((type != ETH_P_8021Q && type != ETH_P_8021AD) || tags == VLAN_TAGS)
			return 0;
		at += VLAN_TAG_BYTES;
	}
	return 0;
}

/* `most` bytes are present. Check that the packet is a reply on this flow, and get UDP's length. */
static bool read_ipv4(const struct sml_flow_headers *headers, const uint8_t *bytes, uint32_t most,
		      uint32_t *udp_length)
{
	const uint8_t *own = headers->bytes + headers->ip;
	struct iphdr ip;

	if (most < sizeof(ip))
		return false;
	memcpy(&ip, bytes, sizeof(ip));
	if (bytes[0] != IPV4_NO_OPTIONS || ip.protocol != IPPROTO_UDP ||
	    (ip.frag_off & htons(FRAGMENT_BITS)) || ntohs(ip.tot_len) < sizeof(ip) ||
	    ntohs(ip.tot_len) > most || fold(sum_bytes(bytes, sizeof(ip))) != 0xffff)
		return false;
	*udp_length = ntohs(ip.tot_len) - (uint32_t)sizeof(ip);
	return memcmp(&ip.saddr, own + offsetof(struct iphdr, daddr), sizeof(ip.saddr)) == 0 &&
	       memcmp(&ip.daddr, own + offsetof(struct iphdr, saddr), sizeof(ip.daddr)) == 0;
}

static bool read_ipv6(const struct sml_flow_headers *headers, const uint8_t *bytes, uint32_t most,
		      uint32_t *udp_length)
{
	const uint8_t *own = headers->bytes + headers->ip;
	struct ip6_hdr ip;

	if (most < sizeof(ip))
		return false;
	memcpy(&ip, bytes, sizeof(ip));
	if (bytes[0] >> 4 != 6 || ip.ip6_nxt != IPPROTO_UDP ||
	    ntohs(ip.ip6_plen) > most - sizeof(ip))
		return false;
	*udp_length = ntohs(ip.ip6_plen);
	return memcmp(&ip.ip6_src, own + offsetof(struct ip6_hdr, ip6_dst), sizeof(ip.ip6_src)) ==
		       0 &&
	       memcmp(&ip.ip6_dst, own + offsetof(struct ip6_hdr, ip6_src), sizeof(ip.ip6_dst)) ==
		       0;
}

/* The sums of addresses and ports are the same in both directions. */
static bool checksum_is_right(const struct sml_flow_headers *headers, const uint8_t *udp,
			      uint32_t udp_length, bool partial)
{
	uint16_t check = get16(udp + offsetof(struct udphdr, check));
	uint64_t ports = (uint64_t)get16(udp) + get16(udp + 2);
	uint64_t pseudo = headers->udp_sum - ports + htons((uint16_t)udp_length);

	if (check == 0)
		return !headers->v6; /* the sender computed none, which IPv4 allows */
	return (partial && check == fold(pseudo)) ||
	       fold(pseudo + sum_bytes(udp, udp_length)) == 0xffff;
}

uint8_t *sml_flow_read(const struct sml_flow_headers *headers, uint8_t *frame, uint32_t bytes,
		       bool partial, uint32_t *length)
{
	const uint8_t *own = headers->bytes + headers->udp;
	uint32_t ip = find_ip(frame, bytes, headers->v6), udp, udp_length;
	bool ours;

	if (ip == 0)
		return NULL;
	udp = ip + headers->udp - headers->ip;
	ours = headers->v6 ? read_ipv6(headers, frame + ip, bytes - ip, &udp_length)
			   : read_ipv4(headers, frame + ip, bytes - ip, &udp_length);
	if (!ours || udp_length < sizeof(struct udphdr) ||
	    ntohs(get16(frame + udp + offsetof(struct udphdr, len))) != udp_length ||
	    get16(frame + udp) != get16(own + offsetof(struct udphdr, dest)) ||
	    get16(frame + udp + offsetof(struct udphdr, dest)) != get16(own) ||
	    !checksum_is_right(headers, frame + udp, udp_length, partial))
		return NULL;
	*length = udp_length - (uint32_t)sizeof(struct udphdr);
	return frame + udp + sizeof(struct udphdr);
}
