/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end host's verbs: see worker.h for the life of a slot. The paper's
 * algorithm 4, with tickets in the place of "chunk + number of slots" and one
 * timer for all slots in the place of one each.
 */
#include "core/worker.h"

/* Exponents of so many blocks beyond the one whose data are being sent. */
#define BLOCKS_AHEAD 3
/* Timeouts send at least so many packets again at once; the rest wait their turn. */
#define EXPIRE_BURST 16
/* After so many transmissions only the timer sends a packet again. */
#define FAST_SENDS_MAX 4

#define ROUND_UP_64(n) (((n) + 63) & ~(size_t)63)

/* ---- set-up ---- */

static uint16_t first_of_shard(const struct sml_worker_config *config, uint16_t from)
{
	uint16_t behind = (uint16_t)(from % config->n_shards);

	return (uint16_t)(from +
			  (config->shard + config->n_shards - behind) % config->n_shards);
}

static uint16_t slots_of_shard(const struct sml_worker_config *config, uint16_t from, uint16_t n)
{
	uint16_t first = first_of_shard(config, from);

	if (first >= from + n)
		return 0;
	return (uint16_t)((from + n - first + config->n_shards - 1) / config->n_shards);
}

static uint16_t n_slots_of(const struct sml_worker_config *config)
{
	return (uint16_t)(slots_of_shard(config, 0, config->head_slots) +
			  slots_of_shard(config, config->head_slots, config->data_slots));
}

static uint32_t kept_stride_of(const struct sml_worker_config *config)
{
	return (uint32_t)ROUND_UP_64((size_t)4 * config->shape.lanes);
}

size_t sml_worker_memory_bytes(const struct sml_worker_config *config)
{
	size_t n = n_slots_of(config);

	return n * kept_stride_of(config) + ROUND_UP_64(n * sizeof(struct sml_worker_slot)) +
	       ROUND_UP_64(n * sizeof(uint32_t)) + 2 * ROUND_UP_64(n * sizeof(struct sml_link)) +
	       ROUND_UP_64(n * sizeof(uint16_t));
}

static void *carve(uint8_t **memory, size_t bytes)
{
	void *piece = *memory;

	*memory += ROUND_UP_64(bytes);
	return piece;
}

static uint32_t chunk_of_ticket(const struct sml_worker *worker, const struct sml_ticket_map *map,
				uint32_t ticket)
{
	if (ticket < map->n)
		return map->table[ticket];
	return map->after + (ticket - map->n) * worker->config.n_stripes;
}

static void assign(struct sml_worker *worker, enum sml_stream_id stream, uint16_t slot,
		   uint32_t ticket)
{
	struct sml_lane_of_slots *lane = &worker->streams[stream];
	uint32_t chunk = chunk_of_ticket(worker, &lane->map, ticket);

	worker->slots[slot].ticket = ticket;
	worker->slots[slot].place = SML_WAITING;
	worker->chunks[slot] = chunk;
	lane->beyond = sml_serial_max(lane->beyond, chunk + 1);
	sml_heap_push(&lane->waiting, slot);
}

/* Slot i's first use has ticket i of its stream, undrawn. */
static void assign_first_uses(struct sml_worker *worker, enum sml_stream_id stream)
{
	const struct sml_lane_of_slots *lane = &worker->streams[stream];
	uint16_t from = stream == SML_HEAD ? 0 : worker->config.head_slots;

	for (uint16_t i = 0; i < lane->n_slots; i++)
		assign(worker, stream, (uint16_t)(lane->first_slot + i),
		       (uint32_t)(lane->first_global + i * worker->config.n_shards - from));
}

