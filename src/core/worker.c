/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end host's state: set-up, tensors, time. worker_send.c and
 * worker_receive.c are the two directions; worker.h draws the life of a slot.
 */
#include "core/worker_internal.h"

/* After a timeout, at most this many packets are sent again at once; the others wait their turn. */
#define EXPIRE_BURST 16
/* At most: packets that a tail probe sends again, and probes in a row without an answer. */
#define PROBE_BURST 4
#define PROBES_MAX  4

#define ROUND_UP_64(n) (((n) + 63) & ~(size_t)63)

/* ---- set-up ---- */

static uint16_t first_of_shard(const struct sml_worker_config *config, uint16_t from)
{
	uint16_t behind = (uint16_t)(from % config->n_shards);

	return (uint16_t)(from + (config->shard + config->n_shards - behind) % config->n_shards);
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
	       ROUND_UP_64(n * sizeof(uint32_t)) + 2 * ROUND_UP_64(n * sizeof(struct sml_link));
}

static void *carve(uint8_t **memory, size_t bytes)
{
	void *piece = *memory;

	*memory += ROUND_UP_64(bytes);
	return piece;
}

/*
 * Tickets wrap around and must not mean the table again, so forget the table once it is far behind.
 */
static void forget_table(struct sml_ticket_map *map, uint32_t ticket)
{
	if (ticket - map->n < UINT32_MAX / 4 || ticket - map->n > UINT32_MAX / 2)
		return;
	map->after -= map->n;
	map->n = 0;
}

static uint32_t chunk_of_ticket(const struct sml_ticket_map *map, uint32_t ticket)
{
	if (ticket < map->n)
		return map->table[ticket];
	return map->after + (ticket - map->n);
}

void sml_worker_assign(struct sml_worker *worker, enum sml_stream_id stream, uint16_t slot,
		       uint32_t ticket)
{
	struct sml_queues *queues = &worker->streams[stream];
	uint32_t chunk;

	if (queues->map.n > 0)
		forget_table(&queues->map, ticket);
	chunk = chunk_of_ticket(&queues->map, ticket);

	worker->slots[slot].ticket = ticket;
	worker->slots[slot].place = SML_WAITING;
	worker->chunks[slot] = chunk;
	queues->beyond = sml_serial_max(queues->beyond, chunk + 1);
	sml_list_insert_sorted(&queues->waiting, slot, worker->chunks);
}

/* Slot i's first use has ticket i of its stream, without a draw. */
static void assign_first_uses(struct sml_worker *worker, enum sml_stream_id stream)
{
	const struct sml_queues *queues = &worker->streams[stream];
	uint16_t from = stream == SML_HEAD ? 0 : worker->config.head_slots;

	for (uint16_t i = 0; i < queues->n_slots; i++)
		sml_worker_assign(
			worker, stream, (uint16_t)(queues->first_slot + i),
			(uint32_t)(queues->first_global + i * worker->config.n_shards - from));
}

static void init_stream(struct sml_worker *worker, enum sml_stream_id stream, uint16_t first_slot)
{
	const struct sml_worker_config *config = &worker->config;
	uint16_t from = stream == SML_HEAD ? 0 : config->head_slots;
	uint16_t of_stream = stream == SML_HEAD ? config->head_slots : config->data_slots;
	struct sml_queues *queues = &worker->streams[stream];

	*queues = (struct sml_queues){
		.first_slot = first_slot,
		.n_slots = slots_of_shard(config, from, of_stream),
		.first_global = first_of_shard(config, from),
	};
	sml_list_init(&queues->waiting, worker->chunk_links);
	sml_list_init(&queues->unanswered, worker->chunk_links);
	for (uint16_t i = 0; i < queues->n_slots; i++)
		worker->slots[first_slot + i] = (struct sml_worker_slot){0};
	assign_first_uses(worker, stream);
}

void sml_worker_set_map(struct sml_worker *worker, enum sml_stream_id stream,
			const struct sml_ticket_map *map, uint32_t beyond)
{
	struct sml_queues *queues = &worker->streams[stream];

	sml_assert(queues->waiting.n == queues->n_slots);
	sml_list_init(&queues->waiting, worker->chunk_links);
	queues->map = *map;
	queues->beyond = beyond;
	assign_first_uses(worker, stream);
}

