/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages of a peer to a switch: see peer.h. */
#include <string.h>

#include "core/pool.h"
#include "fuzz/peer.h"
#include "fuzz/properties.h"
#include "switchml.h"

#define LENGTH_BYTES 4

static void say_draft(struct peer *peer, const struct draft *draft,
		      SmlControl__Envelope__BodyCase body, uint32_t job)
{
	struct draft frame;

	draft_frame(draft, body, job, &frame);
	peer_say(peer, frame.bytes, frame.n);
}

void say_message(struct peer *peer, struct gen *gen, const ProtobufCMessage *honest,
		 SmlControl__Envelope__BodyCase body)
{
	uint32_t job = 0;
	struct draft draft;

	draft_from(&draft, honest);
	if (gen_below(gen, 8) == 7) {
		draft_fields(&draft, gen, honest->descriptor, 0);
		/* As draft_any(). */
		job = draft.n % 2 ? peer->job : 0;
	}
	say_draft(peer, &draft, body, job);
}

void say_one_of(struct peer *peer, struct gen *gen, const struct say_choice *choices, uint32_t n)
{
	const struct say_choice *choice = &choices[gen_below(gen, n)];

	if (choice->say != NULL)
		choice->say(peer, gen);
	else
		say_message(peer, gen, choice->message, choice->body);
}

/* ---- joining ---- */

#define MOST_CHUNKS 8

struct report {
	SmlControl__Resume resume;
	SmlControl__StreamReport streams[SML_STREAMS], *list[SML_STREAMS];
	uint32_t chunks[SML_STREAMS][2][MOST_CHUNKS];
};

/* Chunks in ascending order, some of them below `beyond`. */
static size_t draw_chunks(struct gen *gen, uint32_t *chunks, uint32_t beyond)
{
	uint32_t chosen = gen_below(gen, 256);
	size_t n = 0;

	for (uint32_t i = 0; i < beyond && i < MOST_CHUNKS; i++)
		if (chosen >> i & 1)
			chunks[n++] = i;
	return n;
}

static void draw_report(struct gen *gen, struct report *report)
{
	sml_control__resume__init(&report->resume);
	for (unsigned i = 0; i < SML_STREAMS; i++) {
		SmlControl__StreamReport *stream = &report->streams[i];

		sml_control__stream_report__init(stream);
		stream->beyond = gen_below(gen, MOST_CHUNKS);
		stream->lacking = report->chunks[i][0];
		stream->n_lacking = draw_chunks(gen, stream->lacking, stream->beyond);
		stream->kept = report->chunks[i][1];
		stream->n_kept = draw_chunks(gen, stream->kept, stream->beyond);
		report->list[i] = stream;
	}
	report->resume.epoch = gen_below(gen, 4);
	report->resume.tag = 19 + gen_below(gen, 2);
	report->resume.membership = 23;
	report->resume.leaving = gen_below(gen, 8) == 7;
	report->resume.streams = report->list;
	report->resume.n_streams = SML_STREAMS;
}

static void fill_join(SmlControl__Join *join, const struct say_terms *terms)
{
	*join = honest_join("a", 0, 1);
	join->head_slots = 4;
	join->data_slots = 16;
	join->stripes = terms->ranks_have_slots ? 0 : 1;
}

void say_join(struct peer *peer, struct gen *gen, const struct say_terms *terms)
{
	static const char *const names[] = {"a", "b", "c"};
	uint32_t ports[2] = {40000 + gen_below(gen, 4), 40000};
	struct report report;
	SmlControl__Join join;

	fill_join(&join, terms);
	join.job = (char *)(uintptr_t)names[gen_below(gen, 4) ? 0 : gen_below(gen, 3)];
	join.world_size = gen_below(gen, 4) ? 2 : gen_range(gen, 1, terms->most_ranks);
	join.rank = gen_below(gen, join.world_size);
	join.heartbeat_ms = gen_below(gen, 4) ? 60000 : 500;
	join.wait_ms = gen_below(gen, 4) ? 0 : 1000;
	if (terms->ranks_have_slots) {
		join.stripe_ports = ports;
		join.n_stripe_ports = join.shards;
	}
	if (gen_below(gen, 3) == 0) {
		draw_report(gen, &report);
		join.resume = &report.resume;
	}
	peer->rank = (uint8_t)join.rank;
	say_message(peer, gen, &join.base, SML_CONTROL__ENVELOPE__BODY_JOIN);
}

void say_honest_join(struct peer *peer, const struct say_terms *terms, uint32_t rank,
		     uint32_t world_size)
{
	uint32_t port = 40000 + rank;
	SmlControl__Join join;
	struct draft draft;

	fill_join(&join, terms);
	join.rank = rank;
	join.world_size = world_size;
	if (terms->ranks_have_slots) {
		join.stripe_ports = &port;
		join.n_stripe_ports = 1;
	}
	peer->rank = (uint8_t)rank;
	draft_from(&draft, &join.base);
	say_draft(peer, &draft, SML_CONTROL__ENVELOPE__BODY_JOIN, 0);
}

