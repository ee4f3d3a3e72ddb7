/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker's control connection, and a switch that says whatever it likes on it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/text.h"
#include "fuzz/properties.h"
#include "lib/control/internal.h"
#include "support/messages.h"

/* Nothing that is honest takes so long: all that the switch says is there from the start. */
#define WAIT_NS	     (2 * SML_NS_PER_SEC)
#define MAX_MESSAGES 12

struct world {
	struct gen *gen;
	const char *wrong;
	uint32_t lanes[SML_MAX_LANES];
	int hostile; /* the switch's end */
	bool embeds; /* it is rank 0, and the ranks have the slots */
};

#define WORLD_SIZE  3
#define MAX_THREADS 2

/* ---- what the switch says ---- */

/* Where the ranks are that have the slots. */
struct meeting {
	SmlControl__Peer peers[WORLD_SIZE], *list[WORLD_SIZE];
	uint32_t ports[SML_MAX_SHARDS];
	uint64_t cookies[WORLD_SIZE];
};

static void draw_meeting(struct gen *gen, SmlControl__Admitted *admitted, struct meeting *meeting)
{
	for (unsigned i = 0; i < SML_MAX_SHARDS; i++)
		meeting->ports[i] = 40000 + i;
	for (unsigned i = 0; i < WORLD_SIZE; i++) {
		SmlControl__Peer *peer = meeting->list[i] = &meeting->peers[i];

		sml_control__peer__init(peer);
		peer->ports = meeting->ports;
		peer->n_ports = admitted->shards;
		meeting->cookies[i] = i;
	}
	admitted->peers = meeting->list;
	admitted->n_peers = WORLD_SIZE;
	admitted->stripes = gen_range(gen, 1, WORLD_SIZE);
	admitted->cookies = meeting->cookies;
	admitted->n_cookies = admitted->stripes > 1 ? WORLD_SIZE : 0;
}

static void say_admitted(struct world *world, struct draft *frame)
{
	struct gen *gen = world->gen;
	struct meeting meeting;
	SmlControl__Admitted admitted = SML_CONTROL__ADMITTED__INIT;
	SmlControl__TicketMap maps[SML_STREAMS], *list[SML_STREAMS] = {&maps[0], &maps[1]};
	uint32_t table[3] = {gen_below(gen, 9), 7, UINT32_MAX};
	struct draft draft;

	admitted.job_number = 256;
	admitted.epoch = 1;
	admitted.cookie = 17;
	admitted.tag = 19;
	admitted.lanes = 352;
	admitted.head_slots = gen_range(gen, 1, 8);
	admitted.data_slots = gen_range(gen, 1, 64);
	admitted.shards = 1;
	admitted.data_port = 28500;
	admitted.window_packets = 100;
	admitted.dataplane = (char *)(uintptr_t) "udp";
	admitted.stall_reports = true;
	for (unsigned i = 0; i < SML_STREAMS; i++) {
		sml_control__ticket_map__init(&maps[i]);
		maps[i].table = table;
		maps[i].n_table = gen_below(gen, 4);
	}
	admitted.maps = list;
	admitted.n_maps = gen_below(gen, 2) ? SML_STREAMS : 0;
	if (world->embeds) {
		admitted.shards = gen_range(gen, 1, SML_MAX_SHARDS);
		admitted.head_slots = admitted.data_slots = SML_MAX_SHARDS;
		draw_meeting(gen, &admitted, &meeting);
	}
	draft_from(&draft, &admitted.base);
	if (gen_below(gen, 3) == 0)
		draft_fields(&draft, gen, &sml_control__admitted__descriptor, 0);
	draft_frame(&draft, SML_CONTROL__ENVELOPE__BODY_ADMITTED, frame);
}

