/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end host's state machine: one rank's side of one shard of slots on one switch (one stripe).
 * Sans I/O: it takes packets and the time, and returns packets and the next deadline. No sockets,
 * no clock, no threads, no allocation after init. The UDP transport, every other transport and the
 * simulator drive this same object.
 *
 * A rank has one worker for each (stripe, shard). Workers share only tensors. One thread at a time
 * may call into a worker. Chunks are numbered within the stripe here: chunk c of the whole stream
 * is c div n_stripes (tensor.h).
 *
 * The life of a slot in a worker:
 *
 *	          lowest that waits, sendable            result
 *	WAITING --------------------------------> IN FLIGHT -------> WAITING for the ticket's chunk
 *	                                           |     ^
 *	           timeout or later packets answered v     | sent again
 *	                                          LOST ----+
 *
 * Where ranks of one host share memory and one of them sends their sum (config.gathers), a slot of
 * that rank is GATHERING between WAITING and IN FLIGHT, until all of these ranks have contributed.
 *
 * Invariants: a slot has at most one packet in flight. A result is taken only if its epoch, tag,
 * slot and use match that packet. In each stream, the lowest chunk that can be sent is always
 * allowed, even beyond the window (otherwise two workers could wait for each other forever:
 * docs/internals/protocol.md).
 *
 * Timers: one, the retransmission timeout. Times are nanoseconds of any monotonic clock.
 */
#ifndef SML_CORE_WORKER_H
#define SML_CORE_WORKER_H

#include "core/flight.h"
#include "core/queue.h"
#include "core/rtt.h"
#include "core/tensor.h"

/* Tensors that a worker can hold at once. A power of two. */
#define SML_WORKER_TENSORS 1024

struct sml_worker_config {
	uint64_t cookie, tag;
	uint32_t job, epoch;
	struct sml_shape shape;
	uint16_t head_slots, data_slots; /* how many slots the whole stripe has */
	uint8_t shard, n_shards;
	uint8_t stripe, n_stripes;
	/* This rank's number at its switch, as in packets: without a tree, its rank. */
	uint8_t number;
	uint32_t window_max; /* how many packets in flight the path can hold */
	/* Switch a mechanism off, to measure its benefit. All ranks must agree on no_tickets. */
	bool no_tickets;
	bool no_fast_retransmit; /* there are no tail probes either: only the timer sends again */
	/*
	 * The slots are in this process: no packet is lost in between, so there is no timer and no
	 * window.
	 */
	bool local;
	/* No other switch will ever take over, so last results are not kept. */
	bool no_resume;
	bool omits; /* the switch takes packets without their lanes: SML_LANES_OMITTED */
	/* Packets have the sums of ranks that share memory: see sml_worker_launch(). */
	bool gathers;
};

/* Ticket k means chunk table[k] if k < n, and chunk after + k - n otherwise. */
struct sml_ticket_map {
	const uint32_t *table; /* ascending chunks, in the caller's memory until the epoch ends */
	uint32_t n;
	uint32_t after;
};

enum sml_slot_queue { SML_WAITING, SML_GATHERING, SML_IN_FLIGHT, SML_LOST };

/*
 * Where a slot's last result is, for a resume. If the slot's next chunk belongs to the same tensor,
 * the tensor cannot be done before that chunk is. So the result is still in the application's
 * buffer when the slot gets its next result, and needs no copy. sml_worker_freeze() copies what is
 * in buffers then, so a frozen worker has only copies.
 */
enum sml_kept { SML_KEPT_NONE, SML_KEPT_COPY, SML_KEPT_IN_BUFFER };

struct sml_worker_slot {
	uint32_t use;
	uint32_t ticket;
	uint32_t send_order; /* the last transmission's place in the order of all of them */
	uint64_t sent_ns;    /* when the last transmission was */
	uint64_t first_sent_ns;
	uint64_t again_before_ns; /* when the use before was last sent, if again; else 0 */
	uint8_t place;		  /* enum sml_slot_queue */
	uint8_t sends;		  /* how often this use was sent; stays at its maximum */
	uint8_t timed_out;	  /* it is LOST because of the timer, not of later answers */
	uint8_t kept;		  /* enum sml_kept: where the result of kept_chunk is */
	uint32_t kept_chunk;
	uint16_t kept_lanes;
	/*
	 * Valid from the chunk's claim until its result: a claimed chunk's tensor is not retired.
	 */
	struct sml_tensor *tensor;
	uint32_t index;		      /* the chunk's index in the tensor's window */
	struct sml_contribution sent; /* the packet's description of the chunk */
};

/* One stream's slots of this shard, as queues. */
struct sml_queues {
	uint16_t first_slot, n_slots; /* indices in the worker */
	/* Each slot is in one of these two, which ascend by chunk. */
	struct sml_list waiting;    /* the slots that are WAITING */
	struct sml_list unanswered; /* those that are GATHERING, IN_FLIGHT or LOST */
	struct sml_ticket_map map;
	uint16_t first_global; /* the slot number on the wire of first_slot */
	uint32_t beyond;       /* 1 + the highest chunk ever assigned, in any epoch */
	uint32_t tensor_hint;  /* where in `tensors` the last look-up ended */
};

