/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The workers of one rank against a switch that lies. The switch knows job, epoch and tag,
 * so its results are accepted, and it says anything. The library must not access buffers
 * that it has given back to the application (when a call is done). It must accept a result
 * exactly if the result answers the packet in flight.
 *
 * The switch may also die. Then the values that a rank reports, adopts and begins with are
 * arbitrary too.
 */
#include <string.h>

#include "core/resume.h"
#include "fuzz/properties.h"
#include "support/guard.h"

#define MAX_STRIPES 3
#define MAX_SHARDS  2
#define MAX_CALLS   8
#define MAX_GLOBAL  16
#define MAX_LANES   40 /* room for a block that is rounded: 33 */
#define N_REPORT    8
#define JOB	    4
#define TAG	    99

struct sent {
	bool in_flight;
	struct sml_header header;
};

struct call {
	struct sml_tensor tensor;
	struct guarded memory, send, recv;
	uint8_t *afterwards; /* recv at the time when the call returned */
	bool returned;
};

struct end {
	struct sml_worker *worker;
	struct guarded worker_memory, memory;
	uint32_t n_handed; /* number of calls handed over */
	struct sent sent[MAX_GLOBAL];
};

struct stripe {
	uint32_t epoch, tickets[SML_STREAMS];
	uint32_t tables[SML_STREAMS][N_REPORT];
	uint16_t head_slots, data_slots;
};

struct lie {
	uint32_t n_stripes, n_shards, n_calls;
	bool omits;
	struct sml_shape shape;
	struct sml_sequence sequence;
	struct stripe stripes[MAX_STRIPES];
	struct end ends[MAX_STRIPES][MAX_SHARDS];
	struct call calls[MAX_CALLS];
	struct guarded packet;
	uint64_t now_ns;
};

/* ---- workers ---- */

static void open_end(struct lie *lie, uint32_t stripe, uint32_t shard, struct end *end)
{
	struct sml_worker_config config = {
		.cookie = 5,
		.tag = TAG,
		.job = JOB,
		.epoch = lie->stripes[stripe].epoch,
		.shape = lie->shape,
		.head_slots = lie->stripes[stripe].head_slots,
		.data_slots = lie->stripes[stripe].data_slots,
		.shard = (uint8_t)shard,
		.n_shards = (uint8_t)lie->n_shards,
		.stripe = (uint8_t)stripe,
		.n_stripes = (uint8_t)lie->n_stripes,
		.number = (uint8_t)lie->shape.rank,
		.omits = lie->omits,
		.window_max = 64,
	};

	end->worker_memory = guard_take(sizeof(struct sml_worker));
	end->memory = guard_take(sml_worker_memory_bytes(&config));
	end->worker = (struct sml_worker *)end->worker_memory.bytes;
	sml_worker_init(end->worker, &config, end->memory.bytes);
}

static bool close_end(struct end *end)
{
	bool whole = guard_give(&end->worker_memory);

	return guard_give(&end->memory) && whole;
}

static void draw_sizes(struct lie *lie, struct gen *gen)
{
	lie->n_stripes = gen_range(gen, 1, MAX_STRIPES);
	lie->n_shards = gen_range(gen, 1, MAX_SHARDS);
	lie->shape.lanes = gen_below(gen, 2) ? 8 : MAX_LANES;
	lie->shape.rounds = lie->shape.lanes == MAX_LANES;
	lie->shape.n_ranks = (uint8_t)gen_range(gen, 1, 3);
	lie->shape.rank = (uint8_t)gen_below(gen, lie->shape.n_ranks);
	lie->omits = lie->shape.floats = gen_below(gen, 2);
}

