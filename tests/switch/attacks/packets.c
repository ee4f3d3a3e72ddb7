/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attacks with packets: see attacks.h. As root, they use the addresses of the switch and of
 * the ranks. They know everything but cookies and tags.
 */
#include <arpa/inet.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "attacks/attacks.h"
#include "core/wire.h"

#define LONGEST 65400
#define ROUND	32
/* Sending faster than the victim can receive would only fill socket buffers. */
#define REST_US	  5000
#define CLAIM_MTU 552

static uint16_t any_port(struct attack *attack)
{
	const struct victim *victim = attack->victim;

	return victim->ports[gen_below(&attack->gen, victim->n_ports)];
}

/* The owner of the slots: the switch's port, or a rank's. */
static uint16_t switch_port(struct attack *attack)
{
	uint16_t port = ntohs(attack->victim->data.sin_port);

	return port ? port : any_port(attack);
}

static bool has_socket(struct attack *attack, int type, int protocol)
{
	if (attack->fd < 0)
		attack->fd = socket(AF_INET, type | SOCK_CLOEXEC, protocol);
	return attack->fd >= 0;
}

static size_t build(struct attack *attack, uint8_t *bytes, uint8_t kind, size_t n)
{
	struct sml_header header = {
		.magic_be = sml_be16(SML_WIRE_MAGIC),
		.version = SML_WIRE_VERSION,
		.kind = kind,
		.job_be = (uint32_t)gen_u64(&attack->gen) << 8,
		.key_be = gen_u64(&attack->gen),
		.epoch_be = sml_be32(1),
		.use_be = sml_be32(gen_below(&attack->gen, 4000)),
		.slot_be = sml_be16((uint16_t)gen_below(&attack->gen, 512)),
		.rank = (uint8_t)gen_below(&attack->gen, 3),
		.lanes_be = sml_be16((uint16_t)((n - SML_HEADER_BYTES) / 4)),
	};

	memcpy(bytes, &header, sizeof(header));
	return n;
}

static size_t any_length(struct attack *attack)
{
	switch (gen_below(&attack->gen, 3)) {
	case 0:
		return SML_HEADER_BYTES + 4 * 352;
	case 1:
		return SML_HEADER_BYTES + 4 * gen_below(&attack->gen, 2300);
	default:
		return 16000 + 4 * gen_below(&attack->gen, (LONGEST - 16000) / 4);
	}
}

/* From a separate address. */
static void send_own(struct attack *attack, uint8_t kind)
{
	static __thread uint8_t bytes[LONGEST];
	struct sockaddr_in to = attack->victim->data;

	if (!has_socket(attack, SOCK_DGRAM, 0))
		return;
	for (unsigned i = 0; i < ROUND; i++) {
		size_t n = build(attack, bytes, kind, any_length(attack));

		/*
		 * The switch, and the ranks: connected sockets do not even receive these packets.
		 */
		to.sin_port =
			htons(gen_below(&attack->gen, 2) ? any_port(attack) : switch_port(attack));
		if (sendto(attack->fd, bytes, n, 0, (struct sockaddr *)&to, sizeof(to)) > 0)
			attack_done(attack, 1);
	}
	usleep(REST_US);
}

static void contributions(struct attack *attack)
{
	send_own(attack, SML_PACKET_CONTRIBUTION);
}

static void probes(struct attack *attack)
{
	send_own(attack, SML_PACKET_PROBE);
}

static bool send_as(struct attack *attack, uint16_t from, uint16_t to, const uint8_t *payload,
		    size_t n)
{
	static __thread struct {
		struct iphdr ip;
		struct udphdr udp;
		uint8_t payload[LONGEST];
	} packet;
	struct sockaddr_in peer = attack->victim->data;

	packet.ip = (struct iphdr){.version = 4,
				   .ihl = 5,
				   .ttl = 64,
				   .protocol = IPPROTO_UDP,
				   .saddr = peer.sin_addr.s_addr,
				   .daddr = peer.sin_addr.s_addr};
	packet.udp = (struct udphdr){.source = htons(from),
				     .dest = htons(to),
				     .len = htons((uint16_t)(sizeof(packet.udp) + n))};
	memcpy(packet.payload, payload, n);
	peer.sin_port = 0;
	return sendto(attack->fd, &packet, sizeof(packet.ip) + sizeof(packet.udp) + n, 0,
		      (struct sockaddr *)&peer, sizeof(peer)) > 0;
}