void say_ready(struct peer *peer, struct gen *gen)
{
	SmlControl__Ready ready = SML_CONTROL__READY__INIT;

	ready.lanes = 352;
	say_message(peer, gen, &ready.base, SML_CONTROL__ENVELOPE__BODY_READY);
}

/* ---- members ---- */

static void say_stall_report(struct peer *peer, struct gen *gen)
{
	SmlControl__StallReport report = SML_CONTROL__STALL_REPORT__INIT;
	SmlControl__SlotState states[4], *list[4];
	uint8_t bytes[] = {(uint8_t)gen_below(gen, 8), (uint8_t)gen_below(gen, 2)};
	ProtobufCBinaryData sets[] = {{1, bytes}, {gen_below(gen, 3), bytes}};

	for (unsigned i = 0; i < 4; i++) {
		sml_control__slot_state__init(&states[i]);
		states[i].slot = gen_below(gen, 20);
		states[i].set = gen_below(gen, 4);
		list[i] = &states[i];
	}
	report.sets = sets;
	report.n_sets = gen_below(gen, 3);
	report.slots = list;
	report.n_slots = gen_below(gen, 5);
	say_message(peer, gen, &report.base, SML_CONTROL__ENVELOPE__BODY_STALL_REPORT);
}

static void say_result(struct peer *peer, struct gen *gen)
{
	static uint8_t lanes[9000];
	SmlControl__Result result = SML_CONTROL__RESULT__INIT;

	result.stream = gen_below(gen, SML_STREAMS);
	result.chunk = gen_below(gen, MOST_CHUNKS);
	result.lanes.data = lanes;
	result.lanes.len = gen_below(gen, 4) ? 32 : gen_below(gen, 1900);
	say_message(peer, gen, &result.base, SML_CONTROL__ENVELOPE__BODY_RESULT);
}

static void say_mismatch(struct peer *peer, struct gen *gen)
{
	SmlControl__Mismatch mismatch = SML_CONTROL__MISMATCH__INIT;
	uint32_t ranks[2] = {0, gen_below(gen, 3)};

	mismatch.slot = gen_below(gen, 20);
	mismatch.use = gen_below(gen, 3);
	mismatch.ranks = ranks;
	mismatch.n_ranks = 2;
	say_message(peer, gen, &mismatch.base, SML_CONTROL__ENVELOPE__BODY_MISMATCH);
}

static void say_description(struct peer *peer, struct gen *gen)
{
	SmlControl__Description description = SML_CONTROL__DESCRIPTION__INIT;
	SmlControl__Call call = SML_CONTROL__CALL__INIT;

	/* The same numbers as in the disagreement of the dataplane. */
	description.slot = 1;
	description.use = 2;
	description.text = (char *)(uintptr_t) "all-reduce 17";
	description.call = &call;
	say_message(peer, gen, &description.base, SML_CONTROL__ENVELOPE__BODY_DESCRIPTION);
}

static void say_abort(struct peer *peer, struct gen *gen)
{
	SmlControl__Abort message = SML_CONTROL__ABORT__INIT;

	message.error = gen_below(gen, 2) ? SML_ERROR_TIMEOUT : SML_ERROR_ABORTED;
	message.text = (char *)(uintptr_t) "no more";
	say_message(peer, gen, &message.base, SML_CONTROL__ENVELOPE__BODY_ABORT);
}

static void say_ping(struct peer *peer, struct gen *gen)
{
	SmlControl__StripeStatus stripe = SML_CONTROL__STRIPE_STATUS__INIT;
	SmlControl__Traffic traffic = SML_CONTROL__TRAFFIC__INIT;
	SmlControl__Ping ping = SML_CONTROL__PING__INIT;
	uint64_t waited_ms[2 * SML_MAX_CHILDREN] = {1, 2};

	ping.time_ns = gen_below(gen, 3);
	stripe.contributions = 3;
	if (gen_below(gen, 2))
		ping.stripe = &stripe;
	if (ping.time_ns == 1) {
		stripe.waited_ms = waited_ms;
		stripe.n_waited_ms = sizeof(waited_ms) / sizeof(waited_ms[0]);
		ping.traffic = &traffic;
	}
	say_message(peer, gen, &ping.base, SML_CONTROL__ENVELOPE__BODY_PING);
}

static void say_renew(struct peer *peer, struct gen *gen)
{
	SmlControl__Renew renew = SML_CONTROL__RENEW__INIT;

	renew.shard = gen_below(gen, 3);
	renew.number = gen_below(gen, 4) ? (uint32_t)gen_u64(gen) : 0;
	say_message(peer, gen, &renew.base, SML_CONTROL__ENVELOPE__BODY_RENEW);
}

