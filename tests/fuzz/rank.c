/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A switch and hostile ranks. The ranks join and get their cookies, so their packets pass
 * all checks of the sender. Then they send any messages and packets, also packets of a job
 * that has just ended. The property asserts memory safety only: with the sanitizers, and
 * with assertions that are always on.
 *
 * Everything is as in production except the control port, which is a Unix socket, and the
 * control thread's clock. The UDP dataplane has its own thread and socket.
 */
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz/datagram.h"
#include "fuzz/oracle.h"
#include "fuzz/port.h"
#include "fuzz/properties.h"
#include "switch/switch.h"

#define MAX_PEERS  6
#define MAX_RANKS  3
#define MAX_STEPS  40
#define PORT_TRIES 50
#define MAX_SLOTS  64
/* The dataplane's thread gets this many chances to receive a packet. Then the run continues. */
#define MAX_YIELDS 200

struct hostile {
	struct peer peer;
	int udp;
	uint32_t uses[MAX_SLOTS]; /* the use that it contributes to next */
};

struct world {
	struct sml_server server;
	struct gen *gen;
	struct peer_port port;
	struct datagram datagram;
};

static struct hostile ranks[MAX_PEERS];

static void serve(struct world *world)
{
	for (int i = 0; i < 3; i++)
		while (sml_loop_turn(world->server.loop, 0))
			;
	for (uint32_t i = 0; i < MAX_PEERS; i++) {
		(void)peer_hear(&ranks[i].peer);
		peer_go_on(&ranks[i].peer);
	}
}

/* ---- packets ---- */

static void connect_udp(struct world *world, struct hostile *rank)
{
	struct sockaddr_in to = {.sin_family = AF_INET};

	to.sin_port = htons(world->server.port);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (rank->udp < 0)
		rank->udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (rank->udp < 0 || connect(rank->udp, (struct sockaddr *)&to, sizeof(to)) < 0)
		abort();
}

static struct sml_header header_of(const struct hostile *rank, enum sml_packet_kind kind)
{
	return (struct sml_header){
		.kind = (uint8_t)kind,
		.job_be = sml_be32(rank->peer.job),
		.key_be = sml_be64(rank->peer.cookie),
		.epoch_be = sml_be32(rank->peer.epoch),
		.rank = rank->peer.rank,
	};
}

static void probe(struct world *world, struct hostile *rank, uint8_t shard)
{
	static const uint16_t widths[] = {0, 32, 358, SML_MAX_LANES};
	uint32_t what = gen_below(world->gen, 8);
	struct sml_header header = header_of(rank, SML_PACKET_PROBE);

	header.shard = shard;
	datagram_add(&world->datagram, world->gen, &header, widths[what % 4]);
	datagram_send(&world->datagram, rank->udp, NULL);
}

/* Mostly its slots in order, so that uses complete if the other ranks do the same. */
static void contribute(struct world *world, struct hostile *rank)
{
	static const uint16_t lanes[] = {8, 0, 32, 358};
	/* Of one block of int16 or two of int8, and of most that a packet has room for. */
	static const uint16_t rounded[] = {33, 0, 32, 355}, narrow[] = {33, 17, 32, 358};
	static const uint8_t kinds[] = {SML_LANE_INT32, SML_LANE_INT16_ROUNDED, SML_LANE_INT32,
					SML_LANE_INT8_ROUNDED};
	struct gen *gen = world->gen;
	uint16_t count;
	uint32_t n_slots = rank->peer.n_slots < MAX_SLOTS ? rank->peer.n_slots : MAX_SLOTS;
	uint32_t slot = gen_below(gen, n_slots ? (gen_below(gen, 4) ? 2 : n_slots) : 1),
		 what = gen_below(gen, 16);
	struct sml_header header = header_of(rank, SML_PACKET_CONTRIBUTION);
	uint8_t n_shards = rank->peer.shards ? rank->peer.shards : 1;

	header.slot_be = sml_be16((uint16_t)slot);
	header.shard = (uint8_t)(slot % n_shards);
	header.use_be = sml_be32(rank->uses[slot] + (what == 15 ? gen_below(gen, 4) : 0) -
				 (what == 14 ? gen_below(gen, 4) : 0));
	header.digest_be = sml_be32(what == 13 ? 2 : 1);
	header.op = what == 12 ? SML_LANE_MAX : SML_LANE_SUM;
	/* All ranks have one kind in a slot, so that uses of either kind complete. */
	header.lane_kind = what == 11 ? SML_LANE_INT16_PAIR : kinds[slot % 4];
	rank->uses[slot] += what < 10;
	count = (slot % 2 == 0	 ? lanes
		 : slot % 4 == 1 ? rounded
				 : narrow)[what == 10 ? gen_below(gen, 4) : 0];
	/* Zeros, that do not travel. */
	if (what == 9)
		header.lane_kind |= SML_LANES_OMITTED;
	datagram_add(&world->datagram, gen, &header, count);
}

static void contribute_much(struct world *world)
{
	uint32_t n = gen_range(world->gen, 1, 8);

	for (; n > 0; n--) {
		struct hostile *rank = &ranks[gen_below(world->gen, MAX_RANKS)];

		for (uint32_t i = gen_range(world->gen, 1, 4); i > 0; i--)
			contribute(world, rank);
		datagram_send(&world->datagram, rank->udp, NULL);
	}
}

