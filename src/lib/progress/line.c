/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "lib/progress/line.h"

#include <stdlib.h>

#include "base/clock.h"
#include "lib/progress/request.h"
#include "lib/trace/trace.h"

struct sml_line *sml_line_new(struct sml_transport *transport, struct sml_embedded_stripe *own)
{
	struct sml_line *line = calloc(1, sizeof(*line));

	if (line == NULL)
		return NULL;
	if (transport)
		line->out.bytes = aligned_alloc(64, SML_BATCH_BYTES);
	if (transport && line->out.bytes == NULL) {
		free(line);
		return NULL;
	}
	line->transport = transport;
	line->own = own;
	return line;
}

void sml_line_free(struct sml_line *line)
{
	if (line == NULL)
		return;
	if (line->transport)
		line->transport->ops->close(line->transport);
	free(line->out.bytes);
	free(line);
}

/*
 * Between ranks, packets to one rank leave together: at least this many, or after waiting at most
 * this long for each other.
 */
#define MANY_PACKETS 24
#define HOLD_NS	     300000ull

/* ---- results, on any path ---- */

/*
 * Can other threads be waiting for a result that the worker took? Yes for the head stream, and for
 * upper halves of 64-bit elements, which have the op MAX (core/tensor.h).
 */
static bool may_unblock(const struct sml_shard *shard, const struct sml_header *header)
{
	return sml_be16(header->slot_be) < shard->worker.config.head_slots ||
	       header->op == SML_LANE_MAX;
}

/*
 * With a trace: note what the worker forgets with the result. now_ns is that of a whole round, and
 * the result may be younger; but a trace must not have a result before another rank has sent.
 */
__attribute__((cold, noinline)) static enum sml_worker_verdict
take_traced(struct sml_shard *shard, const void *packet, uint32_t length, uint64_t now_ns)
{
	struct sml_trace *trace = shard->line->trace;
	struct sml_worker *worker = &shard->worker;
	const struct sml_tensor *tensor;
	const struct sml_request *request;
	enum sml_worker_verdict verdict;
	struct sml_trace_event event;

	if (!sml_trace_note_result(&event, worker, packet, length, sml_now_ns()))
		return sml_worker_receive(worker, packet, length, now_ns);
	tensor = worker->slots[sml_worker_slot_of_number(worker, event.slot)].tensor;
	verdict = sml_worker_receive(worker, packet, length, now_ns);
	if (verdict != SML_WORKER_IGNORED)
		sml_trace_add(trace, &event);
	if (verdict == SML_WORKER_TENSOR) {
		/* The worker still has the tensor: this thread retires it later. */
		request = tensor->owner;
		sml_trace_call(trace, tensor, request->begun_ns, event.end_ns, false);
	}
	return verdict;
}

static void take_result(struct sml_shard *shard, const void *packet, uint32_t length,
			uint64_t now_ns, struct sml_wakeups *wakeups)
{
	enum sml_worker_verdict verdict;

	if (shard->line->host)
		sml_host_line_publish(shard, packet, length);
	verdict = shard->line->trace ? take_traced(shard, packet, length, now_ns)
				     : sml_worker_receive(&shard->worker, packet, length, now_ns);
	if (verdict != SML_WORKER_IGNORED)
		sml_shard_note_passed(shard, length);
	sml_line_note(shard, verdict, may_unblock(shard, packet), wakeups);
}

void sml_line_note(struct sml_shard *shard, enum sml_worker_verdict verdict, bool may_unblock,
		   struct sml_wakeups *wakeups)
{
	wakeups->heads |= verdict != SML_WORKER_IGNORED && may_unblock;
	if (verdict != SML_WORKER_TENSOR)
		return;
	wakeups->done++;
	__atomic_store_n(&shard->counters.tensors, shard->counters.tensors + 1, __ATOMIC_RELAXED);
}

/* ---- this rank's embedded stripe ---- */

static struct sml_shard *own_shard(const struct sml_line *line)
{
	return line->shards[line->own->rank];
}