static void lie_init(struct lie *lie, struct gen *gen, bool tiny)
{
	memset(lie, 0, sizeof(*lie));
	lie->n_stripes = lie->n_shards = 1;
	lie->shape = (struct sml_shape){.lanes = 8, .n_ranks = 1};
	lie->now_ns = 1000000;
	if (!tiny)
		draw_sizes(lie, gen);
	for (uint32_t i = 0; i < lie->n_stripes; i++) {
		struct stripe *stripe = &lie->stripes[i];

		stripe->head_slots = (uint16_t)(tiny ? 2 : gen_range(gen, 1, 3));
		stripe->data_slots = (uint16_t)(tiny ? 1 : gen_range(gen, 1, 5));
		stripe->tickets[SML_HEAD] = stripe->head_slots;
		stripe->tickets[SML_DATA] = stripe->data_slots;
		for (uint32_t j = 0; j < lie->n_shards; j++)
			open_end(lie, i, j, &lie->ends[i][j]);
	}
	lie->packet = guard_take(SML_HEADER_BYTES + 4 * (size_t)lie->shape.lanes);
}

/* ---- calls ---- */

/* What a caller of the library may ask for: also float64's own wire, but no mean of bool. */
static void draw_type(struct gen *gen, struct sml_tensor_spec *spec)
{
	static const enum sml_type types[] = {SML_FLOAT32, SML_FLOAT16, SML_BFLOAT16, SML_INT32,
					      SML_FLOAT64, SML_INT64,	SML_UINT8,    SML_INT8,
					      SML_INT16,   SML_BOOL};

	spec->type = types[gen_below(gen, sizeof(types) / sizeof(types[0]))];
	spec->op = (enum sml_op)gen_below(gen, 4);
	spec->wire = gen_below(gen, 2) ? SML_WIRE_INT16 : SML_WIRE_INT32;
	if (spec->type == SML_FLOAT64 && gen_below(gen, 2))
		spec->wire = SML_WIRE_INT64;
	if (spec->type == SML_BOOL && spec->op == SML_AVG)
		spec->op = SML_SUM;
}

/*
 * The int8 and the exact wire only where the library takes them, and else that of the default. No
 * draw of its own: other inputs stay the same.
 */
static void draw_special(const struct lie *lie, struct sml_tensor_spec *spec)
{
	bool is_float = spec->type == SML_FLOAT32 || spec->type == SML_FLOAT16 ||
			spec->type == SML_BFLOAT16;

	if (!is_float || spec->op > SML_AVG)
		return;
	if (sml_shape_rounds(&lie->shape, 8) && spec->count % 2 != 0)
		spec->wire = SML_WIRE_INT8;
	else if (sml_shape_adds(&lie->shape, spec->type) && spec->count % 3 != 0)
		spec->wire = SML_WIRE_EXACT;
	else if (!lie->shape.floats && spec->count % 4 == 0)
		spec->wire = SML_WIRE_INT64;
}

static void draw_spec(const struct lie *lie, struct gen *gen, struct sml_tensor_spec *spec)
{
	uint64_t part;

	*spec = (struct sml_tensor_spec){
		.collective = (enum sml_collective)gen_below(gen, 4),
		.count = gen_below(gen, gen_below(gen, 4) ? 60 : 700),
	};
	draw_type(gen, spec);
	draw_special(lie, spec);
	spec->count -= spec->count % lie->shape.n_ranks;
	spec->send_count = spec->recv_count = spec->count;
	part = spec->count / lie->shape.n_ranks;
	if (spec->collective == SML_BROADCAST || spec->collective == SML_ALLGATHER) {
		spec->type = SML_BYTE;
		spec->op = SML_SUM;
	}
	if (spec->collective == SML_BROADCAST && lie->shape.rank != 0)
		spec->send_count = 0;
	if (spec->collective == SML_ALLGATHER) {
		spec->send_first = part * lie->shape.rank;
		spec->send_count = part;
	}
	if (spec->collective == SML_REDUCE_SCATTER) {
		spec->recv_first = part * lie->shape.rank;
		spec->recv_count = part;
	}
	/* Some all-reduces are reduces, to a rank that the job may lack. */
	if (spec->collective == SML_ALLREDUCE && spec->count % 5 == 0) {
		spec->collective = SML_REDUCE;
		spec->root = 1;
		spec->recv_count = lie->shape.rank == 1 ? spec->count : 0;
	}
}

