/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The switch's control plane, and workers that say whatever they like: jobs and
 * slots come back when the last of them is gone, whatever they said, and all that
 * they are told are messages.
 *
 * Everything is as in production but the sockets, which are socket pairs, and the
 * dataplane, which counts jobs and moves no packets.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz/properties.h"
#include "support/messages.h"
#include "switch/control/server.h"
#include "switch/switch.h"

#define MAX_PEERS 5

/* ---- a dataplane without packets ---- */

struct sml_dataplane {
	struct sml_dataplane_config config;
	struct sml_pool_rules jobs[SML_MAX_JOBS]; /* n_ranks 0: none */
	const char *wrong;
};

static int open_nothing(struct sml_dataplane **opened, const struct sml_dataplane_config *config)
{
	*opened = calloc(1, sizeof(**opened));
	if (*opened == NULL)
		abort();
	(*opened)->config = *config;
	return 0;
}

static void close_nothing(struct sml_dataplane *dataplane)
{
	free(dataplane);
}

static struct sml_pool_rules *job_of(struct sml_dataplane *dataplane, uint32_t number)
{
	struct sml_pool_rules *rules = &dataplane->jobs[number % SML_MAX_JOBS];

	if (rules->n_ranks == 0 || rules->job != number)
		dataplane->wrong = "the dataplane is asked about a job that it does not have";
	return rules;
}

static int add_job(struct sml_dataplane *dataplane, const struct sml_pool_rules *rules)
{
	struct sml_pool_rules *place = &dataplane->jobs[rules->job % SML_MAX_JOBS];

	if (place->n_ranks != 0)
		dataplane->wrong = "a job has got another's place";
	if (rules->n_ranks == 0 || rules->n_ranks > SML_MAX_RANKS || rules->n_shards == 0 ||
	    rules->n_shards > SML_MAX_SHARDS || rules->lanes == 0 || rules->lanes > SML_MAX_LANES ||
	    rules->head_slots < rules->n_shards || rules->data_slots < rules->n_shards ||
	    rules->head_slots + rules->data_slots > SML_MAX_SLOTS)
		dataplane->wrong = "a job has impossible rules";
	*place = *rules;
	return 0;
}

static int start_job(struct sml_dataplane *dataplane, uint32_t number)
{
	job_of(dataplane, number);
	return 0;
}

static void remove_job(struct sml_dataplane *dataplane, uint32_t number)
{
	job_of(dataplane, number)->n_ranks = 0;
}

static const char *misses_address(struct sml_dataplane *dataplane, uint32_t number, uint8_t rank)
{
	return rank < job_of(dataplane, number)->n_ranks ? NULL : "is not of this job";
}

static uint32_t window(struct sml_dataplane *dataplane, uint32_t packet_bytes, uint32_t n_ranks)
{
	if (n_ranks == 0 || packet_bytes > SML_MAX_PACKET_BYTES)
		dataplane->wrong = "a window for nobody, or for giants";
	return 64;
}

static void job_counters(struct sml_dataplane *dataplane, uint32_t number,
			 struct sml_job_counters *counters)
{
	job_of(dataplane, number);
	memset(counters, 0, sizeof(*counters));
}

static uint32_t slot_states(struct sml_dataplane *dataplane, uint32_t number,
			    struct sml_slot_progress *states, uint32_t n)
{
	const struct sml_pool_rules *rules = job_of(dataplane, number);

	for (uint32_t i = 0; i < n; i++)
		states[i] =
			(struct sml_slot_progress){(uint16_t)i, i, sml_pool_all_ranks(rules) & i};
	return n;
}

static void all_counters(struct sml_dataplane *dataplane, struct sml_dataplane_counters *counters)
{
	(void)dataplane;
	memset(counters, 0, sizeof(*counters));
}

static const struct sml_dataplane_operations nothing = {
	.name = "nothing",
	.open = open_nothing,
	.close = close_nothing,
	.add_job = add_job,
	.start_job = start_job,
	.remove_job = remove_job,
	.misses_address = misses_address,
	.window = window,
	.job_counters = job_counters,
	.slot_states = slot_states,
	.counters = all_counters,
};

