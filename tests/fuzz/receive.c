/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank's socket before its job starts, and a peer that knows the rank's cookie and sends
 * datagrams of every kind and length. The transport must neither deliver nor answer a
 * datagram that is longer than a packet of the protocol.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz/properties.h"
#include "lib/context/membership.h"
#include "support/guard.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

#define MAX_DATAGRAMS 6
#define MAX_DATAGRAM  65507u
#define MAX_SEGMENTS  60u
#define JOB	      7u
#define EPOCH	      3u
#define COOKIE	      0x1122334455667788u

/* Checks what the inner transport delivers. */
struct spy {
	struct sml_transport base;
	struct sml_transport *inner;
	bool wrong_length;
};

struct world {
	struct gen *gen;
	int hostile;
	struct spy spy;
	bool among_ranks;
	union sml_sockaddr peers[SML_MAX_CHILDREN];
	uint8_t bytes[MAX_DATAGRAM] __attribute__((aligned(8)));
};

static unsigned spy_send(struct sml_transport *transport, struct sml_batch *batch)
{
	struct spy *spy = (struct spy *)transport;

	return spy->inner->ops->send(spy->inner, batch);
}

static void spy_send_results(struct sml_transport *transport, const struct iovec *packets,
			     unsigned n, uint64_t peers)
{
	struct spy *spy = (struct spy *)transport;

	spy->inner->ops->send_results(spy->inner, packets, n, peers);
}

static unsigned spy_receive(struct sml_transport *transport, struct sml_packet *packets)
{
	struct spy *spy = (struct spy *)transport;
	unsigned n = spy->inner->ops->receive(spy->inner, packets);

	spy->base.drained = spy->inner->drained;
	for (unsigned i = 0; i < n; i++)
		spy->wrong_length |= packets[i].length < SML_HEADER_BYTES ||
				     packets[i].length > SML_MAX_PACKET_BYTES ||
				     packets[i].length % 4 != 0;
	return n;
}

static const struct sml_transport_ops spy_ops = {
	.name = "spy",
	.send = spy_send,
	.send_results = spy_send_results,
	.receive = spy_receive,
};

/* ---- set-up ---- */

static int open_hostile(union sml_sockaddr *address)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t length = sizeof(address->v4);

	*address = (union sml_sockaddr){.v4 = {.sin_family = AF_INET}};
	address->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, &address->any, length) < 0 ||
	    getsockname(fd, &address->any, &length) < 0)
		abort();
	return fd;
}

/* A transport to one switch, or among ranks; sometimes with faults that change nothing. */
static void open_transport(struct world *world)
{
	static const struct sml_log silent;
	const struct sml_faults none = {.seed = 1};
	struct sml_interface interface = {.name = "lo", .mtu = 65536};
	struct sml_transport_config config = {.interface = &interface, .log = &silent};
	union sml_sockaddr own = {0};
	socklen_t length = sizeof(own);

	world->hostile = open_hostile(&config.peer);
	for (unsigned i = 0; i < SML_MAX_CHILDREN; i++)
		world->peers[i] = config.peer;
	world->among_ranks = gen_below(world->gen, 2);
	if (world->among_ranks)
		config.peers = world->peers;
	if (sml_transport_udp.open(&world->spy.inner, &config) < 0)
		abort();
	if (getsockname(world->spy.inner->poll_fd, &own.any, &length) < 0)
		abort();
	own.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (connect(world->hostile, &own.any, sizeof(own.v4)) < 0)
		abort();
	if (gen_below(world->gen, 2)) {
		world->spy.inner = sml_faults_wrap(world->spy.inner, &none, 1);
		if (world->spy.inner == NULL)
			abort();
	}
	world->spy.base = *world->spy.inner;
	world->spy.base.ops = &spy_ops;
}

static void close_world(struct world *world)
{
	world->spy.inner->ops->close(world->spy.inner);
	close(world->hostile);
}

/* ---- what comes ---- */

static uint32_t draw_length(struct gen *gen)
{
	static const uint32_t edges[] = {0,
					 SML_HEADER_BYTES,
					 SML_HEADER_BYTES + 4 * 352,
					 SML_MAX_PACKET_BYTES,
					 SML_SUPER_PACKET_BYTES,
					 65504};
	uint32_t edge = edges[gen_below(gen, sizeof(edges) / sizeof(edges[0]))];

	if (gen_below(gen, 2) == 0)
		return edge + 4 * gen_below(gen, 2) <= MAX_DATAGRAM ? edge + 4 * gen_below(gen, 2)
								    : edge;
	return gen_below(gen, MAX_DATAGRAM + 1);
}

