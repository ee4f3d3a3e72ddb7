/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A complete rank: sml_open(), calls, sml_close(). Its peer is a hostile switch, or a
 * hostile rank 0 if ranks have the slots. The hostile peer knows all secrets of the job, so
 * its messages and packets are accepted, and it sends any messages and packets. The property
 * asserts memory safety only: with the sanitizers, with assertions that are always on, and
 * with guards around the application's buffers, which are freed when their calls have
 * returned.
 *
 * After sml_open(), the rank has its own threads. Before that, this thread is both ends: the
 * hostile peer acts whenever the rank waits.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz/datagram.h"
#include "fuzz/oracle.h"
#include "fuzz/peer.h"
#include "fuzz/properties.h"
#include "support/guard.h"
#include "switchml.h"

#define MAX_STEPS  48
#define MAX_CALLS  4
#define MAX_SEEN   16
#define TIMEOUT_MS 1000

struct call {
	struct sml_request *request;
	struct guarded send, recv;
};

struct world {
	struct gen *gen;
	int listener, udp;
	uint16_t port, udp_port;
	bool embeds;
	uint32_t steps;
	bool runs, over;
	struct datagram datagram;
	/* The last packets that the rank sent. */
	struct sml_header seen[MAX_SEEN];
	struct sockaddr_in from[MAX_SEEN];
	uint32_t n_seen;
	uint32_t uses[MAX_SEEN]; /* of the slots in the rank */
	struct call calls[MAX_CALLS];
	uint32_t n_calls;
};

static struct peer hostile = {.fd = -1};

/* ---- packets ---- */

static void take_packets(struct world *world)
{
	struct sml_header header;
	struct sockaddr_in from;

	while (datagram_take(world->udp, &header, &from)) {
		uint32_t i = world->n_seen++ % MAX_SEEN;

		world->seen[i] = header;
		world->from[i] = from;
	}
}

/* The protocol's tag: the only secret that no packet shows. */
#define TAG 19

/* Answer a packet of the rank: honestly, or with a wrong number. */
static void answer_one(struct world *world, uint32_t i)
{
	struct gen *gen = world->gen;
	struct sml_header header = world->seen[i];

	/* Stripes in ranks have other tags: switch_messages.c gives them none. */
	header.key_be = sml_be64(world->embeds ? 0 : TAG);
	if (header.kind == SML_PACKET_CONTRIBUTION) {
		static const uint32_t tickets[] = {0, 1, 2, 7, 30, 64, 65, UINT32_MAX};

		header.kind = SML_PACKET_RESULT;
		header.chunk_be = sml_be32(tickets[gen_below(gen, 8)] + gen_below(gen, 4));
	} else {
		header.kind = SML_PACKET_PROBE_REPLY;
	}
	datagram_add(&world->datagram, gen, &header, sml_be16(header.lanes_be));
}

static void answer(struct world *world)
{
	uint32_t n = world->n_seen < MAX_SEEN ? world->n_seen : MAX_SEEN;
	uint32_t first = n ? gen_below(world->gen, n) : 0;
	uint32_t most = gen_below(world->gen, 4) ? n : 1;

	for (uint32_t k = 0; k < most && k < n; k++) {
		uint32_t i = (first + k) % n;

		answer_one(world, i);
		/* Mostly alone; otherwise together with others, in one super-packet. */
		if (gen_below(world->gen, 4) || k + 1 == most)
			datagram_send(&world->datagram, world->udp, &world->from[i]);
	}
	/* Sometimes all packets are answered again. */
	if (most == n && gen_below(world->gen, 4))
		world->n_seen = 0;
}