/* ---- workers ---- */

struct peer {
	int fd; /* -1: not there */
	struct evbuffer *in;
};

struct world {
	struct sml_server *server;
	struct gen *gen;
	struct peer peers[MAX_PEERS];
	const char *wrong;
};

static void serve(struct world *world)
{
	/* Accepting takes a turn, reading takes one, and what follows from that a few. */
	for (int i = 0; i < 6; i++)
		event_base_loop(world->server->base, EVLOOP_NONBLOCK);
}

/* All that a peer is told must be messages. */
static void listen_to_switch(struct world *world, struct peer *peer)
{
	SmlControl__Envelope *message;
	int rc;

	if (peer->fd < 0)
		return;
	while (evbuffer_read(peer->in, peer->fd, 65536) > 0)
		;
	while ((rc = sml_frame_read(peer->in, &message)) == 1)
		sml_control__envelope__free_unpacked(message, NULL);
	if (rc < 0)
		world->wrong = "the switch said what is not a message";
}

static void hang_up(struct peer *peer)
{
	if (peer->fd >= 0)
		close(peer->fd);
	if (peer->in)
		evbuffer_free(peer->in);
	*peer = (struct peer){.fd = -1};
}

static void connect_peer(struct world *world, struct peer *peer)
{
	int fds[2];

	hang_up(peer);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
		abort();
	peer->fd = fds[0];
	peer->in = evbuffer_new();
	if (peer->in == NULL)
		abort();
	sml_connection_open(world->server, fds[1]);
}

static void say(struct peer *peer, const struct draft *frame)
{
	/* A full pipe: the switch does not read any more, and need not. */
	if (send(peer->fd, frame->bytes, frame->n, MSG_NOSIGNAL) < 0 && errno != EPIPE &&
	    errno != EAGAIN && errno != ECONNRESET)
		abort();
}

static void say_join(struct world *world, struct peer *peer)
{
	SmlControl__Join join = SML_CONTROL__JOIN__INIT;
	SmlControl__Resume resume = SML_CONTROL__RESUME__INIT;
	SmlControl__StreamReport reports[SML_STREAMS],
		*list[SML_STREAMS] = {&reports[0], &reports[1]};
	uint32_t chunks[2] = {0, 1};
	struct gen *gen = world->gen;
	struct draft draft, frame;

	join.protocol = SML_CONTROL_PROTOCOL;
	join.library_version = (char *)(uintptr_t)SML_VERSION_STRING;
	join.job = (char *)(uintptr_t)(gen_below(gen, 3) ? "a" : "b");
	join.world_size = gen_below(gen, 4) ? 2 : gen_range(gen, 1, 3);
	join.rank = gen_below(gen, join.world_size);
	join.host = (char *)(uintptr_t) "h";
	join.lanes = 352;
	join.head_slots = 4;
	join.data_slots = 16;
	join.shards = 1;
	join.heartbeat_ms = 60000;
	join.stripes = 1;
	for (unsigned i = 0; i < SML_STREAMS; i++) {
		sml_control__stream_report__init(&reports[i]);
		reports[i].beyond = 2;
		reports[i].lacking = chunks;
		reports[i].n_lacking = gen_below(gen, 2);
		reports[i].kept = chunks + 1;
		reports[i].n_kept = gen_below(gen, 2);
	}
	resume.epoch = 1;
	resume.tag = 19;
	resume.membership = 23;
	resume.streams = list;
	resume.n_streams = SML_STREAMS;
	if (gen_below(gen, 3) == 0)
		join.resume = &resume;
	draft_from(&draft, &join.base);
	if (gen_below(gen, 4) == 0)
		draft_fields(&draft, gen, &sml_control__join__descriptor, 0);
	draft_frame(&draft, SML_CONTROL__ENVELOPE__BODY_JOIN, &frame);
	say(peer, &frame);
}

