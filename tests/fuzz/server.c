/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The switch's control plane, and peers that send anything, in sequences: several peers
 * connect, join one job or several, continue, disagree, hang up, send too much, send in
 * pieces, repeat messages, or do not read. Time passes. What must hold:
 *
 *	no turn of the event loop takes longer than 10 ms of the processor (oracle.h)
 *	nothing grows above a bound: connections, jobs, members, slots, what waits to be
 *	sent to one peer, and the bytes that the process has allocated
 *	everything that a peer receives is a valid message
 *	jobs, slots, connections and memory are free again when the last peer is gone
 *
 * Everything is as in production except three things: the port is a Unix socket, the clock
 * is simulated, and the dataplane counts jobs and moves no packets. If ranks have the slots,
 * the dataplane is that of production.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "fuzz/oracle.h"
#include "fuzz/peer.h"
#include "fuzz/port.h"
#include "fuzz/properties.h"
#include "job/members/job.h"
#include "support/dataplane.h"
#include "switch/control/server.h"
#include "switch/switch.h"

#define MAX_PEERS 12
#define MAX_RANKS 4
#define MAX_STEPS 64
/*
 * Data that may wait for one peer. A peer with 64 KiB waiting gets no more optional messages
 * (switch/control/connection.c). The longest optional message and all others together stay below
 * this.
 */
#define MAX_UNSENT_BYTES (512u << 10)
/* Memory of a connection: data waiting both ways, its report, and its part of a job. */
#define CONNECTION_BYTES ((size_t)1 << 20)
/* Memory of a job: the job itself, and what resuming ranks have and lack. */
#define JOB_BYTES ((size_t)1 << 20)
/* Memory of the process: what libevent and libc use, and what they still hold at the end. */
#define SLACK_BYTES ((size_t)256 << 10)
#define LEFT_BYTES  ((size_t)16 << 10)

struct world {
	struct sml_server *server;
	struct gen *gen;
	struct peer_port port;
	size_t live_bytes; /* at the start */
	const char *wrong;
};

static struct peer peers[MAX_PEERS];

/* ---- bounds ---- */

static const char *check_connection(const struct sml_connection *connection)
{
	const struct sml_peer *peer = &connection->peer;

	PROPERTY_CHECK(sml_stream_unsent_bytes(&connection->channel.stream) <= MAX_UNSENT_BYTES,
		       "too many bytes wait for a peer");
	PROPERTY_CHECK(peer->job == NULL || peer->job->members.of[peer->rank].peer == peer,
		       "a job does not know its member");
	return NULL;
}

static const char *check_connections(const struct sml_server *server)
{
	uint32_t n = 0, n_strangers = 0, n_members = 0;
	size_t held = 0;

	for (const struct sml_connection *c = server->connections; c != NULL; c = c->next) {
		const char *wrong = check_connection(c);

		PROPERTY_CHECK(wrong == NULL, wrong);
		n++;
		n_members += sml_peer_is_member(&c->peer);
		/*
		 * A peer whose job has just ended gets a message, and does not count for that
		 * second.
		 */
		n_strangers += !sml_peer_is_member(&c->peer) && !c->channel.closing;
		held += c->held_bytes;
	}
	PROPERTY_CHECK(n == server->n_connections && held == server->held_bytes,
		       "connections, or what they hold, are counted wrong");
	PROPERTY_CHECK(n_strangers <= server->config.max_strangers, "too many strangers");
	PROPERTY_CHECK(n_members == server->jobs.n_members, "members are counted wrong");
	return NULL;
}

static const char *check_jobs(const struct sml_server *server)
{
	uint32_t n = 0, n_kept = 0, n_slots = 0;

	for (uint32_t i = 0; i < SML_MAX_JOBS; i++) {
		const struct sml_job *job = server->jobs.jobs[i];

		n += job != NULL;
		n_slots +=
			job ? (uint32_t)job->pool.rules.head_slots + job->pool.rules.data_slots : 0;
	}
	for (uint32_t i = 0; i < SML_FAILED_JOBS; i++) {
		const struct sml_failed_job *kept = &server->jobs.failed[i];

		n_kept += kept->kept_until_ns != 0;
		n_slots += kept->kept_until_ns != 0 ? kept->kept_slots : 0;
	}
	PROPERTY_CHECK(n_kept == server->jobs.n_kept, "places are kept for no job");
	PROPERTY_CHECK(n == server->jobs.n_jobs && n + n_kept <= server->config.max_jobs,
		       "too many jobs");
	PROPERTY_CHECK(n_slots == server->jobs.slots_in_use && n_slots <= server->config.max_slots,
		       "jobs have more slots than there are");
	return NULL;
}