void sml_worker_init(struct sml_worker *worker, const struct sml_worker_config *config,
		     void *memory)
{
	uint16_t n = n_slots_of(config);
	uint8_t *place = memory;

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
	sml_list_init(&worker->gathering, worker->send_links);
	sml_list_init(&worker->in_flight, worker->send_links);
	sml_list_init(&worker->lost, worker->send_links);
	init_stream(worker, SML_HEAD, 0);
	init_stream(worker, SML_DATA, worker->streams[SML_HEAD].n_slots);
	sml_rtt_init(&worker->rtt);
	sml_flight_init(&worker->flight, config->window_max < n ? config->window_max : n,
			SML_HEADER_BYTES + 4u * config->shape.lanes, config->shape.n_ranks,
			config->n_stripes, (unsigned)config->n_stripes * config->n_shards);
	if (config->local)
		worker->flight.window = n;
}

/* ---- tensors ---- */

static const struct sml_window *window_at(const struct sml_worker *worker, uint32_t position,
					  enum sml_stream_id stream)
{
	return &worker->windows[position % SML_WORKER_TENSORS][stream];
}

bool sml_worker_submit(struct sml_worker *worker, struct sml_tensor *tensor)
{
	if (!sml_worker_has_room(worker))
		return false;
	for (enum sml_stream_id stream = SML_HEAD; stream < SML_STREAMS; stream++)
		worker->windows[worker->newest % SML_WORKER_TENSORS][stream] =
			sml_tensor_stripe_window(tensor, stream, worker->config.stripe,
						 worker->config.n_stripes);
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
	for (enum sml_stream_id stream = SML_HEAD; stream < SML_STREAMS; stream++) {
		const struct sml_window *window = window_at(worker, worker->oldest, stream);

		worker->retired[stream] = window->first + window->count;
	}
	worker->oldest++;
	return tensor;
}

/* The position of the last tensor whose window begins at or before the chunk. */
static bool find_position(const struct sml_worker *worker, enum sml_stream_id stream,
			  uint32_t chunk, uint32_t *position)
{
	uint32_t low = 0, high = worker->newest - worker->oldest;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (sml_serial_before(chunk,
				      window_at(worker, worker->oldest + middle, stream)->first))
			high = middle;
		else
			low = middle + 1;
	}
	*position = worker->oldest + low - 1;
	return low > 0;
}

static bool owns(const struct sml_worker *worker, uint32_t position, enum sml_stream_id stream,
		 uint32_t chunk)
{
	const struct sml_window *window = window_at(worker, position, stream);

	return position - worker->oldest < worker->newest - worker->oldest &&
	       chunk - window->first < window->count;
}

struct sml_tensor *sml_worker_find(struct sml_worker *worker, enum sml_stream_id stream,
				   uint32_t chunk, uint32_t *index)
{
	uint32_t *hint = &worker->streams[stream].tensor_hint;
	struct sml_tensor *tensor;

	if (!owns(worker, *hint, stream, chunk) &&
	    (!find_position(worker, stream, chunk, hint) || !owns(worker, *hint, stream, chunk)))
		return NULL;
	tensor = worker->tensors[*hint % SML_WORKER_TENSORS];
	*index = sml_worker_stream_chunk(worker, chunk) - tensor->window[stream].first;
	return tensor;
}

/* ---- time ---- */

/*
 * When to probe the tail. No result follows those of a call's last packets, so nothing shows that
 * they are lost, and the timeout covers the queues of a full window, which are empty by then.
 * When nothing has come or gone for a while, the oldest packets are therefore sent again, as TCP's
 * tail loss probe does (RFC 8985). Probes are few and become rarer, because another rank may be
 * late. Between groups of results, as segmentation offloads make them, nothing is lost: the wait is
 * longer than the gaps seen lately, and there is no probe until gaps were seen for a whole period.
 * While the window is full, this is no tail, and the timeout covers the queues.
 */
static uint64_t probe_deadline(const struct sml_worker *worker)
{
	uint64_t quiet_since_ns = worker->slots[worker->in_flight.last].sent_ns;
	uint64_t wait_ns = 2 * worker->rtt.min_ns;
	uint64_t gap_ns =
		worker->gap_ns > worker->gap_before_ns ? worker->gap_ns : worker->gap_before_ns;

	if (worker->config.no_fast_retransmit || worker->probes >= PROBES_MAX ||
	    worker->lost.n > 0 || worker->gap_before_ns == 0 ||
	    worker->in_flight.n >= worker->flight.window)
		return UINT64_MAX;
	if (worker->heard_ns > quiet_since_ns)
		quiet_since_ns = worker->heard_ns;
	if (wait_ns < SML_RTT_MIN_RTO_NS)
		wait_ns = SML_RTT_MIN_RTO_NS;
	if (wait_ns < gap_ns + gap_ns / 2)
		wait_ns = gap_ns + gap_ns / 2;
	return quiet_since_ns + (wait_ns << worker->probes);
}