static void init_stream(struct sml_worker *worker, enum sml_stream_id stream, uint16_t first_slot,
			uint16_t *heap)
{
	const struct sml_worker_config *config = &worker->config;
	uint16_t from = stream == SML_HEAD ? 0 : config->head_slots;
	uint16_t of_stream = stream == SML_HEAD ? config->head_slots : config->data_slots;
	struct sml_lane_of_slots *lane = &worker->streams[stream];

	*lane = (struct sml_lane_of_slots){
		.first_slot = first_slot,
		.n_slots = slots_of_shard(config, from, of_stream),
		.waiting = {.slots = heap + first_slot, .chunks = worker->chunks},
		.map = {.after = config->stripe},
		.first_global = first_of_shard(config, from),
	};
	sml_list_init(&lane->blocked, worker->chunk_links);
	sml_list_init(&lane->unanswered, worker->chunk_links);
	for (uint16_t i = 0; i < lane->n_slots; i++)
		worker->slots[first_slot + i] = (struct sml_worker_slot){0};
	assign_first_uses(worker, stream);
}

void sml_worker_set_map(struct sml_worker *worker, enum sml_stream_id stream,
			const struct sml_ticket_map *map, uint32_t beyond)
{
	struct sml_lane_of_slots *lane = &worker->streams[stream];

	sml_assert(lane->waiting.n == lane->n_slots);
	lane->waiting.n = 0;
	lane->map = *map;
	lane->beyond = beyond;
	assign_first_uses(worker, stream);
}

void sml_worker_init(struct sml_worker *worker, const struct sml_worker_config *config,
		     void *memory)
{
	uint16_t n = n_slots_of(config);
	uint8_t *place = memory;
	uint16_t *heap;

	sml_assert(((uintptr_t)memory & 63) == 0);
	sml_assert(config->shard < config->n_shards && config->stripe < config->n_stripes);
	sml_assert(config->window_max > 0);
	*worker = (struct sml_worker){.config = *config, .n_slots = n};
	worker->kept_stride = kept_stride_of(config);
	worker->kept = carve(&place, (size_t)n * worker->kept_stride);
	worker->slots = carve(&place, n * sizeof(struct sml_worker_slot));
	worker->chunks = carve(&place, n * sizeof(uint32_t));
	worker->chunk_links = carve(&place, n * sizeof(struct sml_link));
	worker->send_links = carve(&place, n * sizeof(struct sml_link));
	heap = carve(&place, n * sizeof(uint16_t));
	sml_list_init(&worker->in_flight, worker->send_links);
	sml_list_init(&worker->lost, worker->send_links);
	init_stream(worker, SML_HEAD, 0, heap);
	init_stream(worker, SML_DATA, worker->streams[SML_HEAD].n_slots, heap);
	sml_rtt_init(&worker->rtt);
	sml_flight_init(&worker->flight, config->window_max < n ? config->window_max : n,
			config->shape.n_ranks);
}

/* ---- tensors ---- */

bool sml_worker_submit(struct sml_worker *worker, struct sml_tensor *tensor)
{
	if (worker->newest - worker->oldest == SML_WORKER_TENSORS)
		return false;
	worker->tensors[worker->newest++ % SML_WORKER_TENSORS] = tensor;
	return true;
}

struct sml_tensor *sml_worker_retire(struct sml_worker *worker)
{
	struct sml_tensor *tensor;

	if (worker->oldest == worker->newest)
		return NULL;
	tensor = worker->tensors[worker->oldest % SML_WORKER_TENSORS];
	if (!sml_tensor_is_done(tensor))
		return NULL;
	worker->oldest++;
	for (enum sml_stream_id stream = SML_HEAD; stream < SML_STREAMS; stream++)
		worker->retired[stream] =
			tensor->window[stream].first + tensor->window[stream].count;
	return tensor;
}

static struct sml_tensor *tensor_at(const struct sml_worker *worker, uint32_t position)
{
	return worker->tensors[position % SML_WORKER_TENSORS];
}

static bool owns(const struct sml_tensor *tensor, enum sml_stream_id stream, uint32_t chunk)
{
	return chunk - tensor->window[stream].first < tensor->window[stream].count;
}