static void say_ready(struct peer *peer)
{
	SmlControl__Ready ready = SML_CONTROL__READY__INIT;
	struct draft draft, frame;

	ready.lanes = 352;
	draft_from(&draft, &ready.base);
	draft_frame(&draft, SML_CONTROL__ENVELOPE__BODY_READY, &frame);
	say(peer, &frame);
}

static void say_anything(struct world *world, struct peer *peer)
{
	struct draft frame;

	draft_any(&frame, world->gen);
	say(peer, &frame);
}

/* Two ranks of a job that runs disagree, says the dataplane. */
static void disagree(struct world *world)
{
	struct sml_dataplane *dataplane = world->server->jobs.dataplane;

	for (uint32_t i = 0; i < SML_MAX_JOBS; i++) {
		const struct sml_pool_rules *rules = &dataplane->jobs[i];
		struct sml_mismatch mismatch = {.job = rules->job, .slot = 1, .use = 2};

		if (rules->n_ranks < 2)
			continue;
		mismatch.ranks[1] = (uint8_t)(rules->n_ranks - 1);
		dataplane->config.on_mismatch(dataplane->config.context, &mismatch);
	}
}

static void act(struct world *world)
{
	struct peer *peer = &world->peers[gen_below(world->gen, MAX_PEERS)];
	uint32_t what = gen_below(world->gen, 16);

	if (peer->fd < 0) {
		connect_peer(world, peer);
		say_join(world, peer);
	} else if (what < 2) {
		hang_up(peer);
	} else if (what < 4) {
		connect_peer(world, peer);
	} else if (what < 6) {
		say_join(world, peer);
	} else if (what < 10) {
		say_ready(peer);
	} else if (what < 11) {
		disagree(world);
	} else {
		say_anything(world, peer);
	}
	/* Often several have spoken before the switch looks. */
	if (gen_below(world->gen, 3))
		serve(world);
}

/* One for all runs: what one leaves behind, the next finds. */
static struct sml_server *open_server(void)
{
	static struct sml_server *server;

	if (server)
		return server;
	server = calloc(1, sizeof(*server));
	if (server == NULL)
		abort();
	/* As in every process that runs a switch. */
	signal(SIGPIPE, SIG_IGN);
	sml_switch_config_init(&server->config);
	server->config.dataplane = &nothing;
	server->config.debug = 0;
	if (sml_server_open(server, "127.0.0.1", 0) < 0)
		abort();
	return server;
}

static const char *check_empty(const struct sml_server *server)
{
	PROPERTY_CHECK(server->connections == NULL && server->n_connections == 0,
		       "a connection outlives its peer");
	PROPERTY_CHECK(server->jobs.n_jobs == 0, "a job outlives its ranks");
	PROPERTY_CHECK(server->jobs.slots_in_use == 0, "slots were not given back");
	PROPERTY_CHECK(server->held_bytes == 0, "bytes are held for nobody");
	for (uint32_t i = 0; i < SML_MAX_JOBS; i++)
		PROPERTY_CHECK(server->jobs.jobs[i] == NULL &&
				       server->jobs.dataplane->jobs[i].n_ranks == 0,
			       "a job is left in its place");
	return server->jobs.dataplane->wrong;
}

const char *property_server(struct gen *gen, bool tiny)
{
	struct world world = {.server = open_server(), .gen = gen};

	(void)tiny;
	for (uint32_t i = 0; i < MAX_PEERS; i++)
		world.peers[i].fd = -1;
	for (uint32_t n = gen_below(gen, 40); n > 0; n--) {
		act(&world);
		for (uint32_t i = 0; i < MAX_PEERS; i++)
			listen_to_switch(&world, &world.peers[i]);
	}
	serve(&world);
	for (uint32_t i = 0; i < MAX_PEERS; i++) {
		listen_to_switch(&world, &world.peers[i]);
		hang_up(&world.peers[i]);
	}
	serve(&world);
	return world.wrong ? world.wrong : check_empty(world.server);
}