static const char *check_bounds(const struct world *world)
{
	const struct sml_server *server = world->server;
	const char *wrong = check_connections(server);
	size_t most = world->live_bytes + 2 * SLACK_BYTES +
		      server->n_connections * CONNECTION_BYTES + server->jobs.n_jobs * JOB_BYTES;

	if (wrong == NULL)
		wrong = check_jobs(server);
	PROPERTY_CHECK(wrong == NULL, wrong);
	PROPERTY_CHECK(oracle_live_bytes() <= most, "the switch takes too much memory");
	return NULL;
}

/* ---- turns ---- */

static void note(struct world *world, const char *wrong)
{
	if (world->wrong == NULL)
		world->wrong = wrong;
}

static void serve(struct world *world)
{
	/* Accepting takes one turn, reading takes one, and the consequences take a few. */
	for (int i = 0; i < 3; i++) {
		while (sml_loop_turn(world->server->loop, 0))
			;
		oracle_returned();
		note(world, check_bounds(world));
	}
	for (uint32_t i = 0; i < MAX_PEERS; i++) {
		note(world, peer_hear(&peers[i]));
		peer_go_on(&peers[i]);
	}
}

static void pass_time(struct world *world)
{
	static const uint16_t ticks[] = {1, 2, 7, 12, 60, 110, 220};
	struct gen *gen = world->gen;
	uint32_t n = ticks[gen_below(gen, sizeof(ticks) / sizeof(ticks[0]))];

	/* Sometimes the switch is frozen during all of this time. */
	if (gen_below(gen, 4) == 3) {
		oracle_pass(n * SML_TICK_NS);
		n = 1;
	}
	for (; n > 0 && world->wrong == NULL; n--) {
		oracle_pass(SML_TICK_NS);
		serve(world);
	}
}

/* ---- steps ---- */

static struct say_terms terms_of(const struct world *world)
{
	return (struct say_terms){
		.ranks_have_slots = world->server->config.rendezvous,
		.most_ranks = MAX_RANKS,
	};
}

static void join(struct world *world, struct peer *peer)
{
	const struct say_terms terms = terms_of(world);

	say_join(peer, world->gen, &terms);
}

/* The dataplane reports that two ranks of a running job disagree. */
static void disagree(struct world *world)
{
	struct sml_dataplane *dataplane = world->server->jobs.dataplane;

	for (uint32_t i = 0; dataplane != NULL && i < SML_MAX_JOBS; i++) {
		const struct sml_pool_rules *rules = &dataplane->jobs[i];
		struct sml_mismatch mismatch = {.job = rules->job, .slot = 1, .use = 2};

		if (rules->n_ranks < 2)
			continue;
		mismatch.ranks[1] = (uint8_t)(rules->n_ranks - 1);
		dataplane->config.on_mismatch(dataplane->config.context, &mismatch);
	}
}

static void connect_all(struct world *world)
{
	for (uint32_t i = 0; i < MAX_PEERS; i++)
		if (peers[i].fd < 0)
			peer_port_connect(&world->port, &peers[i]);
}

/* Let all ranks of a job join until the job runs, because that rarely happens by chance. */
static void gather(struct world *world)
{
	const struct say_terms terms = terms_of(world);
	uint32_t n_ranks = gen_below(world->gen, 4) ? 2 : gen_range(world->gen, 1, MAX_RANKS);

	for (uint32_t i = 0; i < n_ranks; i++) {
		if (peers[i].fd < 0)
			peer_port_connect(&world->port, &peers[i]);
		say_honest_join(&peers[i], &terms, i, n_ranks);
		peer_push(&peers[i], SIZE_MAX);
	}
	serve(world);
	for (uint32_t i = 0; i < n_ranks; i++) {
		say_ready(&peers[i], world->gen);
		peer_push(&peers[i], SIZE_MAX);
	}
}

static void speak(struct world *world, struct peer *peer)
{
	struct gen *gen = world->gen;

	switch (gen_below(gen, 13)) {
	case 0:
	case 1:
		join(world, peer);
		break;
	case 2:
	case 3:
		say_ready(peer, gen);
		break;
	case 4:
		say_anything(peer, gen);
		break;
	case 5:
		say_much(peer, gen);
		break;
	case 6:
		say_again(peer, gen);
		break;
	case 7:
		if (gen_below(gen, 4) == 3)
			say_garbage(peer, gen);
		break;
	case 8:
		say_questions(peer, gen);
		break;
	default:
		say_as_member(peer, gen);
		break;
	}
	/* Often only a part arrives at once. */
	peer_push(peer, gen_below(gen, 4) ? SIZE_MAX : gen_below(gen, 64));
}