struct sml_tensor *sml_worker_find(struct sml_worker *worker, enum sml_stream_id stream,
				   uint32_t chunk)
{
	struct sml_lane_of_slots *lane = &worker->streams[stream];
	uint32_t low = 0, high = worker->newest - worker->oldest;

	if (lane->tensor_hint - worker->oldest < high &&
	    owns(tensor_at(worker, lane->tensor_hint), stream, chunk))
		return tensor_at(worker, lane->tensor_hint);
	/* The last tensor whose window begins at the chunk or before it. */
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		struct sml_tensor *tensor = tensor_at(worker, worker->oldest + middle);

		if (sml_serial_before(chunk, tensor->window[stream].first))
			high = middle;
		else
			low = middle + 1;
	}
	if (low == 0)
		return NULL;
	lane->tensor_hint = worker->oldest + low - 1;
	if (!owns(tensor_at(worker, lane->tensor_hint), stream, chunk))
		return NULL;
	return tensor_at(worker, lane->tensor_hint);
}

/* ---- out ---- */

static uint32_t earlier(uint32_t a, uint32_t b)
{
	return sml_serial_before(a, b) ? a : b;
}

/* The lowest chunk of the data stream that this shard has not got back. */
static uint32_t lowest_data_chunk(const struct sml_worker *worker)
{
	const struct sml_lane_of_slots *lane = &worker->streams[SML_DATA];
	uint32_t lowest = lane->beyond;

	if (lane->waiting.n)
		lowest = earlier(lowest, worker->chunks[sml_heap_top(&lane->waiting)]);
	if (lane->blocked.n)
		lowest = earlier(lowest, worker->chunks[lane->blocked.first]);
	if (lane->unanswered.n)
		lowest = earlier(lowest, worker->chunks[lane->unanswered.first]);
	return lowest;
}

/* Is the block, whose exponents a head chunk carries, soon to be sent? */
static bool block_is_near(const struct sml_worker *worker, const struct sml_tensor *tensor,
			  uint32_t head_index)
{
	uint32_t lanes = worker->config.shape.lanes;
	uint32_t first = tensor->window[SML_DATA].first + head_index * lanes;

	return sml_serial_before(first, lowest_data_chunk(worker) + BLOCKS_AHEAD * lanes);
}

static bool may_send(const struct sml_worker *worker, enum sml_stream_id stream, uint32_t chunk,
		     const struct sml_tensor *tensor)
{
	const struct sml_lane_of_slots *lane = &worker->streams[stream];

	/* The rule against deadlock: the lowest chunk is always allowed. */
	if (lane->unanswered.n == 0 ||
	    sml_serial_before(chunk, worker->chunks[lane->unanswered.first]))
		return true;
	if (worker->in_flight.n + worker->lost.n >= worker->flight.window)
		return false;
	return stream == SML_DATA || tensor->form != SML_FORM_EXPONENT ||
	       block_is_near(worker, tensor, chunk - tensor->window[SML_HEAD].first);
}

/* Take the next slot of a stream off `waiting`; those without exponents go to `blocked`. */
static uint16_t next_in_stream(struct sml_worker *worker, enum sml_stream_id stream)
{
	struct sml_lane_of_slots *lane = &worker->streams[stream];
	uint16_t slot;

	while ((slot = sml_heap_top(&lane->waiting)) != SML_NO_SLOT) {
		uint32_t chunk = worker->chunks[slot];
		struct sml_tensor *tensor = sml_worker_find(worker, stream, chunk);

		if (tensor == NULL)
			return SML_NO_SLOT; /* so are all above it */
		if (!sml_tensor_chunk_is_ready(tensor, stream,
					       chunk - tensor->window[stream].first)) {
			sml_heap_pop(&lane->waiting);
			sml_list_insert_sorted(&lane->blocked, slot, worker->chunks);
			worker->slots[slot].place = SML_BLOCKED;
			continue;
		}
		if (!may_send(worker, stream, chunk, tensor))
			return SML_NO_SLOT;
		sml_heap_pop(&lane->waiting);
		sml_list_insert_sorted(&lane->unanswered, slot, worker->chunks);
		return slot;
	}
	return SML_NO_SLOT;
}