static void make_call(struct lie *lie, const struct sml_tensor_spec *wanted)
{
	struct call *call = &lie->calls[lie->n_calls];
	struct sml_tensor_spec spec = *wanted;

	if (lie->n_calls == MAX_CALLS)
		return;
	call->send = guard_take(spec.send_count * sml_element_bytes(spec.type));
	call->recv = guard_take(spec.recv_count * sml_element_bytes(spec.type));
	spec.send = call->send.bytes;
	spec.recv = call->recv.bytes;
	for (size_t i = 0; i < call->send.n; i++)
		/* Every other call has a second half without numbers. */
		call->send.bytes[i] = lie->n_calls % 2 && i > call->send.n / 2
					      ? 0
					      : (uint8_t)(i * 7 + lie->n_calls);
	call->memory = guard_take(sml_tensor_memory_bytes(&spec, &lie->shape));
	sml_tensor_init(&call->tensor, &spec, &lie->shape, &lie->sequence, call->memory.bytes);
	lie->n_calls++;
}

/* Each shard learns of a call at a different time. */
static void hand_over(struct lie *lie, struct end *end)
{
	if (end->n_handed < lie->n_calls &&
	    sml_worker_submit(end->worker, &lie->calls[end->n_handed].tensor))
		end->n_handed++;
}

/* The application owns its buffers again. AddressSanitizer builds free them, others watch them. */
static void return_calls(struct lie *lie)
{
	for (uint32_t i = 0; i < lie->n_calls; i++) {
		struct call *call = &lie->calls[i];

		if (call->returned || !sml_tensor_is_done(&call->tensor))
			continue;
		call->returned = true;
		if (GUARD_BYTES == 0) {
			guard_give(&call->send);
			guard_give(&call->recv);
			continue;
		}
		call->afterwards = malloc(call->recv.n + 1);
		if (call->afterwards == NULL)
			abort();
		memcpy(call->afterwards, call->recv.bytes, call->recv.n);
	}
}

static const char *check_calls(const struct lie *lie)
{
	for (uint32_t i = 0; i < lie->n_calls; i++) {
		const struct call *call = &lie->calls[i];

		PROPERTY_CHECK(call->tensor.left <=
				       call->tensor.window[0].count + call->tensor.window[1].count,
			       "more chunks came back than there are");
		if (call->afterwards != NULL)
			PROPERTY_CHECK(memcmp(call->afterwards, call->recv.bytes, call->recv.n) ==
					       0,
				       "a buffer was written to after its call had returned");
	}
	return NULL;
}

/* ---- packets ---- */

static uint32_t length_of(const struct sml_header *header)
{
	return SML_HEADER_BYTES +
	       sml_lane_bytes(sml_be16(header->lanes_be), header->lane_kind & SML_LANES_OMITTED);
}

static const char *send_one(struct lie *lie, struct end *end)
{
	size_t length = sml_worker_send(end->worker, lie->packet.bytes, lie->now_ns);
	const struct sml_header *header = (const struct sml_header *)lie->packet.bytes;
	struct sent *sent;

	if (length == 0)
		return NULL;
	PROPERTY_CHECK(!end->worker->frozen, "a frozen worker sent");
	PROPERTY_CHECK(length == length_of(header) && length <= lie->packet.n &&
			       (lie->omits || !(header->lane_kind & SML_LANES_OMITTED)),
		       "a packet of a wrong length was sent");
	PROPERTY_CHECK(sml_be16(header->slot_be) < MAX_GLOBAL, "a slot that does not exist sent");
	sent = &end->sent[sml_be16(header->slot_be)];
	PROPERTY_CHECK(!sent->in_flight || sent->header.use_be == header->use_be,
		       "a slot has two packets in flight");
	sent->in_flight = true;
	sent->header = *header;
	return NULL;
}