static void say_start(struct gen *gen, struct draft *frame)
{
	SmlControl__Start start = SML_CONTROL__START__INIT;
	struct draft draft;

	start.lanes = gen_below(gen, 4) ? 352 : gen_below(gen, UINT32_MAX);
	draft_from(&draft, &start.base);
	draft_frame(&draft, SML_CONTROL__ENVELOPE__BODY_START, frame);
}

static void say(struct world *world, const struct draft *frame)
{
	/* Buffers of a socket pair take all of it. */
	if (send(world->hostile, frame->bytes, frame->n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
	    errno != EPIPE)
		abort();
}

static void say_all(struct world *world)
{
	struct draft frame;

	for (uint32_t n = gen_below(world->gen, MAX_MESSAGES + 1); n > 0; n--) {
		switch (gen_below(world->gen, 4)) {
		case 0:
			say_admitted(world, &frame);
			break;
		case 1:
			say_start(world->gen, &frame);
			break;
		default:
			draft_any(&frame, world->gen);
			break;
		}
		say(world, &frame);
	}
	shutdown(world->hostile, SHUT_WR);
}

/* ---- what the worker makes of it ---- */

static void describe(void *self, enum sml_stream_id stream, uint32_t chunk, char *text,
		     size_t text_bytes)
{
	struct world *world = self;

	(void)chunk;
	if (stream >= SML_STREAMS)
		world->wrong = "asked about a stream that there is not";
	memset(text, 'd', text_bytes);
	text[text_bytes - 1] = '\0';
}

static struct sml_stall_report *no_stalls(void *self)
{
	(void)self;
	return NULL;
}

static void nothing_served(void *self, SmlControl__StripeStatus *status)
{
	(void)self;
	(void)status;
}

static const void *give_kept(void *self, enum sml_stream_id stream, uint32_t chunk,
			     uint16_t *n_lanes)
{
	struct world *world = self;

	(void)stream;
	*n_lanes = (uint16_t)(chunk % 8);
	return chunk % 3 == 0 ? NULL : world->lanes;
}

static int adopt(void *self, enum sml_stream_id stream, uint32_t chunk, const void *lanes,
		 uint16_t n_lanes)
{
	struct world *world = self;

	if (n_lanes > SML_MAX_LANES || stream >= SML_STREAMS)
		world->wrong = "handed over more lanes than a packet has";
	else
		memcpy(world->lanes, lanes, 4u * n_lanes);
	return chunk % 5 == 0 ? -1 : 0;
}

static const char *check_admission(const struct sml_admission *in, bool resumes, unsigned n_sockets)
{
	PROPERTY_CHECK(in->lanes >= 1 && in->lanes <= SML_MAX_LANES, "lanes that cannot be");
	PROPERTY_CHECK(in->shards >= 1 && in->shards <= SML_MAX_SHARDS &&
			       in->head_slots >= in->shards && in->data_slots >= in->shards &&
			       in->head_slots <= SML_MAX_SLOTS && in->data_slots <= SML_MAX_SLOTS,
		       "slots or shards that cannot be");
	PROPERTY_CHECK(n_sockets == 0 || (in->shards <= n_sockets && in->stripes >= 1 &&
					  in->stripes <= WORLD_SIZE),
		       "more shards than this rank has sockets, or stripes than ranks");
	PROPERTY_CHECK(in->data_port != 0, "no data port");
	PROPERTY_CHECK(strnlen(in->dataplane, sizeof(in->dataplane)) < sizeof(in->dataplane),
		       "a name without an end");
	for (unsigned i = 0; resumes && i < SML_STREAMS; i++)
		PROPERTY_CHECK(in->maps[i].table != NULL, "it goes on without a table");
	return NULL;
}

static const char *check_stalls(struct sml_control *control)
{
	const struct sml_stall_report *report;
	char why[200] = "";

	report = sml_control_stalls(control, 0, 0, why, sizeof(why));
	PROPERTY_CHECK(report || *why, "no report, and no reason");
	for (uint32_t i = 0; report && i < report->n_slots; i++)
		PROPERTY_CHECK(report->slots[i].known || report->slots[i].missing == 0,
			       "ranks are missing in a slot that is not known");
	return NULL;
}

static const char *live(struct world *world, struct sml_control *control, bool resumes,
			unsigned n_sockets)
{
	const uint16_t ports[MAX_THREADS] = {40000, 40001};
	const struct sml_resumption resumption = {
		.epoch = 3, .tag = 19, .self = world, .kept = give_kept, .adopt = adopt};
	const struct sml_control_owner owner = {
		.self = world, .describe = describe, .stalls = no_stalls, .served = nothing_served};
	const struct sml_application application = {.lanes = 352,
						    .resumption = resumes ? &resumption : NULL,
						    .ports = n_sockets ? ports : NULL};
	uint64_t until_ns = sml_now_ns() + WAIT_NS;
	struct sml_admission admission;
	uint16_t lanes;
	int error;

	error = sml_control_join(control, &application, &admission, until_ns);
	PROPERTY_CHECK(error == 0 || (error < 0 && *sml_error_last()), "an error without a text");
	PROPERTY_CHECK(error == 0 || sml_text_is_clean(sml_error_last()),
		       "words of the switch would do something to a terminal");
	if (error)
		return NULL;
	PROPERTY_CHECK(check_admission(&admission, resumes, n_sockets) == NULL,
		       check_admission(&admission, resumes, n_sockets));
	lanes = admission.lanes;
	error = sml_control_ready(control, &lanes, false, NULL, until_ns);
	PROPERTY_CHECK(error == 0 || (error < 0 && *sml_error_last()), "an error without a text");
	PROPERTY_CHECK(error == 0 || sml_text_is_clean(sml_error_last()),
		       "words of the switch would do something to a terminal");
	if (error)
		return check_stalls(control);
	PROPERTY_CHECK(lanes >= 1 && lanes <= admission.lanes, "it starts with other lanes");
	/* The library has its owner later than that: what comes before must not need one. */
	for (uint32_t n = gen_below(world->gen, 3); n > 0; n--)
		if (sml_control_pump(control, NULL, 0, until_ns))
			break;
	control->owner = owner;
	sml_talk_serve(&control->talk, false);
	sml_control_sync(control);
	while (sml_control_phase(control) < SML_TALK_LEFT && sml_now_ns() < until_ns)
		if (sml_control_pump(control, NULL, 0, until_ns))
			break;
	PROPERTY_CHECK(sml_control_phase(control) >= SML_TALK_LEFT, "it did not see the end");
	return check_stalls(control);
}

const char *property_client(struct gen *gen, bool tiny)
{
	static const struct sml_endpoint endpoint = {.name = "hostile:1", .host = "hostile"};
	const struct sml_stripe_place place = {0, 1};
	struct sml_settings settings = {.job = (char *)(uintptr_t) "a",
					.rank = 1,
					.world_size = WORLD_SIZE,
					.timeout_ms = 2000,
					.heartbeat_ms = 60000,
					.threads = 1,
					.head_slots = 8,
					.data_slots = 64};
	struct world world = {.gen = gen};
	struct sml_reached connection = {.endpoint = &endpoint};
	struct sml_control *control;
	const char *wrong;
	uint32_t resumes;
	int fds[2];

	(void)tiny;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
		abort();
	connection.fd = fds[0];
	world.hostile = fds[1];
	resumes = gen_below(gen, 3);
	world.embeds = resumes == 2;
	settings.threads = (uint8_t)(1 + (world.embeds ? gen_below(gen, MAX_THREADS) : 0));
	say_all(&world);
	if (sml_control_open(&control, &settings, &connection, &place, NULL) < 0)
		abort();
	wrong = live(&world, control, resumes == 1, world.embeds ? settings.threads : 0);
	sml_control_close(control);
	close(fds[1]);
	return world.wrong ? world.wrong : wrong;
}
