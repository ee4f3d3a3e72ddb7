/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Incoming packets: is this the answer to the packet in flight, and what follows from it? The
 * paper's algorithm 4, with the result's ticket instead of "chunk + number of slots".
 */
#include "core/worker_internal.h"

/* Gaps between results are remembered for this long, at least. */
#define GAP_PERIOD_NS 50000000ull

/* Doublings of the timeout that remain after an answer to a retransmitted packet. */
#define AMBIGUOUS_BACKOFF 2

/* The slot of any result of this epoch, or SML_NO_SLOT. */
static uint16_t slot_of_result(const struct sml_worker *worker, const struct sml_header *header,
			       size_t length)
{
	const struct sml_worker_config *config = &worker->config;

	if (worker->frozen || length < SML_HEADER_BYTES ||
	    header->magic_be != sml_be16(SML_WIRE_MAGIC) || header->version != SML_WIRE_VERSION ||
	    header->kind != SML_PACKET_RESULT || header->job_be != sml_be32(config->job) ||
	    header->epoch_be != sml_be32(config->epoch) || header->key_be != sml_be64(config->tag))
		return SML_NO_SLOT;
	return sml_worker_slot_of_number(worker, sml_be16(header->slot_be));
}

/*
 * Is it the answer to the packet in flight? A sum can only be without lanes if this rank's part is.
 */
static bool answers(const struct sml_worker_slot *state, const struct sml_header *header,
		    size_t length)
{
	const struct sml_contribution *sent = &state->sent;
	uint8_t omitted = header->lane_kind & sent->omitted;

	return (state->place == SML_IN_FLIGHT || state->place == SML_LOST) &&
	       state->use == sml_be32(header->use_be) &&
	       length == SML_HEADER_BYTES + sml_lane_bytes(sent->lanes, omitted) &&
	       header->lanes_be == sml_be16(sent->lanes) && header->op == sent->op &&
	       header->lane_kind == (sent->lane_kind | omitted) &&
	       header->digest_be == sml_be32(sent->digest);
}

/*
 * Answers come again. An answer to a packet that was sent once ends the stall, because it gives the
 * round-trip time. Any other answer may belong to the first transmission, because the timeout is
 * too short for the path. So it leaves some of the backoff in force, or the timeout would stay too
 * short. It does not leave all of it: with loss and many ranks, few packets are answered the first
 * time.
 */
static void end_stall(struct sml_worker *worker, bool sent_once, uint64_t now_ns)
{
	uint8_t most = sent_once ? 0 : AMBIGUOUS_BACKOFF;
	uint64_t hold_ns;

	if (worker->rtt.backoff <= most)
		return;
	worker->rtt.backoff = most;
	/* The packets still in flight get another round trip. */
	hold_ns = now_ns + sml_rtt_timeout(&worker->rtt);
	if (hold_ns < worker->hold_timer_ns || sent_once)
		worker->hold_timer_ns = hold_ns;
}

/*
 * Is the timeout too short for the path? Then every packet is sent twice before it is answered, and
 * Karn's rule would never let the timeout grow. Whichever transmission this answers, the round trip
 * took at least the time since the last one. Only a time longer than the timeout counts, and only
 * after timeouts in a row without a clear answer: with loss there are clear answers, and others'
 * losses delay the unclear ones.
 */
static bool shows_short_timeout(const struct sml_worker *worker,
				const struct sml_worker_slot *state, uint64_t now_ns)
{
	return worker->rtt.backoff >= AMBIGUOUS_BACKOFF &&
	       now_ns - state->sent_ns > worker->rtt.rto_ns;
}

static void measure(struct sml_worker *worker, const struct sml_worker_slot *state,
		    uint8_t last_rank, uint64_t now_ns)
{
	uint64_t since_ns = now_ns - state->sent_ns;
	/* Karn: it is only known which transmission was answered if there was only one. */
	bool sent_once = state->sends == 1;

	if (sent_once || shows_short_timeout(worker, state, now_ns))
		sml_rtt_sample(&worker->rtt, since_ns, last_rank == worker->config.number, now_ns);
	end_stall(worker, sent_once, now_ns);
	if (!worker->config.local)
		sml_flight_result(&worker->flight, sent_once ? since_ns : UINT64_MAX,
				  worker->rtt.min_ns);
}

/*
 * If this is another answer to the last use (as in D-SACK, RFC 2883), the switch sent it for one of
 * this rank's transmissions. So the round trip took at least the time since the last of them, and
 * no other rank was waited for. After a loss, that is short. Where a queue is long, all packets
 * could be sent again and again, and only these answers show it. One sample at most doubles the
 * timeout: the network may have copied the answer, or this thread have stood still.
 */
static void measure_late(struct sml_worker *worker, const void *packet, size_t length,
			 uint64_t now_ns)
{
	const struct sml_header *header = packet;
	uint16_t slot = slot_of_result(worker, packet, length);
	const struct sml_worker_slot *state;
	uint64_t since_ns;

	if (slot == SML_NO_SLOT)
		return;
	state = &worker->slots[slot];
	since_ns = now_ns - state->again_before_ns;
	if (state->again_before_ns != 0 && state->use - 1 == sml_be32(header->use_be) &&
	    since_ns > worker->rtt.rto_ns)
		sml_rtt_sample(&worker->rtt,
			       since_ns < 2 * worker->rtt.rto_ns ? since_ns
								 : 2 * worker->rtt.rto_ns,
			       true, now_ns);
}

/*
 * Results come in groups, as segmentation offloads glue them, all at one time. The gap before a
 * group that answers a packet sent once is not a loss of this rank's. The longest gap counts, for
 * one period to two.
 */
