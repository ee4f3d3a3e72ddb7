/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attacks with packets: see attacks.h. As root, in the names of the switch and of the ranks;
 * test_hostile has packets to their ports.
 */
#include <arpa/inet.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "attacks/attacks.h"

#define ROUND 32
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
	if (attack->fd < 0)
		attack->fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
	if (attack->fd < 0)
		return;
	for (unsigned i = 0; i < ROUND; i++) {
		uint16_t rank = any_port(attack), port = switch_port(attack);

		too_big(attack, rank, port);
		too_big(attack, port, rank);
	}
	usleep(REST_US);
}

struct attack attacks_on_packets[] = {
	{.name = "ICMP \"fragmentation needed\"", .act = icmp, .enough = 10000, .needs_root = true},
	{.name = NULL},
};