/* Blocked slots whose exponents are here wait again. True if there were any. */
static bool unblock(struct sml_worker *worker)
{
	struct sml_lane_of_slots *lane = &worker->streams[SML_DATA];
	uint16_t slot, next;
	bool any = false;

	for (slot = lane->blocked.first; slot != SML_NO_SLOT; slot = next) {
		uint32_t chunk = worker->chunks[slot];
		struct sml_tensor *tensor = sml_worker_find(worker, SML_DATA, chunk);

		next = worker->chunk_links[slot].next;
		if (!sml_tensor_chunk_is_ready(tensor, SML_DATA,
					       chunk - tensor->window[SML_DATA].first))
			continue;
		sml_list_remove(&lane->blocked, slot);
		worker->slots[slot].place = SML_WAITING;
		sml_heap_push(&lane->waiting, slot);
		any = true;
	}
	worker->look_again = false;
	return any;
}

static uint16_t next_to_send(struct sml_worker *worker)
{
	uint16_t slot = worker->lost.first;

	if (slot != SML_NO_SLOT) {
		sml_list_remove(&worker->lost, slot);
		return slot;
	}
	/* Lowest data first: what has exponents now may be lower than what never lacked them. */
	if (worker->look_again)
		unblock(worker);
	slot = next_in_stream(worker, SML_HEAD);
	return slot != SML_NO_SLOT ? slot : next_in_stream(worker, SML_DATA);
}

static enum sml_stream_id stream_of(const struct sml_worker *worker, uint16_t slot)
{
	return slot < worker->streams[SML_DATA].first_slot ? SML_HEAD : SML_DATA;
}

static void write_header(const struct sml_worker *worker, uint16_t slot,
			 const struct sml_contribution *out, struct sml_header *header)
{
	const struct sml_worker_config *config = &worker->config;
	const struct sml_lane_of_slots *lane = &worker->streams[stream_of(worker, slot)];
	uint16_t global = (uint16_t)(lane->first_global +
				     (slot - lane->first_slot) * config->n_shards);

	*header = (struct sml_header){
		.magic_be = sml_be16(SML_WIRE_MAGIC),
		.version = SML_WIRE_VERSION,
		.kind = SML_PACKET_CONTRIBUTION,
		.job_be = sml_be32(config->job),
		.key_be = sml_be64(config->cookie),
		.epoch_be = sml_be32(config->epoch),
		.use_be = sml_be32(worker->slots[slot].use),
		.chunk_be = sml_be32(worker->chunks[slot]),
		.digest_be = sml_be32(out->digest),
		.slot_be = sml_be16(global),
		.rank = config->shape.rank,
		.op = out->op,
		.lane_kind = out->lane_kind,
		.shard = config->shard,
		.lanes_be = sml_be16(out->lanes),
	};
}

static size_t transmit(struct sml_worker *worker, uint16_t slot, void *packet, uint64_t now_ns)
{
	enum sml_stream_id stream = stream_of(worker, slot);
	uint32_t chunk = worker->chunks[slot];
	struct sml_tensor *tensor = sml_worker_find(worker, stream, chunk);
	struct sml_worker_slot *state = &worker->slots[slot];
	struct sml_contribution out;
	size_t length;
	uint32_t index;

	/* What is sent is submitted, and is not retired before its result is here. */
	sml_assert(tensor != NULL);
	index = chunk - tensor->window[stream].first;
	sml_tensor_describe_chunk(tensor, stream, index, &out);
	write_header(worker, slot, &out, packet);
	sml_tensor_fill(tensor, stream, index, (uint8_t *)packet + SML_HEADER_BYTES);
	length = SML_HEADER_BYTES + 4u * out.lanes;

	if (state->sends && state->timed_out)
		worker->counters.retransmits_timeout++;
	else if (state->sends)
		worker->counters.retransmits_fast++;
	if (state->sends < UINT8_MAX)
		state->sends++;
	state->place = SML_IN_FLIGHT;
	state->send_order = worker->send_order++;
	state->sent_ns = now_ns;
	sml_list_append(&worker->in_flight, slot);
	worker->counters.packets_sent++;
	worker->counters.bytes_sent += length;
	return length;
}

size_t sml_worker_send(struct sml_worker *worker, void *packet, uint64_t now_ns)
{
	bool shared = worker->config.n_shards > 1 || worker->config.n_stripes > 1;
	uint16_t slot;

	if (worker->frozen)
		return 0;
	slot = next_to_send(worker);
	/* Another shard or stripe may have brought exponents without our notice. */
	if (slot == SML_NO_SLOT && shared && unblock(worker))
		slot = next_to_send(worker);
	if (slot == SML_NO_SLOT)
		return 0;
	return transmit(worker, slot, packet, now_ns);
}