static uint32_t draw_ticket(struct gen *gen, uint32_t *counter)
{
	uint32_t ticket;

	if (gen->mode == GEN_ALL) {
		ticket = gen_below(gen, *counter + 2);
		*counter += ticket == *counter;
		return ticket > *counter ? (uint32_t)1 << 31 : ticket;
	}
	switch (gen_below(gen, 6)) {
	case 0: /* given out earlier */
		return gen_below(gen, *counter + 1);
	case 1:
		return gen_wide(gen, UINT32_MAX);
	case 2:
		return *counter + gen_below(gen, 4);
	default:
		return (*counter)++;
	}
}

/* An answer to a packet in flight: its lanes are arbitrary, and its ticket or more is wrong. */
static uint32_t draw_result(struct lie *lie, struct gen *gen, uint32_t stripe,
			    const struct end *end, uint8_t *bytes)
{
	struct sml_header *header = (struct sml_header *)bytes;
	uint32_t slot = gen_below(gen, gen->mode == GEN_ALL ? 2 : MAX_GLOBAL), n_lanes, length;
	enum sml_stream_id stream;

	for (uint32_t i = 0; i < MAX_GLOBAL && !end->sent[slot].in_flight; i++)
		slot = (slot + 1) % MAX_GLOBAL;
	*header = end->sent[slot].header;
	stream = sml_be16(header->slot_be) < lie->stripes[stripe].head_slots ? SML_HEAD : SML_DATA;
	n_lanes = sml_be16(header->lanes_be);
	header->magic_be = sml_be16(SML_WIRE_MAGIC);
	header->version = SML_WIRE_VERSION;
	header->kind = SML_PACKET_RESULT;
	header->job_be = sml_be32(JOB);
	header->epoch_be = sml_be32(lie->stripes[stripe].epoch);
	header->key_be = sml_be64(TAG);
	header->rank = 0;
	header->chunk_be = sml_be32(draw_ticket(gen, &lie->stripes[stripe].tickets[stream]));
	for (uint32_t i = 0; i < 4 * n_lanes; i++)
		bytes[SML_HEADER_BYTES + i] =
			(uint8_t)(gen->mode == GEN_ALL || gen_below(gen, 8) ? i
									    : gen_below(gen, 256));
	length = length_of(header);
	if (gen->mode == GEN_ALL)
		return length;
	/* Zeros, with lanes or without them, wherever the rank has sent zeros or something else. */
	if (gen_below(gen, 4) == 3) {
		header->lane_kind ^= SML_LANES_OMITTED;
		length = length_of(header);
	}
	if (gen_below(gen, 4) == 3)
		bytes[gen_below(gen, SML_HEADER_BYTES)] = (uint8_t)gen_below(gen, 256);
	if (gen_below(gen, 8) == 7)
		length = gen_below(gen, SML_HEADER_BYTES + 4 * MAX_LANES + 1);
	return length;
}

/* Does every field answer a packet in flight? */
static bool is_the_answer(const struct lie *lie, uint32_t stripe, const struct end *end,
			  const uint8_t *bytes, uint32_t length)
{
	const struct sml_header *header = (const struct sml_header *)bytes;
	const struct sent *sent;

	if (length < SML_HEADER_BYTES || sml_be16(header->slot_be) >= MAX_GLOBAL)
		return false;
	sent = &end->sent[sml_be16(header->slot_be)];
	return !end->worker->frozen && sent->in_flight &&
	       header->magic_be == sml_be16(SML_WIRE_MAGIC) &&
	       header->version == SML_WIRE_VERSION && header->kind == SML_PACKET_RESULT &&
	       header->job_be == sml_be32(JOB) &&
	       header->epoch_be == sml_be32(lie->stripes[stripe].epoch) &&
	       header->key_be == sml_be64(TAG) && header->use_be == sent->header.use_be &&
	       header->digest_be == sent->header.digest_be && header->op == sent->header.op &&
	       (header->lane_kind == sent->header.lane_kind ||
		(header->lane_kind | SML_LANES_OMITTED) == sent->header.lane_kind) &&
	       header->lanes_be == sent->header.lanes_be && length == length_of(header);
}

