/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank's control connection, and a switch that sends anything: messages in any order, too
 * many, in pieces, or repeated, and it may not read the answers. Time passes. Meanwhile the
 * rank does what ranks do: it joins, is ready, runs, asks, disagrees, leaves, or gives up.
 * What must hold:
 *
 *	no turn of the event loop takes longer than 10 ms of the processor (oracle.h)
 *	neither the data that waits to be sent nor the allocated memory grows above a bound
 *	the rank accepts the switch's messages within their bounds, or refuses them with an
 *	error text that cannot control a terminal
 *	everything that the switch receives is a valid message
 *	all memory is free again at the end
 *
 * Everything is as in production except three things: the socket is one of a pair, the clock
 * is simulated, and this thread does the control thread's work.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "control/text.h"
#include "fuzz/oracle.h"
#include "fuzz/peer.h"
#include "fuzz/properties.h"
#include "lib/control/internal.h"

#define MAX_STEPS   48
#define MAX_THREADS 2
/*
 * Data that may wait for the switch: the rank's own messages, the longest of which is a
 * report of 160 KiB, and answers, until 64 KiB wait (lib/control/client.c).
 */
#define MAX_UNSENT_BYTES (320u << 10)
/*
 * For one control object: reports of all stripes, the admission's data, and data waiting
 * both ways.
 */
#define CONTROL_BYTES ((size_t)16 << 20)
/* What libevent and libc still hold at the end. */
#define LEFT_BYTES ((size_t)16 << 10)

struct world {
	struct gen *gen;
	struct sml_control *control;
	struct sml_admission admission;
	struct sml_resumption resumption;
	bool embeds; /* this rank has slots */
	bool resumes, serves, admitted, ready;
	unsigned n_threads;
	size_t live_bytes; /* at the start */
	const char *wrong;
	uint32_t lanes[SML_MAX_LANES];
};

static struct peer hostile = {.fd = -1};

static void note(struct world *world, const char *wrong)
{
	if (world->wrong == NULL)
		world->wrong = wrong;
}

/* ---- what the rank is asked and told ---- */

static bool describe(void *self, enum sml_stream_id stream, uint32_t chunk, char *text,
		     size_t text_bytes, SmlControl__Call *call)
{
	struct world *world = self;

	if (stream >= SML_STREAMS)
		world->wrong = "asked about a stream that there is not";
	memset(text, 'd', text_bytes);
	text[text_bytes - 1] = '\0';
	call->number = chunk;
	return chunk % 2;
}

/* All of its slots wait for a rank: this is the longest report. */
static void pack_waits(void *self, size_t room, struct sml_waits_message *waits)
{
	struct world *world = self;
	uint32_t n = (uint32_t)world->admission.head_slots + world->admission.data_slots;
	struct sml_stall_report *report = sml_stall_report_open(n, SAY_WORLD_SIZE);
	const struct sml_ranks ranks = {{5}};

	for (uint32_t i = 0; report && i < n; i++)
		sml_waits_note(&report->waits, i, 0, &ranks);
	sml_waits_pack(report ? &report->waits : NULL, room, waits);
	sml_stall_report_close(report);
}

static void nothing_served(void *self, SmlControl__StripeStatus *status,
			   uint64_t waited_ms[SML_MAX_CHILDREN])
{
	(void)self;
	(void)status;
	(void)waited_ms;
}

static bool nothing_moved(void *self, SmlControl__Traffic *traffic)
{
	(void)self;
	(void)traffic;
	return true;
}

static const void *give_kept(void *self, enum sml_stream_id stream, uint32_t chunk,
			     uint16_t *n_lanes)
{
	struct world *world = self;

	(void)stream;
	*n_lanes = (uint16_t)(chunk % 2 ? SML_MAX_LANES : chunk % 8);
	return chunk % 3 == 0 ? NULL : world->lanes;
}

static int adopt(void *self, enum sml_stream_id stream, uint32_t chunk, const void *lanes,
		 uint16_t n_lanes)
{
	struct world *world = self;

	if (n_lanes > SML_MAX_LANES || stream >= SML_STREAMS)
		world->wrong = "handed over more lanes than a packet has";
	else if (n_lanes > 0)
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
					  in->stripes <= SAY_WORLD_SIZE),
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
	char why[200] = "";
	struct sml_stall_report *report = sml_control_stalls(control, 0, 0, why, sizeof(why));
	const char *wrong = report || *why ? NULL : "no report, and no reason";

	for (uint32_t i = 0; report && i < report->waits.n_slots; i++) {
		struct sml_ranks missing;

		sml_waits_get(&report->waits, i, &missing);
		if (!sml_waits_knows(&report->waits, i) && !sml_ranks_is_empty(&missing))
			wrong = "ranks are missing in a slot that is not known";
		if (sml_ranks_next(&missing, report->n_ranks) != SML_MAX_WORLD)
			wrong = "a rank that there is not is missing";
	}
	sml_stall_report_close(report);
	return wrong;
}

