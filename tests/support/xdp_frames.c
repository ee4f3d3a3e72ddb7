/* SPDX-License-Identifier: BSD-3-Clause */
#include "support/xdp_frames.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <stddef.h>
#include <string.h>

#include "support/packet.h"

struct sml_header frame_header(const struct sml_pool_rules *rules, uint8_t rank, uint16_t slot,
			       uint32_t use, uint16_t lanes)
{
	struct sml_header header = packet_header(SML_PACKET_CONTRIBUTION, rules->job, rules->epoch,
						 rules->cookies[rank], lanes);

	header.use_be = sml_be32(use);
	header.slot_be = sml_be16(slot);
	header.rank = rank;
	header.shard = (uint8_t)(slot % rules->n_shards);
	return header;
}

uint32_t frame_headers(const struct frame_wrapping *wrapping)
{
	return (uint32_t)(sizeof(struct ethhdr) + 4 * wrapping->n_tags + sizeof(struct udphdr) +
			  (wrapping->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr)));
}

/* Headers in a frame may lack the alignment of their structures. */
static uint16_t read_16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static void write_16(uint8_t *at, uint16_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static uint32_t sum_words(const void *bytes, size_t n)
{
	const uint8_t *b = bytes;
	uint32_t sum = 0;

	for (size_t i = 0; i + 1 < n; i += 2)
		sum += (uint32_t)(b[i] << 8 | b[i + 1]);
	return n % 2 ? sum + (uint32_t)(b[n - 1] << 8) : sum;
}

static uint16_t fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* Over pseudo header, header and payload: 0xffff if it is correct. */
static uint16_t udp_sum(const uint8_t *l3, bool v6)
{
	const uint8_t *udp = l3 + (v6 ? 40 : 20);
	uint32_t sum = v6 ? sum_words(l3 + 8, 32) : sum_words(l3 + 12, 8);
	uint16_t length = read_16(udp + offsetof(struct udphdr, len));

	return fold(sum + 17u + length + sum_words(udp, length));
}

void frame_seal(uint8_t *frame, const struct frame_wrapping *wrapping)
{
	uint8_t *l3 = frame + sizeof(struct ethhdr) + 4 * wrapping->n_tags;
	uint8_t *ip_check = l3 + offsetof(struct iphdr, check);
	uint8_t *udp_check = l3 + (wrapping->v6 ? 40 : 20) + offsetof(struct udphdr, check);
	uint16_t check;

	if (!wrapping->v6) {
		write_16(ip_check, 0);
		write_16(ip_check, (uint16_t)~fold(sum_words(l3, 20)));
	}
	write_16(udp_check, 0);
	check = (uint16_t)~udp_sum(l3, wrapping->v6);
	write_16(udp_check, check ? check : 0xffff);
}

uint32_t frame_build(uint8_t *frame, const struct frame_wrapping *wrapping, const void *payload,
		     uint32_t length)
{
	static const uint8_t box[6] = {2, 0, 0, 0, 0, 0xff};
	uint32_t headers = frame_headers(wrapping);
	uint8_t worker[6] = {2, 0, 0, 0, 0, wrapping->rank}, *at = frame + 12;
	const struct udphdr udp = {
		.source = frame_source_port_be(wrapping),
		.dest = htons(FRAME_PORT),
		.len = htons((uint16_t)(length + 8)),
	};

	memset(frame, 0, headers);
	memcpy(frame, box, 6);
	memcpy(frame + 6, worker, 6);
	for (unsigned i = 0; i < wrapping->n_tags; i++, at += 4)
		memcpy(at,
		       i		      ? "\x81\x00\x00\x07"
		       : wrapping->n_tags > 1 ? "\x88\xa8\x00\x05"
					      : "\x81\x00\x20\x05",
		       4);
	memcpy(at, wrapping->v6 ? "\x86\xdd" : "\x08\x00", 2);
	at += 2;
	if (wrapping->v6) {
		const struct ipv6hdr ip = {
			.version = 6,
			.payload_len = htons((uint16_t)(length + 8)),
			.nexthdr = 17,
			.hop_limit = 9,
			.saddr.s6_addr = {[0] = 0xfd, [15] = wrapping->rank},
			.daddr.s6_addr = {[0] = 0xfd, [15] = 0xff},
		};

		memcpy(at, &ip, sizeof(ip));
	} else {
		const struct iphdr ip = {
			.version = 4,
			.ihl = 5,
			.tos = 2,
			.id = htons(77),
			.tot_len = htons((uint16_t)(length + 28)),
			.ttl = 9,
			.protocol = 17,
			.saddr = htonl(0x0a000000u + wrapping->rank),
			.daddr = htonl(0x0a0000ffu),
		};

		memcpy(at, &ip, sizeof(ip));
	}
	memcpy(frame + headers - sizeof(udp), &udp, sizeof(udp));
	memcpy(frame + headers, payload, length);
	frame_seal(frame, wrapping);
	return headers + length;
}

void frame_source(const struct frame_wrapping *wrapping, uint8_t address[16])
{
	static const uint8_t mapped[16] = {[10] = 0xff, [11] = 0xff, [12] = 10};

	memcpy(address, mapped, 16);
	if (wrapping->v6) {
		memset(address, 0, 16);
		address[0] = 0xfd;
	}
	address[15] = wrapping->rank;
}

uint16_t frame_source_port_be(const struct frame_wrapping *wrapping)
{
	return htons((uint16_t)(40000 + wrapping->rank));
}

bool frame_answers(const uint8_t *frame, uint32_t bytes, const struct frame_wrapping *wrapping,
		   uint32_t length)
{
	uint32_t headers = frame_headers(wrapping), l3_at = 14 + 4 * wrapping->n_tags;
	const uint8_t *l3 = frame + l3_at;
	struct udphdr udp;
	uint8_t asked[FRAME_BYTES], nothing[4] = {0};

	if (bytes != headers + length)
		return false;
	memcpy(&udp, frame + headers - sizeof(udp), sizeof(udp));
	frame_build(asked, wrapping, nothing, 0);
	if (memcmp(frame, asked + 6, 6) != 0 || memcmp(frame + 6, asked, 6) != 0 ||
	    memcmp(frame + 12, asked + 12, l3_at - 12) != 0)
		return false;
	if (udp.source != htons(FRAME_PORT) || udp.dest != htons(40000 + wrapping->rank) ||
	    ntohs(udp.len) != length + 8 || udp_sum(l3, wrapping->v6) != 0xffff)
		return false;
	if (wrapping->v6)
		return l3[0] == 0x60 && memcmp(l3 + 8, asked + l3_at + 24, 16) == 0 &&
		       memcmp(l3 + 24, asked + l3_at + 8, 16) == 0 &&
		       (l3[4] << 8 | l3[5]) == (int)length + 8;
	return l3[0] == 0x45 && fold(sum_words(l3, 20)) == 0xffff &&
	       memcmp(l3 + 12, asked + l3_at + 16, 4) == 0 &&
	       memcmp(l3 + 16, asked + l3_at + 12, 4) == 0 &&
	       (l3[2] << 8 | l3[3]) == (int)length + 28;
}
