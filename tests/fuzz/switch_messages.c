/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages of a switch to a rank: see peer.h. */
#include "core/pool.h"
#include "fuzz/peer.h"

/* The ranks that have slots, and how to reach them. */
struct peer_list {
	SmlControl__Peer peers[SAY_WORLD_SIZE], *list[SAY_WORLD_SIZE];
	uint32_t ports[SML_MAX_SHARDS];
	uint64_t cookies[SAY_WORLD_SIZE];
};

static void draw_peers(struct gen *gen, SmlControl__Admitted *admitted, struct peer_list *drawn)
{
	for (unsigned i = 0; i < SML_MAX_SHARDS; i++)
		drawn->ports[i] = admitted->data_port;
	for (unsigned i = 0; i < SAY_WORLD_SIZE; i++) {
		SmlControl__Peer *peer = drawn->list[i] = &drawn->peers[i];

		sml_control__peer__init(peer);
		peer->ports = drawn->ports;
		peer->n_ports = admitted->shards;
		drawn->cookies[i] = i;
	}
	admitted->peers = drawn->list;
	admitted->n_peers = SAY_WORLD_SIZE;
	admitted->stripes = gen_range(gen, 1, SAY_WORLD_SIZE);
	admitted->cookies = drawn->cookies;
	admitted->n_cookies = admitted->stripes > 1 ? SAY_WORLD_SIZE : 0;
}

void say_admitted(struct peer *peer, struct gen *gen, const struct say_welcome *welcome)
{
	struct peer_list drawn;
	SmlControl__Admitted admitted = SML_CONTROL__ADMITTED__INIT;
	SmlControl__TicketMap maps[SML_STREAMS], *list[SML_STREAMS] = {&maps[0], &maps[1]};
	uint32_t table[3] = {gen_below(gen, 9), 7, UINT32_MAX};

	admitted.job_number = 256;
	admitted.epoch = 1;
	admitted.cookie = 17;
	admitted.tag = 19;
	admitted.lanes = 352;
	admitted.head_slots = gen_range(gen, 2, 8);
	admitted.data_slots = gen_below(gen, 4) ? gen_range(gen, 2, 64) : SML_MAX_SLOTS;
	admitted.shards = gen_below(gen, 8) < 7 ? gen_range(gen, 1, peer->shards ? peer->shards : 1)
						: gen_range(gen, 1, SML_MAX_SHARDS);
	admitted.data_port = welcome->data_port;
	admitted.window_packets = 100;
	admitted.dataplane = (char *)(uintptr_t) "udp";
	admitted.stall_reports = true;
	admitted.rounds = true;
	for (unsigned i = 0; i < SML_STREAMS; i++) {
		sml_control__ticket_map__init(&maps[i]);
		maps[i].table = table;
		maps[i].n_table = gen_below(gen, 4);
	}
	admitted.maps = list;
	admitted.n_maps = gen_below(gen, 2) ? SML_STREAMS : 0;
	if (welcome->ranks_have_slots) {
		admitted.head_slots = admitted.data_slots = SML_MAX_SHARDS;
		draw_peers(gen, &admitted, &drawn);
	}
	say_message(peer, gen, &admitted.base, SML_CONTROL__ENVELOPE__BODY_ADMITTED);
}

void say_start(struct peer *peer, struct gen *gen)
{
	SmlControl__Start start = SML_CONTROL__START__INIT;

	start.lanes = gen_below(gen, 4) ? 352 : gen_below(gen, UINT32_MAX);
	say_message(peer, gen, &start.base, SML_CONTROL__ENVELOPE__BODY_START);
}

static void say_describe(struct peer *peer, struct gen *gen)
{
	SmlControl__Describe describe = SML_CONTROL__DESCRIBE__INIT;

	describe.slot = gen_below(gen, 20);
	describe.use = gen_below(gen, 3);
	describe.chunk = gen_below(gen, 20);
	say_message(peer, gen, &describe.base, SML_CONTROL__ENVELOPE__BODY_DESCRIBE);
}