/* ---- in ---- */

/* The slot that a result is for, if it is the answer to the packet in flight. */
static uint16_t slot_of_result(const struct sml_worker *worker, const struct sml_header *header,
			       size_t length)
{
	const struct sml_worker_config *config = &worker->config;
	const struct sml_lane_of_slots *lane;
	uint32_t global, index;
	uint16_t slot;

	if (worker->frozen || length < SML_HEADER_BYTES ||
	    header->magic_be != sml_be16(SML_WIRE_MAGIC) || header->version != SML_WIRE_VERSION ||
	    header->kind != SML_PACKET_RESULT || header->job_be != sml_be32(config->job) ||
	    header->epoch_be != sml_be32(config->epoch) || header->key_be != sml_be64(config->tag))
		return SML_NO_SLOT;
	global = sml_be16(header->slot_be);
	lane = &worker->streams[global < config->head_slots ? SML_HEAD : SML_DATA];
	index = (global - lane->first_global) / config->n_shards;
	if (global < lane->first_global || global % config->n_shards != config->shard ||
	    index >= lane->n_slots)
		return SML_NO_SLOT;
	slot = (uint16_t)(lane->first_slot + index);
	if (worker->slots[slot].place != SML_IN_FLIGHT && worker->slots[slot].place != SML_LOST)
		return SML_NO_SLOT;
	if (worker->slots[slot].use != sml_be32(header->use_be))
		return SML_NO_SLOT;
	return slot;
}

static bool matches(const struct sml_contribution *sent, const struct sml_header *header,
		    size_t length)
{
	return length == SML_HEADER_BYTES + 4u * sent->lanes &&
	       header->lanes_be == sml_be16(sent->lanes) && header->op == sent->op &&
	       header->lane_kind == sent->lane_kind && header->digest_be == sml_be32(sent->digest);
}

static void measure(struct sml_worker *worker, const struct sml_worker_slot *state,
		    uint8_t last_rank, uint64_t now_ns)
{
	uint64_t sample_ns = UINT64_MAX;

	/* Karn: whose transmission was answered is only known if there was one. */
	if (state->sends == 1) {
		sample_ns = now_ns - state->sent_ns;
		sml_rtt_sample(&worker->rtt, sample_ns, last_rank == worker->config.shape.rank);
	}
	if (worker->rtt.backoff > 0) {
		/* A stall has ended: those still in flight deserve a round trip. */
		worker->rtt.backoff = 0;
		worker->hold_timer_ns = now_ns + worker->rtt.rto_ns;
	}
	sml_flight_result(&worker->flight, sample_ns, worker->rtt.min_ns);
}

/*
 * Packets sent well before one that has been answered are taken for lost, as
 * TCP's third duplicate acknowledgement does. The distance doubles with every
 * transmission, for the slot may be waiting for a slow rank.
 */
static void find_overtaken(struct sml_worker *worker)
{
	uint32_t distance = worker->in_flight.n / 4u;
	uint16_t slot, next;

	distance = distance < 3 ? 3 : distance > 32 ? 32 : distance;
	for (slot = worker->in_flight.first; slot != SML_NO_SLOT; slot = next) {
		struct sml_worker_slot *state = &worker->slots[slot];
		uint32_t behind = worker->highest_answered - 1 - state->send_order;

		next = worker->send_links[slot].next;
		if ((int32_t)behind < (int32_t)distance)
			return;
		if (state->sends >= FAST_SENDS_MAX || behind < distance << (state->sends - 1))
			continue;
		sml_list_remove(&worker->in_flight, slot);
		sml_list_append(&worker->lost, slot);
		state->place = SML_LOST;
		state->timed_out = false;
		sml_flight_loss(&worker->flight);
	}
}

