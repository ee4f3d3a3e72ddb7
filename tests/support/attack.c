/* SPDX-License-Identifier: BSD-3-Clause */
/* See attack.h. */
#include "support/attack.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "core/wire.h"
#include "sim/gen.h"

#define BATCH	     32
#define SEEN	     512
#define PACKET_BYTES 2048
/* The IP and UDP headers in front of a packet. */
#define HEADERS_BYTES 28

struct bytes {
	uint32_t length;
	uint8_t bytes[PACKET_BYTES];
};

struct attacker {
	const struct attack_target *target;
	struct attack_report *report;
	struct gen gen;
	int own[ATTACK_SOCKETS]; /* connected to the switch */
	int spoof, listen;	 /* raw socket; -1: not allowed */
	struct bytes *seen;
	unsigned n_seen;
	/* A batch of packets for one destination. */
	struct bytes *batch;
	unsigned n;
};

/* ---- sockets ---- */

static int own_socket(uint16_t port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

static void open_sockets(struct attacker *a)
{
	struct sockaddr_ll loopback = {.sll_family = AF_PACKET,
				       .sll_protocol = htons(ETH_P_IP),
				       .sll_ifindex = (int)if_nametoindex("lo")};

	for (unsigned i = 0; i < ATTACK_SOCKETS; i++)
		a->own[i] = own_socket(a->target->switch_port);
	a->spoof = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
	a->listen = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_IP));
	if (a->spoof >= 0 && a->listen >= 0 &&
	    bind(a->listen, (struct sockaddr *)&loopback, sizeof(loopback)) == 0)
		a->report->raw = true;
}

/* ---- seeing ---- */

static bool is_workers_port(const struct attack_target *target, uint16_t port)
{
	for (unsigned i = 0; i < target->n_workers; i++)
		if (target->worker_ports[i] == port)
			return true;
	return false;
}

static void note_packet(struct attacker *a, const uint8_t *bytes, uint32_t length)
{
	struct bytes *place;

	if (length > PACKET_BYTES || length < SML_HEADER_BYTES)
		return;
	place = a->n_seen < SEEN ? &a->seen[a->n_seen++] : &a->seen[gen_below(&a->gen, SEEN)];
	place->length = length;
	memcpy(place->bytes, bytes, length);
	a->report->seen++;
}

/* Reads packets on the loopback: packets of the job, and answers of the switch to strangers. */
static void look(struct attacker *a)
{
	static uint8_t bytes[HEADERS_BYTES + 65536];
	struct udphdr udp;
	ssize_t n;

	for (unsigned i = 0; i < 200 && a->report->raw; i++) {
		uint16_t from, to;

		n = recv(a->listen, bytes, sizeof(bytes), 0);
		if (n < 0)
			break;
		if (n < HEADERS_BYTES || bytes[0] != 0x45 || bytes[9] != IPPROTO_UDP)
			continue;
		memcpy(&udp, bytes + 20, sizeof(udp));
		from = ntohs(udp.source);
		to = ntohs(udp.dest);
		/* The attacker's own packets have a separate address, or no checksum. */
		if (udp.check == 0)
			continue;
		if (from == a->target->switch_port && !is_workers_port(a->target, to))
			a->report->strange_answers++;
		if ((from == a->target->switch_port && is_workers_port(a->target, to)) ||
		    (to == a->target->switch_port && is_workers_port(a->target, from)))
			note_packet(a, bytes + HEADERS_BYTES, (uint32_t)n - HEADERS_BYTES);
	}
}

/* ---- packets ---- */

static uint64_t wrong_key(struct attacker *a, uint64_t right)
{
	switch (gen_below(&a->gen, 4)) {
	case 0:
		return right ^ (uint64_t)1 << gen_below(&a->gen, 64);
	case 1:
		return right + 1;
	default:
		return gen_u64(&a->gen);
	}
}

/* Everything is right except the key, which the attacker does not know. */
static void build(struct attacker *a, struct bytes *packet)
{
	static const uint8_t kinds[] = {SML_PACKET_CONTRIBUTION, SML_PACKET_CONTRIBUTION,
					SML_PACKET_RESULT, SML_PACKET_PROBE};
	const struct attack_target *target = a->target;
	uint16_t lanes = (uint16_t)gen_below(&a->gen, target->lanes + 1u);
	struct sml_header header = {
		.magic_be = sml_be16(SML_WIRE_MAGIC),
		.version = SML_WIRE_VERSION,
		.kind = kinds[gen_below(&a->gen, 4)],
		.job_be = sml_be32(target->job_number + gen_below(&a->gen, target->n_jobs)),
		.key_be = gen_u64(&a->gen),
		.epoch_be = sml_be32(target->epoch),
		.use_be = sml_be32(gen_below(&a->gen, 4000)),
		.slot_be = sml_be16((uint16_t)gen_below(&a->gen, target->slots)),
		.rank = (uint8_t)gen_below(&a->gen, target->n_ranks),
		.lanes_be = sml_be16(lanes),
	};

	packet->length = SML_HEADER_BYTES + 4u * lanes;
	memcpy(packet->bytes, &header, sizeof(header));
	for (uint32_t i = SML_HEADER_BYTES; i < packet->length; i++)
		packet->bytes[i] = (uint8_t)gen_below(&a->gen, 256);
}