struct sml_worker_counters {
	uint64_t packets_sent, packets_received;
	uint64_t bytes_sent, bytes_received;
	uint64_t retransmits_timeout, retransmits_fast;
	uint64_t ignored;
	uint64_t stalls;
};

/* The workers of a rank's stripes that one thread drives: none runs away from the others. */
struct sml_team {
	struct sml_worker *workers[SML_MAX_STRIPES];
	unsigned n;
};

struct sml_worker {
	struct sml_worker_config config;
	const struct sml_team *team; /* NULL if this stripe waits for no other */
	uint32_t team_limit;	     /* the team allows data chunks before this one */
	uint16_t n_slots;	 /* this shard's slots of both streams, those of the head first */
	bool frozen;		 /* it neither sends nor takes results */
	bool broken;		 /* it is frozen because the switch lied */
	bool look_for_overtaken; /* results have come since it last looked */
	bool blocked;		 /* the lowest data chunk had no exponents at its turn */
	struct sml_worker_slot *slots;
	uint32_t *chunks; /* the chunk that each slot serves next */
	struct sml_link *chunk_links, *send_links;
	struct sml_queues streams[SML_STREAMS];
	struct sml_list gathering; /* the slots that are GATHERING, in order of contributing */
	struct sml_list in_flight; /* those that are IN_FLIGHT, in order of sending */
	struct sml_list lost;	   /* those that are LOST, in order of loss */
	uint8_t *kept;		   /* the lanes of each slot's last result, if SML_KEPT_COPY */
	uint32_t kept_stride;
	uint32_t send_order;	   /* the place of the next transmission */
	uint32_t highest_answered; /* send_order + 1 of the latest-sent packet answered */
	uint64_t hold_timer_ns;	   /* no timeout before this */
	uint64_t heard_ns;	   /* when the last result came; 0 if none has */
	uint64_t heard_before_ns;  /* when the last result of an earlier time came */
	uint64_t gap_ns;	   /* this period's longest time without a result or a loss */
	uint64_t gap_before_ns;	   /* the same for the period before */
	uint64_t gap_since_ns;	   /* when this period began */
	uint8_t probes;		   /* tail probes since heard_ns; see sml_worker_deadline() */
	struct sml_rtt rtt;
	struct sml_flight flight;
	/* Tensors submitted and not yet retired, in order: [oldest, newest). */
	struct sml_tensor *tensors[SML_WORKER_TENSORS];
	struct sml_window windows[SML_WORKER_TENSORS]
				 [SML_STREAMS]; /* each tensor's part in this worker */
	uint32_t oldest, newest;
	uint32_t retired[SML_STREAMS]; /* all earlier chunks belong to retired tensors */
	struct sml_worker_counters counters;
};

/* Bytes of memory (64-byte aligned) that sml_worker_init() needs. */
size_t sml_worker_memory_bytes(const struct sml_worker_config *config);

void sml_worker_init(struct sml_worker *worker, const struct sml_worker_config *config,
		     void *memory);

/*
 * Let a worker keep pace with others. Stripes that share links drift apart otherwise, and a call
 * ends with the stripes that are behind, on half-empty links. Only for workers that are never
 * replaced. The team must live as long as its workers.
 */
void sml_team_add(struct sml_team *team, struct sml_worker *worker);

/*
 * Submit the next tensor in call order. False if SML_WORKER_TENSORS tensors are unfinished; try
 * again after sml_worker_retire(). The tensor must outlive its retirement.
 */
bool sml_worker_submit(struct sml_worker *worker, struct sml_tensor *tensor);

static inline bool sml_worker_has_room(const struct sml_worker *worker)
{
	return worker->newest - worker->oldest < SML_WORKER_TENSORS;
}

/*
 * Returns the oldest tensor if it is done, and does not access it again; otherwise NULL. A tensor
 * is done for its caller when all its chunks are (sml_tensor_is_done()); that can be before all
 * workers have retired it.
 */
struct sml_tensor *sml_worker_retire(struct sml_worker *worker);

/* What a packet was. One that is ignored changes nothing but a counter. */
enum sml_worker_verdict {
	SML_WORKER_RESULT,  /* it brought a chunk's result */
	SML_WORKER_TENSOR,  /* the same, and it was a tensor's last chunk */
	SML_WORKER_IGNORED, /* it was stale, a duplicate, foreign or malformed */
};

/* Process a packet, 4-byte aligned. length is that of the UDP payload. */
enum sml_worker_verdict sml_worker_receive(struct sml_worker *worker, const void *packet,
					   size_t length, uint64_t now_ns);

/*
 * Write the next packet to send to `packet` (4-byte aligned, with room for a full packet). Returns
 * its length, or 0 if there is nothing to send now. Lanes are quantized directly into it.
 */
size_t sml_worker_send(struct sml_worker *worker, void *packet, uint64_t now_ns);