static void send_results(struct sml_line *line, const struct iovec *packets, unsigned n,
			 uint64_t ranks)
{
	struct sml_transport *transport = line->transport;
	unsigned n_ranks = (unsigned)__builtin_popcountll(ranks);

	transport->ops->send_results(transport, packets, n, ranks);
	line->result_packets += (uint64_t)n * n_ranks;
	for (unsigned i = 0; i < n; i++)
		line->result_bytes += (uint64_t)packets[i].iov_len * n_ranks;
}

static void flush_results(struct sml_line *line)
{
	const struct sml_embedded_stripe *own = line->own;
	uint64_t others = sml_pool_all_ranks(&own->pool.rules) & ~((uint64_t)1 << own->rank);

	send_results(line, line->results, line->n_results, others);
	line->n_results = 0;
}

/* To the other ranks, soon. */
static void gather_result(struct sml_line *line, const struct sml_pool_answer *answer)
{
	if (line->n_results == SML_RESULTS_AT_ONCE)
		flush_results(line);
	line->results[line->n_results++] =
		(struct iovec){(void *)(uintptr_t)answer->packet, answer->length};
}

static void resend_result(struct sml_line *line, const struct sml_pool_answer *answer)
{
	const struct iovec packet = {(void *)(uintptr_t)answer->packet, answer->length};

	if (answer->packet && answer->in.rank != line->own->rank)
		send_results(line, &packet, 1, (uint64_t)1 << answer->in.rank);
}

static void contribute(struct sml_line *line, const void *packet, uint32_t length, uint64_t now_ns,
		       struct sml_wakeups *wakeups)
{
	struct sml_embedded_stripe *own = line->own;
	struct sml_pool_answer answer;
	enum sml_verdict verdict =
		sml_embedded_stripe_receive(own, packet, length, line->round, now_ns, &answer);

	line->n_absorbed += verdict == SML_VERDICT_ABSORBED;
	line->n_completed += verdict == SML_VERDICT_COMPLETED;
	if (verdict == SML_VERDICT_RESEND)
		resend_result(line, &answer);
	if (verdict != SML_VERDICT_COMPLETED)
		return;
	if (own->pool.rules.n_ranks > 1)
		gather_result(line, &answer);
	take_result(own_shard(line), answer.packet, answer.length, now_ns, wakeups);
}

void sml_line_answer_probe(struct sml_transport *transport, const struct sml_pool_rules *rules,
			   const struct sml_packet *packet)
{
	uint8_t reply[SML_MAX_PACKET_BYTES] = {0};
	struct sml_header header;

	memcpy(&header, packet->bytes, sizeof(header));
	if (header.magic_be != sml_be16(SML_WIRE_MAGIC) || header.version != SML_WIRE_VERSION ||
	    header.job_be != sml_be32(rules->job) ||
	    sml_pool_check_probe(rules, &header) != SML_VERDICT_ABSORBED)
		return;
	header.kind = SML_PACKET_PROBE_REPLY;
	header.key_be = sml_be64(rules->tag);
	memcpy(reply, &header, sizeof(header));
	transport->ops->send_results(transport, &(struct iovec){reply, packet->length}, 1,
				     (uint64_t)1 << header.rank);
}

/*
 * Results wait for more results while more are about to come: if some ranks have contributed to a
 * use, the others soon will. They wait only briefly.
 */
static bool may_wait(struct sml_line *line, uint64_t now_ns)
{
	uint64_t n_ranks = line->own->pool.rules.n_ranks;

	if (line->n_results >= MANY_PACKETS ||
	    line->n_absorbed == line->n_completed * (n_ranks - 1))
		return false;
	if (line->held_since_ns == 0)
		line->held_since_ns = now_ns;
	return now_ns < line->held_since_ns + HOLD_NS;
}

static void flush_when_due(struct sml_line *line, uint64_t now_ns)
{
	if (!line->own || line->n_results == 0 || may_wait(line, now_ns))
		return;
	line->held_since_ns = 0;
	flush_results(line);
}

/* ---- in ---- */

/* The most full batches that one round receives. */
#define LONGEST_ROUND 64
/* Receives before results are sent; nothing changes the results' memory until then. */
#define TAKES_AT_ONCE 16