static void draw_packet(struct world *world, uint8_t *place, uint32_t length)
{
	struct gen *gen = world->gen;
	uint32_t lanes = length < SML_HEADER_BYTES ? 0 : (length - SML_HEADER_BYTES) / 4;
	struct sml_header header = {
		.magic_be = sml_be16(SML_WIRE_MAGIC),
		.version = SML_WIRE_VERSION,
		.kind = (uint8_t)(gen_below(gen, 3) ? SML_PACKET_PROBE
						    : gen_below(gen, SML_PACKET_KINDS + 2)),
		.job_be = sml_be32(JOB),
		.key_be = sml_be64(COOKIE),
		.epoch_be = sml_be32(EPOCH),
		.rank = (uint8_t)gen_below(gen, 2),
		.lanes_be = sml_be16((uint16_t)(gen_seldom(gen) ? gen_below(gen, 65536) : lanes)),
	};

	memcpy(place, &header, length < sizeof(header) ? length : sizeof(header));
}

static bool send_datagram(struct world *world)
{
	uint32_t length = draw_length(world->gen);
	int segment = 0;

	memset(world->bytes, 0, length);
	draw_packet(world, world->bytes, length);
	if (gen_seldom(world->gen) && length > 0) {
		segment = (int)(length / (1 + gen_below(world->gen, MAX_SEGMENTS)));
		for (uint32_t at = 0; segment >= 1 && at < length; at += (uint32_t)segment)
			draw_packet(world, world->bytes + at,
				    length - at < (uint32_t)segment ? length - at
								    : (uint32_t)segment);
	}
	(void)setsockopt(world->hostile, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment));
	return send(world->hostile, world->bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

/* Loopback delivers within the call, so all answers have been sent by now. */
static const char *check_answers(struct world *world)
{
	for (;;) {
		ssize_t n = recv(world->hostile, world->bytes, sizeof(world->bytes), MSG_DONTWAIT);

		if (n < 0 && (errno == ECONNREFUSED || errno == EINTR))
			continue;
		if (n < 0)
			return NULL;
		PROPERTY_CHECK(n >= SML_HEADER_BYTES && n <= SML_MAX_PACKET_BYTES,
			       "an answer is no packet of the protocol");
		PROPERTY_CHECK(((struct sml_header *)(void *)world->bytes)->kind ==
				       SML_PACKET_PROBE_REPLY,
			       "a rank answered with something else than a reply");
	}
}

static const char *run(struct world *world, struct sml_probe *probe)
{
	const char *wrong = NULL;

	for (uint32_t n = gen_below(world->gen, MAX_DATAGRAMS) + 1; wrong == NULL && n > 0; n--) {
		(void)send_datagram(world);
		do
			sml_probe_serve(probe);
		while (!world->spy.base.drained);
		wrong = check_answers(world);
		if (world->spy.wrong_length)
			wrong = "a transport hands out what no packet can be";
	}
	return wrong;
}

const char *property_receive(struct gen *gen, bool tiny)
{
	struct guarded memory = guard_take(sizeof(struct world));
	struct world *world = memset(memory.bytes, 0, memory.n);
	struct sml_pool_rules own = {.tag = 5,
				     .job = JOB,
				     .epoch = EPOCH,
				     .head_slots = 4,
				     .data_slots = 4,
				     .lanes = 352,
				     .n_ranks = 2,
				     .n_shards = 1,
				     .cookies = {COOKIE, COOKIE}};
	struct sml_transport *transport = &world->spy.base;
	static struct sml_context context;
	struct sml_stripe stripe = {.context = &context,
				    .admission = {.job_number = JOB, .epoch = EPOCH, .shards = 1}};
	struct sml_probe *probe;
	const char *wrong;

	(void)tiny;
	world->gen = gen;
	open_transport(world);
	context.form = &sml_form_switches;
	context.n_stripes = 1;
	context.stripes = &stripe;
	probe = sml_probe_new(&stripe, &transport, world->among_ranks ? &own : NULL);
	if (probe == NULL)
		abort();
	wrong = run(world, probe);
	sml_probe_free(probe);
	close_world(world);
	if (!guard_give(&memory) && wrong == NULL)
		wrong = "somebody wrote outside their memory";
	return wrong;
}