static void note_gap(struct sml_worker *worker, const struct sml_worker_slot *state,
		     uint64_t now_ns)
{
	uint64_t since_ns, gap_ns;

	/* Packets that were sent again may come first in a group. */
	if (now_ns > worker->heard_ns) {
		worker->heard_before_ns = worker->heard_ns;
		worker->heard_ns = now_ns;
		worker->probes = 0;
	}
	if (now_ns - worker->gap_since_ns > GAP_PERIOD_NS) {
		worker->gap_before_ns = worker->gap_ns;
		worker->gap_ns = 0;
		worker->gap_since_ns = now_ns;
	}
	if (state->sends != 1)
		return;
	since_ns = worker->heard_before_ns;
	if (state->first_sent_ns > since_ns)
		since_ns = state->first_sent_ns;
	gap_ns = now_ns - since_ns;
	if (gap_ns > SML_RTT_STRAGGLER_NS)
		gap_ns = SML_RTT_STRAGGLER_NS;
	if (gap_ns > worker->gap_ns)
		worker->gap_ns = gap_ns;
}

/* Is the slot's next chunk one of the tensor's? */
static bool stays_in(const struct sml_worker *worker, enum sml_stream_id stream, uint16_t slot,
		     const struct sml_tensor *tensor)
{
	const struct sml_window *window = &tensor->window[stream];

	return sml_worker_stream_chunk(worker, worker->chunks[slot]) - window->first <
	       window->count;
}

/* A resume hands this result of a chunk over to ranks that lack it. The slot has its next chunk. */
static void keep(struct sml_worker *worker, enum sml_stream_id stream, uint16_t slot,
		 uint32_t chunk, const void *lanes)
{
	struct sml_worker_slot *state = &worker->slots[slot];

	state->kept_chunk = chunk;
	state->kept_lanes = state->sent.lanes;
	state->kept = SML_KEPT_IN_BUFFER;
	if (stream == SML_DATA && state->tensor->recoverable &&
	    stays_in(worker, stream, slot, state->tensor))
		return;
	__builtin_memcpy(worker->kept + (size_t)slot * worker->kept_stride, lanes,
			 4u * state->sent.lanes);
	state->kept = SML_KEPT_COPY;
}

/* The slot has its result: forget the packet, keep the result, and go to the next chunk. */
static void advance(struct sml_worker *worker, enum sml_stream_id stream, uint16_t slot,
		    uint32_t ticket, const void *lanes)
{
	struct sml_queues *queues = &worker->streams[stream];
	struct sml_worker_slot *state = &worker->slots[slot];
	uint32_t chunk = worker->chunks[slot];
	uint16_t of_stream =
		stream == SML_HEAD ? worker->config.head_slots : worker->config.data_slots;

	sml_list_remove(state->place == SML_LOST ? &worker->lost : &worker->in_flight, slot);
	sml_list_remove(&queues->unanswered, slot);
	state->again_before_ns = state->sends > 1 ? state->sent_ns : 0;
	state->use++;
	state->sends = 0;
	sml_worker_assign(worker, stream, slot,
			  worker->config.no_tickets ? state->ticket + of_stream : ticket);
	if (!worker->config.no_resume)
		keep(worker, stream, slot, chunk, lanes);
}

/* The lanes of the packet in flight, combined. */
static enum sml_worker_verdict take(struct sml_worker *worker, uint16_t slot, uint32_t ticket,
				    uint8_t last_rank, const void *lanes, uint64_t now_ns)
{
	const struct sml_worker_slot *state = &worker->slots[slot];
	enum sml_stream_id stream = sml_worker_stream_of(worker, slot);
	bool last = sml_tensor_take(state->tensor, stream, state->index, lanes);

	measure(worker, state, last_rank, now_ns);
	if (!worker->config.local)
		note_gap(worker, state, now_ns);
	/* Karn's rule here too: the answer may be to a transmission before the last. */
	if (state->sends == 1)
		worker->highest_answered =
			sml_serial_max(worker->highest_answered, state->send_order + 1);
	worker->look_for_overtaken = true;
	advance(worker, stream, slot, ticket, lanes);
	return last ? SML_WORKER_TENSOR : SML_WORKER_RESULT;
}

uint16_t sml_worker_answered(const struct sml_worker *worker, const void *packet, size_t length)
{
	uint16_t slot = slot_of_result(worker, packet, length);

	if (slot == SML_NO_SLOT || !answers(&worker->slots[slot], packet, length))
		return SML_NO_SLOT;
	return slot;
}

const void *sml_worker_lanes(const void *packet)
{
	static const uint32_t zeros[SML_MAX_LANES];
	const struct sml_header *header = packet;

	return header->lane_kind & SML_LANES_OMITTED ? (const void *)zeros : header + 1;
}

enum sml_worker_verdict sml_worker_receive(struct sml_worker *worker, const void *packet,
					   size_t length, uint64_t now_ns)
{
	const struct sml_header *header = packet;
	uint16_t slot = sml_worker_answered(worker, packet, length);

	worker->counters.packets_received++;
	worker->counters.bytes_received += length;
	if (slot == SML_NO_SLOT) {
		worker->counters.ignored++;
		measure_late(worker, packet, length, now_ns);
		return SML_WORKER_IGNORED;
	}
	return take(worker, slot, sml_be32(header->chunk_be), header->rank,
		    sml_worker_lanes(packet), now_ns);
}

enum sml_worker_verdict sml_worker_take(struct sml_worker *worker, uint16_t slot, uint32_t ticket,
					const void *lanes, uint64_t now_ns)
{
	if (worker->frozen)
		return SML_WORKER_IGNORED;
	sml_assert(worker->slots[slot].place == SML_IN_FLIGHT);
	worker->counters.packets_received++;
	return take(worker, slot, ticket, worker->config.number, lanes, now_ns);
}