/*
 * The same three steps where ranks share the slots' memory (lib/host/), so that there are no
 * packets: choose a slot to contribute to now (or SML_NO_SLOT); write its lanes, as many as
 * slots[slot].sent says; and when all ranks have done so, take the combined lanes and the ticket.
 * Only with config.local. Take slots in any order, each once.
 */
uint16_t sml_worker_choose(struct sml_worker *worker, uint64_t now_ns);
void sml_worker_fill(struct sml_worker *worker, uint16_t slot, void *lanes);
/* Instead of filling: write only this rank's own bytes, if sml_tensor_is_inserted(). */
void sml_worker_insert(struct sml_worker *worker, uint16_t slot, void *lanes);
enum sml_worker_verdict sml_worker_take(struct sml_worker *worker, uint16_t slot, uint32_t ticket,
					const void *lanes, uint64_t now_ns);

/*
 * With config.gathers, a chosen slot is GATHERING or IN_FLIGHT. Write the lanes of a GATHERING
 * slot; send the packet of one that is IN_FLIGHT again. When the sum of a GATHERING slot is
 * complete, launch it, and send its packet: the caller has the sum, and appends it to the header.
 * Results come back through sml_worker_receive().
 */
void sml_worker_launch(struct sml_worker *worker, uint16_t slot, uint64_t now_ns);
/*
 * Returns the length of the packet. lanes are those that follow the header. If all are zero, none
 * follows, and the length says so.
 */
size_t sml_worker_write_header(struct sml_worker *worker, uint16_t slot, void *packet,
			       const void *lanes);
/* The lanes of a result, which may have omitted them. */
const void *sml_worker_lanes(const void *packet);
/* The slot whose packet this answers, or SML_NO_SLOT if sml_worker_receive() would ignore it. */
uint16_t sml_worker_answered(const struct sml_worker *worker, const void *packet, size_t length);

/* When to call sml_worker_expire(), or UINT64_MAX if not before a packet comes. */
uint64_t sml_worker_deadline(const struct sml_worker *worker);

/* The deadline has passed: sml_worker_send() will send the timed-out packets again. */
void sml_worker_expire(struct sml_worker *worker, uint64_t now_ns);

/*
 * When sml_worker_send() last returned 0, was it because exponents were missing? Another shard or
 * stripe may bring them, so try again soon. If it did not return 0, the answer is unspecified.
 */
bool sml_worker_is_blocked(const struct sml_worker *worker);

/*
 * Stop for good: the worker no longer sends or takes results. This is the first step of continuing
 * with another switch (resume.h), and a failed call does it before it returns its buffers.
 */
void sml_worker_freeze(struct sml_worker *worker);

/*
 * The submitted tensor that a chunk belongs to, and its index in the tensor's window. NULL if the
 * tensor is not here yet, or no longer here.
 */
struct sml_tensor *sml_worker_find(struct sml_worker *worker, enum sml_stream_id stream,
				   uint32_t chunk, uint32_t *index);

/* The lower half of a chunk's number in the whole stream, as in packets and error texts. */
static inline uint32_t sml_worker_stream_chunk(const struct sml_worker *worker, uint32_t chunk)
{
	return chunk * worker->config.n_stripes + worker->config.stripe;
}

static inline enum sml_stream_id sml_worker_stream_of(const struct sml_worker *worker,
						      uint16_t slot)
{
	return slot < worker->streams[SML_DATA].first_slot ? SML_HEAD : SML_DATA;
}

/* A slot's number in the job, as in packets. */
static inline uint16_t sml_worker_slot_number(const struct sml_worker *worker, uint16_t slot)
{
	const struct sml_queues *queues = &worker->streams[sml_worker_stream_of(worker, slot)];

	return (uint16_t)(queues->first_global +
			  (slot - queues->first_slot) * worker->config.n_shards);
}

/* The slot with this number, or SML_NO_SLOT if it is not one of this worker's. */
static inline uint16_t sml_worker_slot_of_number(const struct sml_worker *worker, uint32_t number)
{
	const struct sml_worker_config *config = &worker->config;
	const struct sml_queues *queues =
		&worker->streams[number < config->head_slots ? SML_HEAD : SML_DATA];
	uint32_t index = (number - queues->first_global) / config->n_shards;

	if (number < queues->first_global || number % config->n_shards != config->shard ||
	    index >= queues->n_slots)
		return SML_NO_SLOT;
	return (uint16_t)(queues->first_slot + index);
}

/* Give a fresh worker another meaning of its tickets, and the chunks assigned before it. */
void sml_worker_set_map(struct sml_worker *worker, enum sml_stream_id stream,
			const struct sml_ticket_map *map, uint32_t beyond);

/*
 * Did the switch give out a chunk twice, or one that is done? Our switches never do. The worker is
 * then frozen, and the calls cannot complete.
 */
bool sml_worker_is_broken(const struct sml_worker *worker);

/* Is anything unanswered? */
bool sml_worker_is_busy(const struct sml_worker *worker);

#endif