static uint64_t timeout_deadline(const struct sml_worker *worker)
{
	uint64_t deadline_ns = worker->slots[worker->in_flight.first].sent_ns + worker->rtt.rto_ns;

	return deadline_ns > worker->hold_timer_ns ? deadline_ns : worker->hold_timer_ns;
}

uint64_t sml_worker_deadline(const struct sml_worker *worker)
{
	uint64_t timeout_ns, probe_ns;

	if (worker->frozen || worker->in_flight.n == 0 || worker->config.local)
		return UINT64_MAX;
	timeout_ns = timeout_deadline(worker);
	probe_ns = probe_deadline(worker);
	return probe_ns < timeout_ns ? probe_ns : timeout_ns;
}

void sml_worker_lose(struct sml_worker *worker, uint16_t slot, bool timed_out)
{
	sml_list_remove(&worker->in_flight, slot);
	sml_list_append(&worker->lost, slot);
	worker->slots[slot].place = SML_LOST;
	worker->slots[slot].timed_out = timed_out;
}

/* The oldest packets come first and go to the back of the line, so that all get a turn. */
void sml_worker_expire(struct sml_worker *worker, uint64_t now_ns)
{
	if (now_ns < sml_worker_deadline(worker))
		return;
	if (now_ns < timeout_deadline(worker)) {
		for (unsigned n = 0; n < PROBE_BURST && worker->in_flight.n > 0; n++)
			sml_worker_lose(worker, worker->in_flight.first, true);
		worker->probes++;
		return;
	}
	worker->counters.stalls++;
	for (unsigned n = 0; n < EXPIRE_BURST && worker->in_flight.n > 0; n++) {
		if (worker->slots[worker->in_flight.first].sent_ns + worker->rtt.rto_ns > now_ns)
			break;
		sml_worker_lose(worker, worker->in_flight.first, true);
	}
	worker->hold_timer_ns = now_ns + sml_rtt_timeout(&worker->rtt);
	sml_rtt_back_off(&worker->rtt);
}

/*
 * The tensor that this slot's last result and its next chunk belong to, with the next chunk claimed
 * (at *next), so that the application does not get the buffer back meanwhile. NULL: the switch
 * lied, because another slot has sent that chunk.
 */
static struct sml_tensor *hold_tensor(struct sml_worker *worker, uint16_t slot, uint32_t *next)
{
	const struct sml_worker_slot *state = &worker->slots[slot];
	struct sml_tensor *tensor;

	if (state->place != SML_WAITING) {
		*next = state->index;
		return state->tensor;
	}
	tensor = sml_worker_find(worker, SML_DATA, worker->chunks[slot], next);
	return tensor && sml_tensor_claim(tensor, SML_DATA, *next) ? tensor : NULL;
}

/* The slot's last result is in a buffer: copy it. */
static void copy_kept(struct sml_worker *worker, uint16_t slot)
{
	struct sml_worker_slot *state = &worker->slots[slot];
	uint32_t next, index;
	struct sml_tensor *tensor = hold_tensor(worker, slot, &next);

	state->kept = SML_KEPT_NONE;
	if (tensor == NULL)
		return;
	if (sml_worker_find(worker, SML_DATA, state->kept_chunk, &index) == tensor &&
	    sml_tensor_recover(tensor, index, worker->kept + (size_t)slot * worker->kept_stride))
		state->kept = SML_KEPT_COPY;
	if (state->place == SML_WAITING)
		sml_tensor_release(tensor, SML_DATA, next);
}

/* In another epoch, any slot may send a chunk that has no result. */
static void release_claims(struct sml_worker *worker, enum sml_stream_id stream)
{
	uint16_t slot = worker->streams[stream].unanswered.first;

	for (; slot != SML_NO_SLOT; slot = worker->chunk_links[slot].next)
		sml_tensor_release(worker->slots[slot].tensor, stream, worker->slots[slot].index);
}

void sml_worker_freeze(struct sml_worker *worker)
{
	if (worker->frozen)
		return;
	worker->frozen = true;
	for (uint16_t slot = 0; slot < worker->n_slots; slot++)
		if (worker->slots[slot].kept == SML_KEPT_IN_BUFFER)
			copy_kept(worker, slot);
	release_claims(worker, SML_HEAD);
	release_claims(worker, SML_DATA);
}

void sml_worker_break(struct sml_worker *worker)
{
	worker->broken = true;
	sml_worker_freeze(worker);
}

bool sml_worker_is_broken(const struct sml_worker *worker)
{
	return worker->broken;
}

bool sml_worker_is_blocked(const struct sml_worker *worker)
{
	return worker->blocked;
}

bool sml_worker_is_busy(const struct sml_worker *worker)
{
	return worker->gathering.n + worker->in_flight.n + worker->lost.n > 0;
}