static void base_packet(struct attacker *a, struct bytes *packet)
{
	struct sml_header header;

	if (a->n_seen == 0 || gen_below(&a->gen, 4) == 0) {
		build(a, packet);
		return;
	}
	*packet = a->seen[gen_below(&a->gen, a->n_seen)];
	memcpy(&header, packet->bytes, sizeof(header));
	header.key_be = wrong_key(a, header.key_be);
	memcpy(packet->bytes, &header, sizeof(header));
	a->report->of_seen++;
}

static void random_bytes(struct attacker *a, struct bytes *packet)
{
	packet->length = gen_below(&a->gen, 1473);
	for (uint32_t i = 0; i < packet->length; i++)
		packet->bytes[i] = (uint8_t)gen_below(&a->gen, 256);
}

/* Change one field of the header, but never the key. */
static void mutate_header(struct attacker *a, struct sml_header *header)
{
	switch (gen_below(&a->gen, 10)) {
	case 0:
		header->epoch_be = sml_be32(sml_be32(header->epoch_be) + 1);
		break;
	case 1:
		header->epoch_be = (uint32_t)gen_u64(&a->gen);
		break;
	case 2:
		header->job_be ^= sml_be32(1u << gen_below(&a->gen, 32));
		break;
	case 3:
		header->rank = (uint8_t)gen_below(&a->gen, 256);
		break;
	case 4:
		header->lanes_be = (uint16_t)gen_u64(&a->gen);
		break;
	case 5:
		header->kind = (uint8_t)gen_below(&a->gen, SML_PACKET_KINDS + 1);
		break;
	case 6:
		header->slot_be = (uint16_t)gen_u64(&a->gen);
		break;
	case 7:
		header->use_be = sml_be32(sml_be32(header->use_be) + gen_below(&a->gen, 5) - 2);
		break;
	case 8:
		header->shard = (uint8_t)gen_below(&a->gen, 256);
		break;
	default:
		header->version = (uint8_t)gen_below(&a->gen, 4);
		break;
	}
}

static void mutate(struct attacker *a, struct bytes *packet)
{
	struct sml_header header;
	uint32_t length;

	switch (gen_below(&a->gen, 6)) {
	case 0: /* only the key is wrong */
		break;
	case 1:
		packet->length = gen_below(&a->gen, packet->length + 1);
		break;
	case 2:
		length = packet->length + 1 + gen_below(&a->gen, 64);
		memset(packet->bytes + packet->length, 0, length - packet->length);
		packet->length = length;
		break;
	default:
		memcpy(&header, packet->bytes, sizeof(header));
		mutate_header(a, &header);
		memcpy(packet->bytes, &header, sizeof(header));
		break;
	}
}

static void next_packet(struct attacker *a, struct bytes *packet)
{
	if (gen_below(&a->gen, 8) == 0) {
		random_bytes(a, packet);
		return;
	}
	base_packet(a, packet);
	mutate(a, packet);
}

/* ---- sending ---- */

static unsigned send_own(struct attacker *a)
{
	int fd = a->own[gen_below(&a->gen, ATTACK_SOCKETS)];
	struct mmsghdr messages[BATCH] = {0};
	struct iovec vectors[BATCH];
	int sent;

	for (unsigned i = 0; i < a->n; i++) {
		vectors[i] = (struct iovec){a->batch[i].bytes, a->batch[i].length};
		messages[i].msg_hdr = (struct msghdr){.msg_iov = &vectors[i], .msg_iovlen = 1};
	}
	sent = sendmmsg(fd, messages, a->n, 0);
	return sent < 0 ? 0 : (unsigned)sent;
}