static void failed(void *self, int error, const char *text, bool planned)
{
	(void)planned;
	if (error >= 0 || !sml_text_is_clean(text))
		note(self, "a failure without an error, or whose words do something");
}

static void lost(void *self, const char *text)
{
	if (!sml_text_is_clean(text))
		note(self, "a loss in words that would do something to a terminal");
}

/* ---- what the rank does ---- */

static void be_admitted(struct world *world)
{
	struct sml_control *control = world->control;
	uint16_t lanes;

	world->admission = control->session.admission;
	world->admitted = true;
	note(world, check_admission(&world->admission, world->resumes,
				    world->embeds ? world->n_threads : 0));
	/* As many lanes as its probes have confirmed. */
	lanes = world->admission.lanes;
	sml_session_ready(&control->session, &(struct sml_readiness){.lanes = lanes});
}

static void nothing_ticks(void *self)
{
	(void)self;
}

/* Like sml_control_start(), but without the thread. */
static void run_session(struct world *world)
{
	struct sml_control *control = world->control;
	bool may_be_lost = gen_below(world->gen, 2);

	control->owner = (struct sml_control_owner){
		.answers = {world, describe, pack_waits, nothing_served, nothing_moved},
		.failed = failed,
		.ticked = nothing_ticks,
		.lost = may_be_lost ? lost : NULL,
	};
	control->threaded = world->serves = true;
	sml_watch_post(control->wake);
	sml_session_serve(&control->session, &control->owner.answers, may_be_lost);
}

static void want(struct world *world)
{
	const struct sml_disagreement found = {.slot = 1, .use = 2, .ranks = {0, 2}};
	struct sml_control *control = world->control;

	switch (gen_below(world->gen, 8)) {
	case 0:
		(void)sml_control_leave(control, 0);
		break;
	case 1:
		sml_control_abort(control, SML_ERROR_TIMEOUT, "a call took too long", 0);
		break;
	case 2:
		sml_control_mismatch(control, &found);
		break;
	default:
		sml_control_query(control);
		break;
	}
}

/* Do the rank's next step, sooner or later. */
static void go_on(struct world *world)
{
	enum sml_session_phase phase = sml_control_phase(world->control);

	if (phase == SML_SESSION_ADMITTED && !world->admitted)
		be_admitted(world);
	else if (phase == SML_SESSION_RUNNING && !world->serves)
		run_session(world);
	else if (world->serves)
		want(world);
}

/* ---- turns ---- */

static const char *check_bounds(const struct world *world)
{
	struct sml_control *control = world->control;
	const struct sml_session *session = &control->session;

	PROPERTY_CHECK(sml_stream_unsent_bytes(&control->channel.stream) <= MAX_UNSENT_BYTES,
		       "too many bytes wait for the switch");
	PROPERTY_CHECK(oracle_live_bytes() <= world->live_bytes + CONTROL_BYTES,
		       "the rank takes too much memory");
	PROPERTY_CHECK(
		sml_control_phase(control) != SML_SESSION_FAILED ||
			(session->error < 0 && *session->text && sml_text_is_clean(session->text)),
		"it has failed without an error, or in words that would do something");
	return NULL;
}

static void serve(struct world *world)
{
	for (int i = 0; i < 3; i++) {
		while (sml_loop_turn(world->control->loop, 0))
			;
		oracle_returned();
		note(world, check_bounds(world));
	}
	note(world, peer_hear(&hostile));
	peer_go_on(&hostile);
}

static void pass_time(struct world *world)
{
	static const uint16_t ms[] = {1, 20, 400, 3000, 20000};

	for (uint32_t n = gen_range(world->gen, 1, 4); n > 0; n--) {
		oracle_pass(ms[gen_below(world->gen, sizeof(ms) / sizeof(ms[0]))] *
			    UINT64_C(1000000));
		serve(world);
	}
}

/* ---- what the switch does ---- */

/* The messages that lead to a running job, in order. */
static void lead_on(struct world *world)
{
	const struct say_welcome welcome = {world->embeds, 28500};

	if (sml_control_phase(world->control) < SML_SESSION_ADMITTED)
		say_admitted(&hostile, world->gen, &welcome);
	else
		say_start(&hostile, world->gen);
}