static void act(struct world *world)
{
	struct gen *gen = world->gen;
	struct peer *peer = &peers[gen_below(gen, MAX_PEERS)];

	switch (gen_below(gen, 16)) {
	case 0:
		peer_hang_up(peer);
		break;
	case 1:
		peer_port_connect(&world->port, peer);
		break;
	case 2:
		connect_all(world);
		break;
	case 3:
		disagree(world);
		break;
	case 4:
		pass_time(world);
		break;
	case 5:
		peer->deaf = !peer->deaf;
		break;
	case 6:
	case 7:
		gather(world);
		break;
	case 8:
		if (peer->fd >= 0)
			shutdown(peer->fd, SHUT_WR);
		break;
	case 9:
		peer_push(peer, SIZE_MAX);
		break;
	default:
		if (peer->fd < 0)
			peer_port_connect(&world->port, peer);
		speak(world, peer);
		break;
	}
	/* Often several peers have sent messages before the switch reads. */
	if (gen_below(gen, 3))
		serve(world);
}

/* ---- the world ---- */

static void open_server(struct world *world)
{
	static struct sml_server server;
	struct gen *gen = world->gen;

	/* As every process does that runs a switch. */
	signal(SIGPIPE, SIG_IGN);
	memset(&server, 0, sizeof(server));
	world->server = &server;
	sml_switch_config_init(&server.config);
	server.config.dataplane = &dataplane_counting;
	server.config.debug = 0;
	server.config.rendezvous = gen_below(gen, 3) == 2;
	server.config.max_strangers = gen_below(gen, 4) ? 2 * MAX_PEERS : gen_range(gen, 1, 4);
	server.config.max_jobs = gen_range(gen, 1, 3);
	server.config.max_slots = gen_below(gen, 4) ? 4096 : gen_range(gen, 10, 60);
	if (gen_below(gen, 4) == 3) {
		server.config.only_job = "a";
		server.config.only_world_size = 2;
	}
	if (sml_server_open(&server, "127.0.0.1", 0) < 0)
		abort();
	peer_port_move(&world->port, &server);
}

static const char *check_empty(const struct sml_server *server)
{
	PROPERTY_CHECK(server->connections == NULL && server->n_connections == 0,
		       "a connection outlives its peer");
	PROPERTY_CHECK(server->jobs.n_jobs == 0, "a job outlives its ranks");
	PROPERTY_CHECK(server->jobs.slots_in_use == 0 || server->jobs.n_kept > 0,
		       "slots were not given back");
	PROPERTY_CHECK(server->held_bytes == 0, "bytes are held for nobody");
	if (server->config.rendezvous)
		return NULL;
	for (uint32_t i = 0; i < SML_MAX_JOBS; i++)
		PROPERTY_CHECK(server->jobs.dataplane->jobs[i].n_ranks == 0,
			       "a job is left in its place");
	return server->jobs.dataplane->wrong;
}

static void hang_up_all(void)
{
	for (uint32_t i = 0; i < MAX_PEERS; i++)
		peer_hang_up(&peers[i]);
}

static struct oracle_verdict run(struct gen *gen)
{
	struct world world = {.gen = gen, .live_bytes = oracle_live_bytes()};
	static bool opened;
	uint64_t longest_turn_ns;

	for (uint32_t i = 0; !opened && i < MAX_PEERS; i++)
		peers[i].fd = -1;
	opened = true;
	oracle_begin();
	open_server(&world);
	for (uint32_t n = gen_below(world.gen, MAX_STEPS); n > 0 && world.wrong == NULL; n--)
		act(&world);
	serve(&world);
	hang_up_all();
	serve(&world);
	note(&world, check_empty(world.server));
	longest_turn_ns = oracle_longest_turn_ns();
	if (oracle_turns() == 0)
		note(&world, "no turn of the event loop was seen");
	sml_server_close(world.server);
	oracle_end();
	if (oracle_live_bytes() > world.live_bytes + LEFT_BYTES)
		note(&world, "memory is left behind");
	return (struct oracle_verdict){world.wrong, longest_turn_ns};
}

const char *property_server(struct gen *gen, bool tiny)
{
	(void)tiny;
	return oracle_run(gen, run);
}