/* Sent to the ranks as the switch, and to the switch as the ranks. */
static void send_in_their_name(struct attack *attack)
{
	static const uint8_t kinds[] = {SML_PACKET_RESULT, SML_PACKET_PROBE, SML_PACKET_PROBE_REPLY,
					SML_PACKET_CONTRIBUTION};
	static __thread uint8_t bytes[LONGEST];

	if (!has_socket(attack, SOCK_RAW, IPPROTO_RAW))
		return;
	for (unsigned i = 0; i < ROUND; i++) {
		size_t n =
			build(attack, bytes, kinds[gen_below(&attack->gen, 4)], any_length(attack));
		bool to_switch = gen_below(&attack->gen, 3) == 0;
		uint16_t rank = any_port(attack), port = switch_port(attack);

		if (send_as(attack, to_switch ? rank : port, to_switch ? port : rank, bytes, n))
			attack_done(attack, 1);
	}
	usleep(REST_US);
}

static uint16_t checksum(const void *data, size_t n)
{
	const uint8_t *bytes = data;
	uint32_t sum = 0;

	for (size_t i = 0; i + 1 < n; i += 2)
		sum += (uint32_t)bytes[i] << 8 | bytes[i + 1];
	sum = (sum >> 16) + (sum & 0xffff);
	return htons((uint16_t) ~(sum + (sum >> 16)));
}

/* "Fragmentation needed", for a packet that one port is claimed to have sent to another. */
static void too_big(struct attack *attack, uint16_t from, uint16_t to)
{
	static __thread struct {
		struct icmphdr icmp;
		struct iphdr ip;
		struct udphdr udp;
	} packet;
	struct sockaddr_in peer = attack->victim->data;

	packet.icmp = (struct icmphdr){.type = ICMP_DEST_UNREACH, .code = ICMP_FRAG_NEEDED};
	packet.icmp.un.frag.mtu = htons(CLAIM_MTU);
	packet.ip = (struct iphdr){.version = 4,
				   .ihl = 5,
				   .ttl = 64,
				   .tot_len = htons(1200),
				   .frag_off = htons(IP_DF),
				   .protocol = IPPROTO_UDP,
				   .saddr = peer.sin_addr.s_addr,
				   .daddr = peer.sin_addr.s_addr};
	packet.udp = (struct udphdr){
		.source = htons(from), .dest = htons(to), .len = htons(1200 - sizeof(packet.ip))};
	packet.icmp.checksum = checksum(&packet, sizeof(packet));
	peer.sin_port = 0;
	if (sendto(attack->fd, &packet, sizeof(packet), 0, (struct sockaddr *)&peer, sizeof(peer)) >
	    0)
		attack_done(attack, 1);
}

static void icmp(struct attack *attack)
{
	if (!has_socket(attack, SOCK_RAW, IPPROTO_ICMP))
		return;
	for (unsigned i = 0; i < ROUND; i++) {
		uint16_t rank = any_port(attack), port = switch_port(attack);

		too_big(attack, rank, port);
		too_big(attack, port, rank);
	}
	usleep(REST_US);
}

struct attack attacks_on_packets[] = {
	{.name = "forged contributions", .act = contributions, .enough = 5000},
	{.name = "forged and oversized probes", .act = probes, .enough = 5000},
	{.name = "packets in their name",
	 .act = send_in_their_name,
	 .enough = 10000,
	 .needs_root = true},
	{.name = "ICMP \"fragmentation needed\"", .act = icmp, .enough = 10000, .needs_root = true},
	{.name = NULL},
};