/* Send a contribution to the rank's own slots as another rank, or a probe. */
static void contribute(struct world *world)
{
	struct gen *gen = world->gen;
	uint32_t what = gen_below(gen, 8), slot = gen_below(gen, MAX_SEEN);
	struct sockaddr_in to = {.sin_family = AF_INET};
	struct sml_header header = {
		.kind = what == 7 ? SML_PACKET_PROBE : SML_PACKET_CONTRIBUTION,
		/* As in the admission by switch_messages.c: rank 1's stripe, and its cookies. */
		.job_be = sml_be32(257),
		.epoch_be = sml_be32(1),
		.rank = (uint8_t)(2 * gen_below(gen, 2)),
		.slot_be = sml_be16((uint16_t)slot),
		.shard = (uint8_t)(what == 6 ? gen_below(gen, 2) : 0),
		.digest_be = sml_be32(world->n_seen && what != 5 ? 0 : 1),
	};

	/*
	 * In step with the rank's own packets: packets for other stripes belong to the same
	 * calls.
	 */
	if (world->n_seen)
		header.digest_be = world->seen[gen_below(gen, MAX_SEEN)].digest_be;
	header.key_be = sml_be64(header.rank);
	header.use_be = sml_be32(world->uses[slot]);
	world->uses[slot] += what < 2;
	to.sin_port = htons(hostile.ports[0]);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	datagram_add(&world->datagram, gen, &header, gen_below(gen, 2) ? 8 : 352);
	datagram_send(&world->datagram, world->udp, &to);
}

/* ---- messages ---- */

/* Send the message that follows from the rank's last message. */
static void lead_on(struct world *world)
{
	const struct say_welcome welcome = {world->embeds, world->udp_port};

	if (hostile.heard == SML_CONTROL__ENVELOPE__BODY_READY)
		say_start(&hostile, world->gen);
	else
		say_admitted(&hostile, world->gen, &welcome);
	hostile.heard = SML_CONTROL__ENVELOPE__BODY__NOT_SET;
}

static void speak(struct world *world)
{
	struct gen *gen = world->gen;

	switch (gen_below(gen, 16)) {
	case 0:
		say_anything(&hostile, gen);
		break;
	case 1:
		say_much(&hostile, gen);
		break;
	case 2:
		say_garbage(&hostile, gen);
		break;
	case 3:
		say_again(&hostile, gen);
		break;
	default:
		say_as_switch(&hostile, gen);
		break;
	}
	peer_push(&hostile, gen_below(gen, 8) ? SIZE_MAX : gen_below(gen, 64));
}

/* End the job, with as many attempts as it takes. */
static void finish(void)
{
	SmlControl__Abort message = SML_CONTROL__ABORT__INIT;
	struct draft draft, frame;

	message.error = SML_ERROR_REFUSED;
	message.text = (char *)(uintptr_t) "enough";
	draft_from(&draft, &message.base);
	draft_frame(&draft, SML_CONTROL__ENVELOPE__BODY_ABORT, 0, &frame);
	hostile.deaf = false;
	for (int i = 0; i < 200 && hostile.fd >= 0; i++) {
		(void)peer_hear(&hostile);
		peer_push(&hostile, SIZE_MAX);
		if (hostile.out_first == hostile.out_end)
			break;
		poll(NULL, 0, 1);
	}
	peer_say(&hostile, frame.bytes, frame.n);
	peer_push(&hostile, SIZE_MAX);
}

/* ---- the hostile end's turn ---- */