static const char *receive_one(struct lie *lie, struct gen *gen, uint32_t stripe, struct end *end)
{
	uint8_t bytes[SML_HEADER_BYTES + 4 * MAX_LANES] __attribute__((aligned(8))) = {0};
	uint32_t length = draw_result(lie, gen, stripe, end, bytes);
	bool answer = is_the_answer(lie, stripe, end, bytes, length);
	struct guarded copy = guard_take(length);
	enum sml_worker_verdict verdict;

	memcpy(copy.bytes, bytes, length);
	verdict = sml_worker_receive(end->worker, copy.bytes, length, lie->now_ns);
	guard_give(&copy);
	if (!answer) {
		PROPERTY_CHECK(verdict == SML_WORKER_IGNORED,
			       "a result was taken that is not the packet's");
		return NULL;
	}
	PROPERTY_CHECK(verdict != SML_WORKER_IGNORED, "the packet's own result was ignored");
	end->sent[sml_be16(((struct sml_header *)bytes)->slot_be)].in_flight = false;
	return NULL;
}

/* ---- the switch dies ---- */

static const char *adopt(struct lie *lie, struct gen *gen, struct sml_worker *const *workers,
			 enum sml_stream_id stream, uint32_t chunk)
{
	uint16_t n_lanes =
		gen_below(gen, 4) ? lie->shape.lanes : (uint16_t)gen_below(gen, MAX_LANES + 1);
	struct guarded lanes = guard_take(4u * n_lanes);
	int rc = sml_resume_adopt(workers, lie->n_shards, stream, chunk, lanes.bytes, n_lanes);

	guard_give(&lanes);
	PROPERTY_CHECK(rc >= -1 && rc <= 1, "a hand-over came to something unknown");
	return NULL;
}

static const char *report(struct lie *lie, struct gen *gen, struct sml_worker *const *workers,
			  enum sml_stream_id stream)
{
	uint32_t capacity = gen_below(gen, N_REPORT + 1), n, chunk;
	struct guarded chunks = guard_take(4 * (size_t)capacity);
	uint32_t *list = (uint32_t *)(void *)chunks.bytes;
	const char *wrong = NULL;
	uint16_t n_lanes;

	n = sml_resume_kept_chunks(workers, lie->n_shards, stream, list, capacity);
	for (uint32_t i = 0; i < n && i < capacity; i++)
		if (sml_resume_kept(workers, lie->n_shards, stream, list[i], &n_lanes) == NULL)
			wrong = "a kept result is not there";
	n = sml_resume_lacking(workers, lie->n_shards, stream, list, capacity);
	for (uint32_t i = 0; i < gen_below(gen, 4) && wrong == NULL; i++) {
		chunk = i < n && i < capacity ? list[i] : gen_below(gen, UINT32_MAX);
		wrong = adopt(lie, gen, workers, stream, chunk);
	}
	if (!guard_give(&chunks))
		wrong = "a report is longer than its capacity";
	return wrong;
}

static void begin(struct lie *lie, struct gen *gen, uint32_t index)
{
	struct stripe *stripe = &lie->stripes[index];
	struct sml_ticket_map maps[SML_STREAMS];

	stripe->epoch++;
	stripe->head_slots = (uint16_t)gen_range(gen, 1, 3);
	stripe->data_slots = (uint16_t)gen_range(gen, 1, 5);
	stripe->tickets[SML_HEAD] = stripe->head_slots;
	stripe->tickets[SML_DATA] = stripe->data_slots;
	for (enum sml_stream_id stream = SML_HEAD; stream < SML_STREAMS; stream++) {
		maps[stream] = (struct sml_ticket_map){.table = stripe->tables[stream],
						       .n = gen_below(gen, N_REPORT + 1),
						       .after = gen_below(gen, 20)};
		for (uint32_t i = 0; i < maps[stream].n; i++)
			stripe->tables[stream][i] = gen_below(gen, 20);
	}
	for (uint32_t i = 0; i < lie->n_shards; i++) {
		struct end *end = &lie->ends[index][i], old = *end;

		open_end(lie, index, i, end);
		sml_resume_begin(end->worker, old.worker, maps);
		memset(end->sent, 0, sizeof(end->sent));
		close_end(&old);
	}
}

