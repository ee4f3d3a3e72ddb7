/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Outgoing packets: which slot sends next, and what. The paper's algorithm 4, with the lowest chunk
 * first, and with a window instead of all slots at once.
 */
#include "core/worker_internal.h"

/* Exponents go ahead of the data by at least this many head chunks. */
#define HEADS_AHEAD 3
/* After this many transmissions, only the timer sends a packet again. */
#define FAST_SENDS_MAX 4
/* A stripe is at most a window and so many chunks ahead of the last one of its team. */
#define TEAM_AHEAD 16
/* At most TEAM_AHEAD, or the last one could be held. */
#define TEAM_BATCH 16
/* Are these all zero? */
#define LANES_AT_ONCE 16

static uint32_t earlier(uint32_t a, uint32_t b)
{
	return sml_serial_before(a, b) ? a : b;
}

/* The lowest chunk of the data stream whose result this shard does not have. */
static uint32_t lowest_data_chunk(const struct sml_worker *worker)
{
	const struct sml_queues *queues = &worker->streams[SML_DATA];
	uint32_t lowest = queues->beyond;

	if (queues->waiting.n)
		lowest = earlier(lowest, worker->chunks[queues->waiting.first]);
	if (queues->unanswered.n)
		lowest = earlier(lowest, worker->chunks[queues->unanswered.first]);
	return lowest;
}

/*
 * Will the elements whose exponents this head chunk carries be sent soon? One window of data is in
 * flight, and another one leaves before the exponents can return.
 */
static bool data_are_near(const struct sml_worker *worker, const struct sml_tensor *tensor,
			  uint32_t head_index)
{
	uint32_t each = tensor->elements_per_chunk, n_stripes = worker->config.n_stripes;
	uint32_t chunks = (tensor->elements_per_head + each - 1) / each;
	uint64_t first =
		tensor->first[SML_DATA] + (uint64_t)head_index * tensor->elements_per_head / each;
	uint32_t ahead = HEADS_AHEAD * chunks / n_stripes;
	uint32_t needed = chunks / n_stripes + 2 * worker->flight.window;

	return sml_serial_before((uint32_t)(first / n_stripes),
				 lowest_data_chunk(worker) + (ahead > needed ? ahead : needed));
}

/*
 * How far this stripe is in its data chunks: the next one to send, less what the shards have in
 * flight if they share the chunks evenly. A lost packet holds back only its own slot.
 */
static uint32_t progress_of(const struct sml_worker *worker)
{
	const struct sml_queues *queues = &worker->streams[SML_DATA];
	uint32_t next = queues->waiting.n ? worker->chunks[queues->waiting.first] : queues->beyond;

	return next - (uint32_t)queues->unanswered.n * worker->config.n_shards;
}

void sml_team_add(struct sml_team *team, struct sml_worker *worker)
{
	sml_assert(team->n < SML_MAX_STRIPES);
	team->workers[team->n++] = worker;
	worker->team = team;
	worker->team_limit = progress_of(worker);
}

/*
 * May this stripe send the data chunk, or is it too far ahead of the rank's last one? The last one
 * is never held: its next chunk is less than a window after its progress. What is held waits until
 * several chunks may go, because they leave in one datagram. A window is one shard's, and chunks
 * are numbered in the stripe, of which each shard has its part.
 */
static bool team_allows(struct sml_worker *worker, uint32_t chunk)
{
	const struct sml_team *team = worker->team;
	uint32_t n_shards = worker->config.n_shards;
	uint32_t limit;

	/* What is in this process needs no link. */
	if (team == NULL || worker->config.local || sml_serial_before(chunk, worker->team_limit))
		return true;
	limit = progress_of(worker);
	for (unsigned i = 0; i < team->n; i++)
		limit = earlier(limit, progress_of(team->workers[i]));
	limit += (worker->flight.window + TEAM_AHEAD) * n_shards;
	if (!sml_serial_before(chunk + (TEAM_BATCH - 1) * n_shards, limit))
		return false;
	worker->team_limit = limit;
	return true;
}

static bool may_send(struct sml_worker *worker, enum sml_stream_id stream, uint32_t chunk,
		     const struct sml_tensor *tensor, uint32_t index)
{
	const struct sml_queues *queues = &worker->streams[stream];

	/* The rule against deadlock: the lowest chunk is always allowed. */
	if (queues->unanswered.n == 0 ||
	    sml_serial_before(chunk, worker->chunks[queues->unanswered.first]))
		return true;
	if ((uint32_t)worker->gathering.n + worker->in_flight.n + worker->lost.n >=
	    worker->flight.window)
		return false;
	if (stream == SML_DATA && !team_allows(worker, chunk))
		return false;
	return stream == SML_DATA || tensor->form != SML_FORM_EXPONENT ||
	       data_are_near(worker, tensor, index);
}