/* The slot has its result: forget the packet, keep the result, move on. */
static void advance(struct sml_worker *worker, enum sml_stream_id stream, uint16_t slot,
		    const struct sml_header *header)
{
	struct sml_lane_of_slots *lane = &worker->streams[stream];
	struct sml_worker_slot *state = &worker->slots[slot];
	uint16_t of_stream = stream == SML_HEAD ? worker->config.head_slots
						: worker->config.data_slots;

	sml_list_remove(state->place == SML_LOST ? &worker->lost : &worker->in_flight, slot);
	sml_list_remove(&lane->unanswered, slot);
	__builtin_memcpy(worker->kept + (size_t)slot * worker->kept_stride, header + 1,
			 4u * sml_be16(header->lanes_be));
	state->has_kept = true;
	state->kept_chunk = worker->chunks[slot];
	state->kept_lanes = sml_be16(header->lanes_be);
	state->use++;
	state->sends = 0;
	assign(worker, stream, slot,
	       worker->config.no_tickets ? state->ticket + of_stream : sml_be32(header->chunk_be));
}

enum sml_worker_verdict sml_worker_receive(struct sml_worker *worker, const void *packet,
					   size_t length, uint64_t now_ns)
{
	const struct sml_header *header = packet;
	uint16_t slot = slot_of_result(worker, header, length);
	struct sml_contribution sent;
	struct sml_tensor *tensor;
	enum sml_stream_id stream;
	uint32_t index;
	bool last;

	worker->counters.packets_received++;
	worker->counters.bytes_received += length;
	if (slot == SML_NO_SLOT) {
		worker->counters.ignored++;
		return SML_WORKER_IGNORED;
	}
	stream = stream_of(worker, slot);
	tensor = sml_worker_find(worker, stream, worker->chunks[slot]);
	sml_assert(tensor != NULL);
	index = worker->chunks[slot] - tensor->window[stream].first;
	sml_tensor_describe_chunk(tensor, stream, index, &sent);
	if (!matches(&sent, header, length)) {
		worker->counters.ignored++;
		return SML_WORKER_IGNORED;
	}

	last = sml_tensor_take(tensor, stream, index, header + 1);
	if (stream == SML_HEAD)
		worker->look_again = true;
	measure(worker, &worker->slots[slot], header->rank, now_ns);
	worker->highest_answered = sml_serial_max(worker->highest_answered,
						  worker->slots[slot].send_order + 1);
	advance(worker, stream, slot, header);
	if (!worker->config.no_fast_retransmit)
		find_overtaken(worker);
	return last ? SML_WORKER_TENSOR : SML_WORKER_RESULT;
}

/* ---- time ---- */

uint64_t sml_worker_deadline(const struct sml_worker *worker)
{
	uint64_t deadline_ns;

	if (worker->frozen || worker->in_flight.n == 0)
		return UINT64_MAX;
	deadline_ns = worker->slots[worker->in_flight.first].sent_ns + worker->rtt.rto_ns;
	return deadline_ns > worker->hold_timer_ns ? deadline_ns : worker->hold_timer_ns;
}

void sml_worker_expire(struct sml_worker *worker, uint64_t now_ns)
{
	uint16_t slot;

	if (now_ns < sml_worker_deadline(worker))
		return;
	worker->counters.stalls++;
	/* Oldest first, and back to the end of the line: all have their turn. */
	for (unsigned n = 0; n < EXPIRE_BURST; n++) {
		slot = worker->in_flight.first;
		if (slot == SML_NO_SLOT ||
		    worker->slots[slot].sent_ns + worker->rtt.rto_ns > now_ns)
			break;
		sml_list_remove(&worker->in_flight, slot);
		sml_list_append(&worker->lost, slot);
		worker->slots[slot].place = SML_LOST;
		worker->slots[slot].timed_out = true;
	}
	worker->hold_timer_ns = now_ns + sml_rtt_timeout(&worker->rtt);
	sml_rtt_back_off(&worker->rtt);
}

void sml_worker_freeze(struct sml_worker *worker)
{
	worker->frozen = true;
}

bool sml_worker_is_blocked(const struct sml_worker *worker)
{
	return worker->streams[SML_DATA].blocked.n > 0;
}

bool sml_worker_is_busy(const struct sml_worker *worker)
{
	return worker->in_flight.n + worker->lost.n > 0;
}