void say_as_member(struct peer *peer, struct gen *gen)
{
	static const SmlControl__Leave leave = SML_CONTROL__LEAVE__INIT;
	static const SmlControl__StatusRequest status = SML_CONTROL__STATUS_REQUEST__INIT;
	static const SmlControl__StallRequest stalls = SML_CONTROL__STALL_REQUEST__INIT;
	static const struct say_choice choices[] = {
		{SML_CONTROL__ENVELOPE__BODY_LEAVE, &leave.base, NULL},
		{SML_CONTROL__ENVELOPE__BODY_STATUS_REQUEST, &status.base, NULL},
		{.say = say_stall_report},
		{.say = say_result},
		{.say = say_mismatch},
		{.say = say_description},
		{.say = say_abort},
		{.say = say_ping},
		{.say = say_renew},
		{SML_CONTROL__ENVELOPE__BODY_STALL_REQUEST, &stalls.base, NULL},
		{SML_CONTROL__ENVELOPE__BODY_STALL_REQUEST, &stalls.base, NULL},
	};

	say_one_of(peer, gen, choices, sizeof(choices) / sizeof(choices[0]));
}

/* ---- anybody ---- */

void say_anything(struct peer *peer, struct gen *gen)
{
	struct draft frame;

	draft_any(&frame, gen);
	peer_say(peer, frame.bytes, frame.n);
}

static size_t put_varint(uint8_t *place, uint64_t value)
{
	size_t n = 0;

	for (; value > 127; value >>= 7)
		place[n++] = (uint8_t)(value | 128);
	place[n++] = (uint8_t)value;
	return n;
}

/* A length close to one of the limits. */
static size_t draw_length(struct gen *gen)
{
	static const uint32_t lengths[] = {4096, 16384, 131072, 262144, 1u << 20};

	return lengths[gen_below(gen, sizeof(lengths) / sizeof(lengths[0]))] - gen_below(gen, 64);
}

/* Repeat the fields of a draft as often as they fit, behind an honest beginning if there is one. */
void say_much(struct peer *peer, struct gen *gen)
{
	static uint8_t bytes[PEER_OUT_BYTES];
	const ProtobufCMessageDescriptor *envelope = &sml_control__envelope__descriptor;
	/* All fields but the last are bodies. */
	const ProtobufCFieldDescriptor *body =
		&envelope->fields[gen_below(gen, envelope->n_fields - 1)];
	/* Sometimes use the fields of another message, which this message does not have. */
	const ProtobufCFieldDescriptor *theirs =
		gen_below(gen, 4) ? body
				  : &envelope->fields[gen_below(gen, envelope->n_fields - 1)];
	struct draft draft = {.n = 0};
	size_t n = draw_length(gen), at = LENGTH_BYTES, end;

	for (unsigned i = 0; i < 4 && draft.n == 0; i++)
		draft_fields(&draft, gen, theirs->descriptor, 0);
	if (draft.n == 0 || draft.n > n / 2)
		return;
	n -= n % draft.n;
	at += put_varint(bytes + at, (uint64_t)body->id << 3 | 2);
	at += put_varint(bytes + at, n);
	end = at + n;
	for (; at < end; at += draft.n)
		memcpy(bytes + at, draft.bytes, draft.n);
	for (unsigned i = 0; i < LENGTH_BYTES; i++)
		bytes[i] = (uint8_t)((end - LENGTH_BYTES) >> (24 - 8 * i));
	peer_say(peer, bytes, end);
}

void say_again(struct peer *peer, struct gen *gen)
{
	static const uint16_t times[] = {1, 2, 3, 15, 16, 64, 255, 1000};
	size_t first = peer->last, n = peer->out_end - first;
	uint32_t more = times[gen_below(gen, sizeof(times) / sizeof(times[0]))];

	/* All repetitions in full, like a peer that ignores what the socket accepts. */
	for (; n > 0 && more > 0; more--)
		peer_say(peer, peer->out + first, n);
}

void say_questions(struct peer *peer, struct gen *gen)
{
	static const SmlControl__StatusRequest status = SML_CONTROL__STATUS_REQUEST__INIT;
	static const SmlControl__StallRequest stalls = SML_CONTROL__STALL_REQUEST__INIT;

	peer->deaf = true;
	switch (gen_below(gen, 3)) {
	case 0:
		say_message(peer, gen, &status.base, SML_CONTROL__ENVELOPE__BODY_STATUS_REQUEST);
		break;
	case 1:
		say_message(peer, gen, &stalls.base, SML_CONTROL__ENVELOPE__BODY_STALL_REQUEST);
		break;
	default:
		say_ping(peer, gen);
		break;
	}
	for (unsigned i = 0; i < 4; i++)
		say_again(peer, gen);
}

void say_garbage(struct peer *peer, struct gen *gen)
{
	uint8_t bytes[32];
	size_t n = gen_below(gen, sizeof(bytes));

	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)gen_below(gen, 256);
	peer_say(peer, bytes, n);
}