static void speak(struct world *world)
{
	struct gen *gen = world->gen;

	switch (gen_below(gen, 12)) {
	case 0:
	case 1:
	case 2:
		lead_on(world);
		break;
	case 3:
		say_anything(&hostile, gen);
		break;
	case 4:
		say_much(&hostile, gen);
		break;
	case 5:
	case 6:
		say_again(&hostile, gen);
		break;
	case 7:
		if (gen_below(gen, 4) == 3)
			say_garbage(&hostile, gen);
		break;
	default:
		say_as_switch(&hostile, gen);
		break;
	}
	peer_push(&hostile, gen_below(gen, 4) ? SIZE_MAX : gen_below(gen, 64));
}

static void act(struct world *world)
{
	switch (gen_below(world->gen, 12)) {
	case 0:
		if (gen_below(world->gen, 4) == 3)
			shutdown(hostile.fd, SHUT_WR);
		break;
	case 1:
		if (gen_below(world->gen, 4) == 3)
			peer_hang_up(&hostile);
		break;
	case 2:
		hostile.deaf = !hostile.deaf;
		break;
	case 3:
		pass_time(world);
		break;
	case 4:
		peer_push(&hostile, SIZE_MAX);
		break;
	case 5:
	case 6:
		go_on(world);
		break;
	default:
		if (hostile.fd >= 0)
			speak(world);
		break;
	}
	if (gen_below(world->gen, 3))
		serve(world);
}

/* ---- the world ---- */

static void join(struct world *world, struct sml_settings *settings)
{
	static const uint16_t ports[MAX_THREADS] = {40000, 40001};
	struct sml_application application = {.lanes = 352};
	static uint32_t chunks[] = {0, 1, 2, 3};

	world->resumption = (struct sml_resumption){.epoch = 3,
						    .tag = 19,
						    .membership = 23,
						    .self = world,
						    .kept = give_kept,
						    .adopt = adopt};
	for (unsigned i = 0; i < SML_STREAMS; i++)
		world->resumption.reports[i] = (struct sml_resume_report){.beyond = 4,
									  .lacking = chunks,
									  .n_lacking = 2,
									  .kept = chunks,
									  .n_kept = 1};
	if (world->resumes)
		application.resumption = &world->resumption;
	if (world->embeds)
		application.ports = ports;
	settings->threads = (uint8_t)world->n_threads;
	sml_control_request_join(world->control, &application);
}

static void open_control(struct world *world, struct sml_settings *settings)
{
	static const struct sml_endpoint endpoint = {.name = "hostile:1", .host = "hostile"};
	static const struct sml_stripe_index place = {0, 1, &sml_listener_rank_0};
	struct sml_reached connection = {.endpoint = &endpoint};
	struct gen *gen = world->gen;
	uint32_t kind = gen_below(gen, 3);
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
		abort();
	connection.fd = fds[0];
	peer_connect(&hostile, fds[1]);
	world->resumes = kind == 1;
	world->embeds = kind == 2;
	world->n_threads = 1 + (world->embeds ? gen_below(gen, MAX_THREADS) : 0);
	settings->config.heartbeat_ms = gen_below(gen, 2) ? 60000 : 2000;
	if (sml_control_open(&world->control, settings, &connection, &place, NULL) < 0)
		abort();
}

static struct oracle_verdict run(struct gen *gen)
{
	struct world world = {.gen = gen, .live_bytes = oracle_live_bytes()};
	struct sml_settings settings = {.config = {.job = "a", .timeout_ms = 2000},
					.rank = 1,
					.world_size = SAY_WORLD_SIZE,
					.head_slots = 8,
					.data_slots = 64};
	uint64_t longest_turn_ns;

	oracle_begin();
	open_control(&world, &settings);
	join(&world, &settings);
	for (uint32_t n = gen_below(world.gen, MAX_STEPS); n > 0 && world.wrong == NULL; n--)
		act(&world);
	serve(&world);
	note(&world, check_stalls(world.control));
	longest_turn_ns = oracle_longest_turn_ns();
	/* Before the rank ends, because the rank may wait for the switch to close. */
	peer_hang_up(&hostile);
	world.control->threaded = false;
	sml_control_close(world.control);
	oracle_end();
	if (oracle_live_bytes() > world.live_bytes + LEFT_BYTES)
		note(&world, "memory is left behind");
	return (struct oracle_verdict){world.wrong, longest_turn_ns};
}

const char *property_client(struct gen *gen, bool tiny)
{
	(void)tiny;
	return oracle_run(gen, run);
}