/* From and to ports of 127.0.0.1 that are not the attacker's own. */
static unsigned send_spoofed(struct attacker *a, uint16_t from, uint16_t to)
{
	static const struct sockaddr_in where = {.sin_family = AF_INET};
	struct sockaddr_in peer = where;
	struct mmsghdr messages[BATCH] = {0};
	struct iovec vectors[BATCH][2];
	struct {
		struct iphdr ip;
		struct udphdr udp;
	} headers[BATCH];
	int sent;

	peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (unsigned i = 0; i < a->n; i++) {
		headers[i].ip = (struct iphdr){.version = 4,
					       .ihl = 5,
					       .ttl = 64,
					       .protocol = IPPROTO_UDP,
					       .saddr = htonl(INADDR_LOOPBACK),
					       .daddr = htonl(INADDR_LOOPBACK)};
		headers[i].udp = (struct udphdr){
			.source = htons(from),
			.dest = htons(to),
			.len = htons((uint16_t)(sizeof(struct udphdr) + a->batch[i].length))};
		vectors[i][0] = (struct iovec){&headers[i], sizeof(headers[i])};
		vectors[i][1] = (struct iovec){a->batch[i].bytes, a->batch[i].length};
		messages[i].msg_hdr = (struct msghdr){.msg_name = &peer,
						      .msg_namelen = sizeof(peer),
						      .msg_iov = vectors[i],
						      .msg_iovlen = 2};
	}
	sent = sendmmsg(a->spoof, messages, a->n, 0);
	return sent < 0 ? 0 : (unsigned)sent;
}

/* To a worker, from another address than the switch's: the kernel should not even deliver it. */
static unsigned send_to_worker(struct attacker *a, uint16_t to)
{
	struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(to)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	unsigned sent = 0;

	peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (unsigned i = 0; i < a->n; i++)
		sent += sendto(fd, a->batch[i].bytes, a->batch[i].length, 0,
			       (struct sockaddr *)&peer, sizeof(peer)) >= 0;
	close(fd);
	return sent;
}

static void send_batch(struct attacker *a)
{
	const struct attack_target *target = a->target;
	uint16_t worker = target->worker_ports[gen_below(&a->gen, target->n_workers)];
	uint32_t which = gen_below(&a->gen, 10);
	unsigned sent;

	if (which < 3 && a->report->raw) {
		sent = send_spoofed(a, target->switch_port, worker);
		a->report->to_workers += sent;
		a->report->spoofed_to_workers += sent;
	} else if (which < 4)
		a->report->to_workers += send_to_worker(a, worker);
	else if (which < 7 && a->report->raw)
		a->report->to_switch += send_spoofed(a, worker, target->switch_port);
	else
		a->report->to_switch += send_own(a);
	a->n = 0;
}

static void count_answers(struct attacker *a)
{
	uint8_t ignored[64];

	/* A refusal by the kernel, because there is no socket, does not come from the switch. */
	for (unsigned i = 0; i < ATTACK_SOCKETS; i++)
		while (recv(a->own[i], ignored, sizeof(ignored), MSG_DONTWAIT) >= 0)
			a->report->answers++;
}

static double now_s(void)
{
	return (double)sml_now_ns() / SML_NS_PER_SEC;
}

static bool is_enough(const struct attack_report *report, uint64_t n, double began_s,
		      unsigned seconds)
{
	uint64_t sent = report->to_switch + report->to_workers;

	return now_s() - began_s > (sent >= n / 10 ? seconds : 120) || sent >= n;
}

void attack(const struct attack_target *target, uint64_t seed, uint64_t n, unsigned seconds,
	    struct attack_report *report)
{
	struct attacker a = {.target = target, .report = report};
	double began_s = now_s();

	*report = (struct attack_report){0};
	a.seen = calloc(SEEN, sizeof(*a.seen));
	a.batch = calloc(BATCH, sizeof(*a.batch));
	assert_true(a.seen != NULL && a.batch != NULL);
	gen_from_seed(&a.gen, seed);
	open_sockets(&a);
	/* First observe real packets, then send some between them. */
	for (unsigned i = 0; i < 100 && report->raw && a.n_seen < 50; i++) {
		usleep(10000);
		look(&a);
	}
	for (unsigned i = 0; !is_enough(report, n, began_s, seconds); i++) {
		while (a.n < BATCH)
			next_packet(&a, &a.batch[a.n++]);
		send_batch(&a);
		if (i % 16 == 0)
			look(&a);
		/* Sending faster than the victim can receive would only fill socket buffers. */
		if (i % 64 == 0)
			usleep(1000);
	}
	usleep(200000);
	look(&a);
	count_answers(&a);
	for (unsigned i = 0; i < ATTACK_SOCKETS; i++)
		close(a.own[i]);
	if (a.spoof >= 0)
		close(a.spoof);
	if (a.listen >= 0)
		close(a.listen);
	free(a.seen);
	free(a.batch);
}