/* The worker that this result seems to belong to; the worker itself checks it. */
static struct sml_shard *shard_of(const struct sml_line *line, const struct sml_header *header)
{
	uint32_t stripe = sml_be32(header->job_be) % SML_MAX_STRIPES;

	if (line->n_shards == 1)
		return line->shards[0];
	return line->shards[stripe < line->n_shards ? stripe : 0];
}

static void take_packet(struct sml_line *line, const struct sml_packet *packet, uint64_t now_ns,
			struct sml_wakeups *wakeups)
{
	const struct sml_header *header = packet->bytes;

	if (line->own && packet->length >= SML_HEADER_BYTES &&
	    header->kind == SML_PACKET_CONTRIBUTION) {
		line->served_packets++;
		line->served_bytes += packet->length;
		/* The thread of another shard owns the slot. */
		if (header->shard == line->shards[0]->index)
			contribute(line, packet->bytes, packet->length, now_ns, wakeups);
		return;
	}
	if (packet->length < SML_HEADER_BYTES)
		return;
	if (line->own && header->kind == SML_PACKET_PROBE && header->rank != line->own->rank)
		sml_line_answer_probe(line->transport, &line->own->pool.rules, packet);
	if (header->kind == SML_PACKET_PROBE_REPLY)
		sml_line_note_probe_reply(shard_of(line, header), header, packet->length);
	take_result(shard_of(line, header), packet->bytes, packet->length, now_ns, wakeups);
}

bool sml_line_receive(struct sml_line *line, struct sml_packet *packets, uint64_t now_ns,
		      struct sml_wakeups *wakeups)
{
	struct sml_transport *transport = line->transport;
	/* The results of many contributions leave together, in fewer and longer datagrams. */
	unsigned most = line->own ? TAKES_AT_ONCE : 1;
	bool any = false;

	if (!line->transport)
		return sml_host_line_receive(line, now_ns, wakeups);
	for (unsigned take = 0; take < most; take++) {
		unsigned n = transport->ops->receive(transport, packets);

		for (unsigned i = 0; i < n; i++)
			take_packet(line, &packets[i], now_ns, wakeups);
		any |= n > 0;
		/* A socket that is never empty must not delay ranks that have lost a result. */
		if (transport->drained || ++line->n_takes % LONGEST_ROUND == 0)
			line->round++;
		if (transport->drained)
			break;
	}
	flush_when_due(line, now_ns);
	if (line->host)
		sml_host_line_wake(line);
	return any;
}

bool sml_line_may_expire(const struct sml_line *line, bool busy)
{
	return !line->transport || !busy ||
	       (!line->transport->drained && line->n_takes % LONGEST_ROUND == 0);
}

/* ---- out ---- */

static size_t next_packet(struct sml_line *line, struct sml_shard *shard, void *place,
			  uint64_t now_ns)
{
	return line->host ? sml_host_line_next(shard, place, now_ns)
			  : sml_worker_send(&shard->worker, place, now_ns);
}

/* To another process. */
static void fill_batch(struct sml_line *line, struct sml_shard *shard, unsigned most_packets,
		       uint64_t now_ns)
{
	uint32_t most = SML_HEADER_BYTES + 4u * shard->worker.config.shape.lanes;
	size_t length = 0;

	if (sml_batch_has_room(&line->out, most))
		length = sml_line_renewal_probe(shard, sml_batch_next(&line->out));
	if (length > 0)
		sml_batch_add(&line->out, (uint32_t)length, shard->stripe);
	for (unsigned i = 0; i < most_packets && sml_batch_has_room(&line->out, most); i++) {
		length = next_packet(line, shard, sml_batch_next(&line->out), now_ns);
		if (length == 0)
			break;
		if (line->trace)
			sml_trace_sent(line->trace, &shard->worker, sml_batch_next(&line->out),
				       now_ns);
		sml_batch_add(&line->out, (uint32_t)length, shard->stripe);
	}
}