static void take_results(void)
{
	struct sml_header header;
	struct sockaddr_in from;

	for (uint32_t i = 0; i < MAX_PEERS; i++)
		while (datagram_take(ranks[i].udp, &header, &from))
			;
}

static uint64_t count_probes(const struct world *world)
{
	struct sml_dataplane_counters counters;

	world->server.jobs.operations->counters(world->server.jobs.dataplane, &counters);
	return counters.probes;
}

/* ---- messages ---- */

static void join(struct world *world, struct hostile *rank)
{
	const struct say_terms terms = {.most_ranks = MAX_RANKS};

	if (rank->peer.fd < 0)
		peer_port_connect(&world->port, &rank->peer);
	memset(rank->uses, 0, sizeof(rank->uses));
	say_join(&rank->peer, world->gen, &terms);
	peer_push(&rank->peer, SIZE_MAX);
}

/* Start a job and let it run: no job runs before the addresses of its ranks are known. */
static void gather(struct world *world)
{
	const struct say_terms terms = {.most_ranks = MAX_RANKS};
	uint32_t n_ranks = gen_range(world->gen, 1, MAX_RANKS);
	uint64_t n_probes = count_probes(world);

	for (uint32_t i = 0; i < n_ranks; i++) {
		/* A rank that was connected before cannot join again. */
		peer_hang_up(&ranks[i].peer);
		peer_port_connect(&world->port, &ranks[i].peer);
		memset(ranks[i].uses, 0, sizeof(ranks[i].uses));
		say_honest_join(&ranks[i].peer, &terms, i, n_ranks);
		peer_push(&ranks[i].peer, SIZE_MAX);
	}
	serve(world);
	for (uint32_t i = 0; i < n_ranks; i++)
		probe(world, &ranks[i], 0);
	for (int i = 0; i < MAX_YIELDS && count_probes(world) < n_probes + n_ranks; i++)
		usleep(10);
	for (uint32_t i = 0; i < n_ranks; i++) {
		say_ready(&ranks[i].peer, world->gen);
		peer_push(&ranks[i].peer, SIZE_MAX);
	}
	serve(world);
}

static void speak(struct world *world, struct hostile *rank)
{
	struct gen *gen = world->gen;

	if (rank->peer.fd < 0)
		join(world, rank);
	switch (gen_below(gen, 8)) {
	case 0:
		say_ready(&rank->peer, gen);
		break;
	case 1:
		say_anything(&rank->peer, gen);
		break;
	case 2:
		say_again(&rank->peer, gen);
		break;
	case 3:
		if (gen_below(gen, 4) == 3)
			say_much(&rank->peer, gen);
		break;
	default:
		say_as_member(&rank->peer, gen);
		break;
	}
	peer_push(&rank->peer, gen_below(gen, 8) ? SIZE_MAX : gen_below(gen, 64));
}

static void act(struct world *world)
{
	struct gen *gen = world->gen;
	struct hostile *rank = &ranks[gen_below(gen, MAX_PEERS)];

	switch (gen_below(gen, 16)) {
	case 0:
		peer_hang_up(&rank->peer);
		break;
	case 1:
		join(world, rank);
		break;
	case 2:
	case 3:
		gather(world);
		break;
	case 4:
		probe(world, rank, (uint8_t)gen_below(gen, 3));
		break;
	case 5:
		oracle_pass((1 + gen_below(gen, 30)) * SML_TICK_NS);
		break;
	case 6:
		take_results();
		break;
	case 7:
	case 8:
	case 9:
		speak(world, rank);
		break;
	default:
		contribute_much(world);
		break;
	}
	if (gen_below(gen, 2))
		serve(world);
}

/* ---- the world ---- */

static void open_server(struct world *world)
{
	struct sml_server *server = &world->server;
	int rc = -1;

	signal(SIGPIPE, SIG_IGN);
	/* The port must be free for TCP and for UDP. */
	for (int i = 0; rc < 0 && i < PORT_TRIES; i++) {
		memset(server, 0, sizeof(*server));
		sml_switch_config_init(&server->config);
		server->config.max_jobs = 3;
		rc = sml_server_open(server, "127.0.0.1", 0);
		if (rc < 0)
			sml_server_close(server);
	}
	if (rc < 0)
		abort();
	peer_port_move(&world->port, server);
}

static void open_ranks(struct world *world)
{
	static bool opened;

	for (uint32_t i = 0; i < MAX_PEERS; i++) {
		if (!opened)
			ranks[i].peer.fd = ranks[i].udp = -1;
		connect_udp(world, &ranks[i]);
	}
	opened = true;
}

const char *property_rank(struct gen *gen, bool tiny)
{
	static struct world world;

	(void)tiny;
	world.gen = gen;
	oracle_begin();
	open_server(&world);
	open_ranks(&world);
	for (uint32_t n = gen_below(gen, MAX_STEPS); n > 0; n--)
		act(&world);
	serve(&world);
	take_results();
	for (uint32_t i = 0; i < MAX_PEERS; i++)
		peer_hang_up(&ranks[i].peer);
	sml_server_close(&world.server);
	oracle_end();
	return NULL;
}