/*
 * Take the next slot of a stream off `waiting`: the slot with the lowest chunk, or none. Chunks
 * after one that lacks exponents may be ready here but not at another rank. They would fill this
 * rank's window, and be taken for lost, while the others are a block behind.
 */
static uint16_t next_in_stream(struct sml_worker *worker, enum sml_stream_id stream)
{
	struct sml_queues *queues = &worker->streams[stream];
	uint16_t slot = queues->waiting.first;
	struct sml_tensor *tensor;
	uint32_t chunk, index;

	if (slot == SML_NO_SLOT)
		return SML_NO_SLOT;
	chunk = worker->chunks[slot];
	tensor = sml_worker_find(worker, stream, chunk, &index);
	if (tensor == NULL) {
		/* Not submitted yet, like all chunks above it. Or done long ago? */
		if (sml_serial_before(chunk, worker->retired[stream]))
			sml_worker_break(worker);
		return SML_NO_SLOT;
	}
	if (!sml_tensor_chunk_is_ready(tensor, stream, index)) {
		worker->blocked = true;
		return SML_NO_SLOT;
	}
	if (!may_send(worker, stream, chunk, tensor, index))
		return SML_NO_SLOT;
	if (!sml_tensor_claim(tensor, stream, index)) {
		sml_worker_break(worker);
		return SML_NO_SLOT;
	}
	worker->slots[slot].tensor = tensor;
	worker->slots[slot].index = index;
	sml_tensor_describe_chunk(tensor, stream, index, &worker->slots[slot].sent);
	sml_list_remove(&queues->waiting, slot);
	sml_list_insert_sorted(&queues->unanswered, slot, worker->chunks);
	return slot;
}

/*
 * Packets sent well before one that has been answered are considered lost, as with TCP's third
 * duplicate acknowledgement and RACK (RFC 8985): they are a certain number of packets behind, and
 * older than a round trip and a quarter. The distance doubles with every transmission, because the
 * slot may be waiting for a slow rank. This is checked before sending, not at each result: any
 * result of a batch may be the next one.
 */
static void find_overtaken(struct sml_worker *worker, uint64_t now_ns)
{
	uint64_t age_ns = worker->rtt.smoothed_ns + worker->rtt.smoothed_ns / 4;
	uint32_t distance = worker->in_flight.n / 4u;
	uint16_t slot, next;

	distance = distance < 3 ? 3 : distance > 32 ? 32 : distance;
	for (slot = worker->in_flight.first; slot != SML_NO_SLOT; slot = next) {
		struct sml_worker_slot *state = &worker->slots[slot];
		uint32_t behind = worker->highest_answered - 1 - state->send_order;

		next = worker->send_links[slot].next;
		if ((int32_t)behind < (int32_t)distance || now_ns - state->sent_ns < age_ns)
			return;
		if (state->sends >= FAST_SENDS_MAX || behind < distance << (state->sends - 1))
			continue;
		sml_worker_lose(worker, slot, false);
		sml_flight_loss(&worker->flight);
	}
}

static uint16_t next_to_send(struct sml_worker *worker)
{
	uint16_t slot = worker->lost.first;

	if (slot != SML_NO_SLOT) {
		sml_list_remove(&worker->lost, slot);
		return slot;
	}
	slot = next_in_stream(worker, SML_HEAD);
	return slot != SML_NO_SLOT || worker->broken ? slot : next_in_stream(worker, SML_DATA);
}

static void write_header(const struct sml_worker *worker, uint16_t slot, struct sml_header *header)
{
	const struct sml_worker_config *config = &worker->config;
	const struct sml_contribution *out = &worker->slots[slot].sent;

	*header = (struct sml_header){
		.magic_be = sml_be16(SML_WIRE_MAGIC),
		.version = SML_WIRE_VERSION,
		.kind = SML_PACKET_CONTRIBUTION,
		.job_be = sml_be32(config->job),
		.key_be = sml_be64(config->cookie),
		.epoch_be = sml_be32(config->epoch),
		.use_be = sml_be32(worker->slots[slot].use),
		.chunk_be = sml_be32(sml_worker_stream_chunk(worker, worker->chunks[slot])),
		.digest_be = sml_be32(out->digest),
		.slot_be = sml_be16(sml_worker_slot_number(worker, slot)),
		.rank = config->number,
		.op = out->op,
		.lane_kind = out->lane_kind | out->omitted,
		.shard = config->shard,
		.lanes_be = sml_be16(out->lanes),
	};
}