static void accept_rank(struct world *world)
{
	/* Close with a reset: otherwise ports stay in TIME_WAIT until none is left. */
	const struct linger at_once = {.l_onoff = 1};
	int fd = accept4(world->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return;
	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	peer_connect(&hostile, fd);
	if (world->over)
		finish();
}

static void act(struct world *world)
{
	struct gen *gen = world->gen;
	uint32_t what = gen_below(gen, 16);

	take_packets(world);
	/* Mostly send the message that leads on, because otherwise hardly any job would begin. */
	if (what < 10 && (hostile.heard == SML_CONTROL__ENVELOPE__BODY_JOIN ||
			  hostile.heard == SML_CONTROL__ENVELOPE__BODY_READY)) {
		lead_on(world);
		peer_push(&hostile, SIZE_MAX);
	} else if (what < 9) {
		answer(world);
	} else if (what < 12 && world->embeds && hostile.ports[0]) {
		contribute(world);
	} else if (what < 14) {
		if (world->runs || gen_below(gen, 4) == 3)
			speak(world);
	} else if (what < 15) {
		hostile.deaf = gen_below(gen, 4) == 3;
	} else if (gen_below(gen, 32) == 31) {
		peer_hang_up(&hostile);
	}
}

static void take_turn(void *self)
{
	struct world *world = self;

	accept_rank(world);
	(void)peer_hear(&hostile);
	peer_go_on(&hostile);
	if (world->steps > 0) {
		world->steps--;
		act(world);
	} else if (!world->over) {
		world->over = true;
		finish();
	}
}

/* ---- the rank ---- */

static void call(struct world *world, struct sml_context *context)
{
	static const uint16_t counts[] = {0, 1, 8, 100, 2000, 20000};
	struct gen *gen = world->gen;
	size_t count = counts[gen_below(gen, sizeof(counts) / sizeof(counts[0]))];
	enum sml_type type = gen_below(gen, 2) ? SML_FLOAT32 : SML_INT32;
	struct call *new = &world->calls[world->n_calls];

	if (world->n_calls == MAX_CALLS)
		return;
	new->send = guard_take(4 * count);
	new->recv = guard_take(4 * count);
	memset(new->send.bytes, 1, new->send.n);
	if (sml_allreduce(context, new->send.bytes, new->recv.bytes, count, type,
			  gen_below(gen, 2) ? SML_SUM : SML_MAX, NULL, &new->request) < 0)
		new->request = NULL;
	world->n_calls++;
}

static bool give_back(struct call *call)
{
	bool whole = guard_give(&call->send);

	return guard_give(&call->recv) && whole;
}

/* The application owns its buffers again, and it frees them at once. */
static const char *return_calls(struct world *world, bool all)
{
	for (uint32_t i = 0; i < world->n_calls; i++) {
		struct call *call = &world->calls[i];

		(void)sml_wait(&call->request, 1, all ? -1 : 0, NULL);
		if (call->request == NULL && !give_back(call))
			return "a call wrote outside its buffers";
	}
	return NULL;
}

static const char *run_calls(struct world *world, struct sml_context *context)
{
	const char *wrong = NULL;

	world->runs = true;
	world->steps = gen_below(world->gen, MAX_STEPS);
	for (uint32_t n = world->steps; n > 0 && wrong == NULL; n--) {
		struct pollfd ready = {.fd = world->udp, .events = POLLIN};

		if (gen_below(world->gen, 4) == 3 || world->n_calls == 0)
			call(world, context);
		take_turn(world);
		/* Give the rank a moment to answer. */
		(void)poll(&ready, 1, 1);
		wrong = return_calls(world, false);
	}
	finish();
	return wrong ? wrong : return_calls(world, true);
}

static const char *live(struct world *world)
{
	struct sml_context *context;
	struct sml_config config = SML_CONFIG_INIT;
	const char *wrong;
	char address[32];
	int error;

	if (sml_config_init(&config) < 0)
		abort();
	snprintf(address, sizeof(address), "127.0.0.1:%u", world->port);
	config.switch_address = world->embeds ? NULL : address;
	config.master_address = "127.0.0.1";
	config.master_port = world->port;
	config.job = "a";
	config.rank = 1;
	config.world_size = SAY_WORLD_SIZE;
	config.threads = 1 + (int)gen_below(world->gen, 2);
	/* On the int16 wire, the hostile switch says that it rounds. */
	config.wire = config.threads == 1 ? SML_WIRE_INT16 : SML_WIRE_DEFAULT;
	config.timeout_ms = TIMEOUT_MS;
	config.heartbeat_ms = TIMEOUT_MS;
	config.debug = 0;
	oracle_on_wait(take_turn, world);
	error = sml_open(&context, &config);
	oracle_on_wait(NULL, NULL);
	if (error)
		return NULL;
	wrong = run_calls(world, context);
	(void)sml_close(context);
	return wrong;
}

/* ---- the hostile end's sockets ---- */

static uint16_t bind_to_loopback(int fd)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t length = sizeof(address);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &length) < 0)
		abort();
	return ntohs(address.sin_port);
}

static void open_hostile(struct world *world)
{
	world->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	world->udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	world->port = bind_to_loopback(world->listener);
	world->udp_port = bind_to_loopback(world->udp);
	if (listen(world->listener, 8) < 0)
		abort();
}

const char *property_switch(struct gen *gen, bool tiny)
{
	static struct world world;
	const char *wrong;

	(void)tiny;
	memset(&world, 0, sizeof(world));
	world.gen = gen;
	world.embeds = gen_below(gen, 2);
	world.steps = MAX_STEPS;
	open_hostile(&world);
	wrong = live(&world);
	peer_hang_up(&hostile);
	close(world.listener);
	close(world.udp);
	return wrong;
}