static const char *die(struct lie *lie, struct gen *gen, uint32_t index)
{
	struct sml_worker *workers[MAX_SHARDS];
	const char *wrong;

	for (uint32_t i = 0; i < lie->n_shards; i++) {
		workers[i] = lie->ends[index][i].worker;
		sml_worker_freeze(workers[i]);
	}
	wrong = report(lie, gen, workers, SML_HEAD);
	if (wrong == NULL)
		wrong = report(lie, gen, workers, SML_DATA);
	return_calls(lie);
	begin(lie, gen, index);
	return wrong;
}

/* ---- all together ---- */

static const char *step(struct lie *lie, struct gen *gen)
{
	uint32_t stripe = gen_below(gen, lie->n_stripes);
	struct end *end = &lie->ends[stripe][gen_below(gen, lie->n_shards)];
	struct sml_tensor_spec spec;

	switch (gen_below(gen, 16)) {
	case 0:
		draw_spec(lie, gen, &spec);
		make_call(lie, &spec);
		return NULL;
	case 1:
		hand_over(lie, end);
		return NULL;
	case 2:
		lie->now_ns += gen_below(gen, 2000000000);
		sml_worker_expire(end->worker, lie->now_ns);
		return NULL;
	case 3:
		while (sml_worker_retire(end->worker) != NULL)
			;
		return NULL;
	case 4:
		return gen_below(gen, 8) ? NULL : die(lie, gen, stripe);
	case 5:
	case 6:
	case 7:
	case 8:
	case 9:
		return send_one(lie, end);
	default:
		return receive_one(lie, gen, stripe, end);
	}
}

/* The same with few choices, so that all can be tried: three calls of one chunk, two slots. */
static const char *tiny_step(struct lie *lie, struct gen *gen)
{
	struct end *end = &lie->ends[0][0];

	switch (gen_below(gen, 3)) {
	case 0:
		return send_one(lie, end);
	case 1:
		sml_worker_retire(end->worker);
		return NULL;
	default:
		return receive_one(lie, gen, 0, end);
	}
}

static void tiny_calls(struct lie *lie)
{
	struct sml_tensor_spec spec = {.type = SML_INT32,
				       .wire = SML_WIRE_INT32,
				       .count = 3,
				       .send_count = 3,
				       .recv_count = 3};

	for (uint32_t i = 0; i < 3; i++) {
		make_call(lie, &spec);
		hand_over(lie, &lie->ends[0][0]);
	}
}

static bool lie_fini(struct lie *lie)
{
	bool whole = guard_give(&lie->packet);

	for (uint32_t i = 0; i < lie->n_stripes; i++)
		for (uint32_t j = 0; j < lie->n_shards; j++)
			whole &= close_end(&lie->ends[i][j]);
	for (uint32_t i = 0; i < lie->n_calls; i++) {
		whole &= guard_give(&lie->calls[i].memory);
		whole &= guard_give(&lie->calls[i].send);
		whole &= guard_give(&lie->calls[i].recv);
		free(lie->calls[i].afterwards);
	}
	return whole;
}

const char *property_worker(struct gen *gen, bool tiny)
{
	static struct lie lie;
	const char *wrong = NULL;

	lie_init(&lie, gen, tiny);
	if (tiny)
		tiny_calls(&lie);
	for (uint32_t i = 0; i < (tiny ? 5 : 400) && wrong == NULL; i++) {
		wrong = tiny ? tiny_step(&lie, gen) : step(&lie, gen);
		return_calls(&lie);
		if (wrong == NULL)
			wrong = check_calls(&lie);
	}
	if (!lie_fini(&lie) && wrong == NULL)
		wrong = "something was written outside its memory";
	return wrong;
}