static void say_stalls(struct peer *peer, struct gen *gen, bool last_words)
{
	SmlControl__StallReport report = SML_CONTROL__STALL_REPORT__INIT;
	SmlControl__Abort abort = SML_CONTROL__ABORT__INIT;
	SmlControl__SlotState slot = SML_CONTROL__SLOT_STATE__INIT, *slots[] = {&slot};
	SmlControl__RankState rank = SML_CONTROL__RANK_STATE__INIT, *ranks[] = {&rank};
	uint8_t bytes[] = {(uint8_t)gen_below(gen, 8), (uint8_t)gen_below(gen, 2)};
	ProtobufCBinaryData sets[] = {{1, bytes}, {gen_below(gen, 3), bytes}};

	slot.slot = gen_below(gen, 20);
	slot.set = gen_below(gen, 4);
	report.sets = sets;
	report.n_sets = gen_below(gen, 3);
	report.partial = gen_below(gen, 4) == 0;
	rank.rank = gen_below(gen, 4);
	rank.host = (char *)(uintptr_t) "h\x1b";
	report.slots = slots;
	report.n_slots = gen_below(gen, 2);
	report.ranks = ranks;
	report.n_ranks = gen_below(gen, 2);
	report.stripe = gen_below(gen, SAY_WORLD_SIZE);
	if (!last_words) {
		say_message(peer, gen, &report.base, SML_CONTROL__ENVELOPE__BODY_STALL_REPORT);
		return;
	}
	abort.error = -1000 - (int)gen_below(gen, 20);
	abort.text = (char *)(uintptr_t) "it is over\x1b[0m";
	abort.stalls = &report;
	say_message(peer, gen, &abort.base, SML_CONTROL__ENVELOPE__BODY_ABORT);
}

static void say_stall_report(struct peer *peer, struct gen *gen)
{
	say_stalls(peer, gen, false);
}

static void say_last_words(struct peer *peer, struct gen *gen)
{
	say_stalls(peer, gen, true);
}

static void say_waiting(struct peer *peer, struct gen *gen)
{
	SmlControl__Waiting waiting = SML_CONTROL__WAITING__INIT;
	uint32_t missing[] = {0, 2};

	waiting.missing = missing;
	waiting.n_missing = gen_below(gen, 3);
	if (gen_below(gen, 2))
		waiting.refused = (char *)(uintptr_t) "rank 2\nis not one of us";
	say_message(peer, gen, &waiting.base, SML_CONTROL__ENVELOPE__BODY_WAITING);
}

/* For a job that resumes: asks for what this rank keeps, or gives what it lacks. */
static void say_handover(struct peer *peer, struct gen *gen)
{
	bool asks = gen_below(gen, 2);
	static uint8_t lanes[9000];
	SmlControl__Fetch fetch = SML_CONTROL__FETCH__INIT;
	SmlControl__Result result = SML_CONTROL__RESULT__INIT;

	fetch.stream = result.stream = gen_below(gen, SML_STREAMS);
	fetch.chunk = result.chunk = gen_below(gen, 8);
	result.lanes.data = lanes;
	result.lanes.len = 4 * gen_below(gen, 2209);
	if (asks)
		say_message(peer, gen, &fetch.base, SML_CONTROL__ENVELOPE__BODY_FETCH);
	else
		say_message(peer, gen, &result.base, SML_CONTROL__ENVELOPE__BODY_RESULT);
}

void say_as_switch(struct peer *peer, struct gen *gen)
{
	static const SmlControl__StallRequest stalls = SML_CONTROL__STALL_REQUEST__INIT;
	static const SmlControl__Left left = SML_CONTROL__LEFT__INIT;
	static const SmlControl__Pong pong = SML_CONTROL__PONG__INIT;
	static const struct say_choice choices[] = {
		{.say = say_describe},
		{.say = say_describe},
		{SML_CONTROL__ENVELOPE__BODY_STALL_REQUEST, &stalls.base, NULL},
		{SML_CONTROL__ENVELOPE__BODY_STALL_REQUEST, &stalls.base, NULL},
		{.say = say_stall_report},
		{.say = say_last_words},
		{.say = say_waiting},
		{.say = say_handover},
		{SML_CONTROL__ENVELOPE__BODY_LEFT, &left.base, NULL},
		{SML_CONTROL__ENVELOPE__BODY_PONG, &pong.base, NULL},
	};

	say_one_of(peer, gen, choices, sizeof(choices) / sizeof(choices[0]));
}