/* The packet or row of this slot is being written. */
static void note_transmission(struct sml_worker *worker, uint16_t slot, uint64_t now_ns)
{
	struct sml_worker_slot *state = &worker->slots[slot];

	if (state->sends == 0)
		state->first_sent_ns = now_ns;
	else if (state->timed_out)
		worker->counters.retransmits_timeout++;
	else
		worker->counters.retransmits_fast++;
	if (state->sends < UINT8_MAX)
		state->sends++;
	state->place = SML_IN_FLIGHT;
	state->send_order = worker->send_order++;
	state->sent_ns = now_ns;
	sml_list_append(&worker->in_flight, slot);
	worker->counters.packets_sent++;
}

static uint16_t choose(struct sml_worker *worker, uint64_t now_ns)
{
	if (worker->frozen)
		return SML_NO_SLOT;
	if (worker->look_for_overtaken && !worker->config.no_fast_retransmit &&
	    !worker->config.local)
		find_overtaken(worker, now_ns);
	worker->look_for_overtaken = false;
	worker->blocked = false;
	return next_to_send(worker);
}

static void fill(struct sml_worker *worker, uint16_t slot, void *lanes)
{
	const struct sml_worker_slot *state = &worker->slots[slot];

	sml_tensor_fill(state->tensor, sml_worker_stream_of(worker, slot), state->index, lanes);
}

size_t sml_worker_send(struct sml_worker *worker, void *packet, uint64_t now_ns)
{
	uint16_t slot = choose(worker, now_ns);
	uint8_t *lanes;

	if (slot == SML_NO_SLOT)
		return 0;
	lanes = (uint8_t *)packet + SML_HEADER_BYTES;
	fill(worker, slot, lanes);
	note_transmission(worker, slot, now_ns);
	return sml_worker_write_header(worker, slot, packet, lanes);
}

/* Of dense tensors, no more than the first lanes are read. */
static bool are_zero(const uint32_t *lanes, uint32_t n)
{
	for (uint32_t i = 0; i < n; i += LANES_AT_ONCE) {
		uint32_t most = n - i < LANES_AT_ONCE ? n - i : LANES_AT_ONCE, any = 0;

		for (uint32_t k = 0; k < most; k++)
			any |= lanes[i + k];
		if (any)
			return false;
	}
	return n > 0;
}

size_t sml_worker_write_header(struct sml_worker *worker, uint16_t slot, void *packet,
			       const void *lanes)
{
	struct sml_contribution *sent = &worker->slots[slot].sent;
	size_t length;

	sent->omitted =
		worker->config.omits && sent->op != SML_LANE_MAX && are_zero(lanes, sent->lanes)
			? SML_LANES_OMITTED
			: 0;
	length = SML_HEADER_BYTES + sml_lane_bytes(sent->lanes, sent->omitted);
	write_header(worker, slot, packet);
	worker->counters.bytes_sent += length;
	return length;
}

uint16_t sml_worker_choose(struct sml_worker *worker, uint64_t now_ns)
{
	uint16_t slot = choose(worker, now_ns);

	if (slot == SML_NO_SLOT)
		return SML_NO_SLOT;
	if (worker->config.gathers && worker->slots[slot].sends == 0) {
		worker->slots[slot].place = SML_GATHERING;
		worker->slots[slot].first_sent_ns = now_ns;
		sml_list_append(&worker->gathering, slot);
	} else {
		note_transmission(worker, slot, now_ns);
	}
	return slot;
}

void sml_worker_launch(struct sml_worker *worker, uint16_t slot, uint64_t now_ns)
{
	sml_assert(worker->slots[slot].place == SML_GATHERING);
	sml_list_remove(&worker->gathering, slot);
	note_transmission(worker, slot, now_ns);
}

void sml_worker_insert(struct sml_worker *worker, uint16_t slot, void *lanes)
{
	const struct sml_worker_slot *state = &worker->slots[slot];

	sml_assert(state->place == SML_IN_FLIGHT);
	sml_tensor_insert(state->tensor, sml_worker_stream_of(worker, slot), state->index, lanes);
}

void sml_worker_fill(struct sml_worker *worker, uint16_t slot, void *lanes)
{
	sml_assert(worker->slots[slot].place ==
		   (worker->config.gathers ? SML_GATHERING : SML_IN_FLIGHT));
	fill(worker, slot, lanes);
}