/* Roughly how many packets could be sent now. */
static uint32_t count_ready(const struct sml_worker *worker)
{
	uint32_t data = sml_worker_is_blocked(worker) ? 0 : worker->streams[SML_DATA].waiting.n;
	uint32_t waiting = data + worker->streams[SML_HEAD].waiting.n;
	uint32_t out = worker->in_flight.n + worker->lost.n;
	uint32_t room = worker->flight.window > out ? worker->flight.window - out : 0;

	return worker->lost.n + (waiting < room ? waiting : room);
}

/*
 * A few packets wait for more while others are in flight, as in Nagle's algorithm, because one
 * segmented datagram costs as much as one packet. They wait only briefly.
 */
static bool should_wait(struct sml_shard *shard, uint64_t now_ns)
{
	const struct sml_worker *worker = &shard->worker;

	/* Rows wait for nobody, and the sums have waited for the other ranks of the host. */
	if (shard->line->host || worker->in_flight.n == 0 || count_ready(worker) >= MANY_PACKETS) {
		shard->held_since_ns = 0;
		return false;
	}
	if (shard->held_since_ns == 0)
		shard->held_since_ns = now_ns;
	if (now_ns < shard->held_since_ns + HOLD_NS)
		return true;
	shard->held_since_ns = 0;
	return false;
}

uint64_t sml_line_deadline(const struct sml_line *line)
{
	uint64_t earliest_ns = line->held_since_ns ? line->held_since_ns + HOLD_NS : UINT64_MAX;

	for (unsigned i = 0; i < line->n_shards; i++) {
		uint64_t since_ns = line->shards[i]->held_since_ns;

		if (since_ns && since_ns + HOLD_NS < earliest_ns)
			earliest_ns = since_ns + HOLD_NS;
	}
	return earliest_ns;
}

/*
 * With many stripes, send some packets to each in turn: if all ranks sent to the first stripe
 * first, they would fill its link and leave the others idle. Each rank begins with a different
 * stripe.
 */
static void fill_turns(struct sml_line *line, uint64_t now_ns)
{
	unsigned turn = line->turn;

	sml_assert(line->n_shards > 0);
	for (unsigned i = 0; i < line->n_shards; i++, turn = (turn + 1) % line->n_shards) {
		struct sml_shard *shard = line->shards[turn];

		if ((line->own && shard == own_shard(line)) || should_wait(shard, now_ns))
			continue;
		fill_batch(line, shard, SML_TURN_PACKETS, now_ns);
		if (line->out.n == SML_BATCH_PACKETS)
			break;
	}
	line->turn = (turn + 1) % line->n_shards;
}

/* Delivered by calls, not by packets: at most a batch. */
static bool serve_own(struct sml_line *line, uint64_t now_ns, struct sml_wakeups *wakeups)
{
	struct sml_shard *shard = own_shard(line);
	size_t length;
	unsigned n = 0;

	for (; n < SML_BATCH_PACKETS; n++) {
		length = next_packet(line, shard, line->scratch, now_ns);
		if (length == 0)
			break;
		contribute(line, line->scratch, (uint32_t)length, now_ns, wakeups);
	}
	flush_when_due(line, now_ns);
	return n > 0;
}

/* Sends what is in the batch. Returns whether anything was sent. */
static bool flush(struct sml_line *line)
{
	unsigned taken = line->transport->ops->send(line->transport, &line->out);

	if (sml_line_is_full(line))
		line->send_blocked++;
	return taken > 0;
}

bool sml_line_send(struct sml_line *line, uint64_t now_ns, struct sml_wakeups *wakeups)
{
	bool busy;

	if (!line->transport)
		return sml_host_line_send(line, now_ns);
	busy = line->own && serve_own(line, now_ns, wakeups);
	if (!sml_line_is_full(line)) {
		sml_batch_clear(&line->out);
		if (line->shards[0]->worker.config.n_stripes > 1)
			fill_turns(line, now_ns);
		else if (!line->own)
			fill_batch(line, line->shards[0], SML_BATCH_PACKETS, now_ns);
		if (line->out.n == 0)
			return busy;
	}
	return flush(line) || busy;
}
