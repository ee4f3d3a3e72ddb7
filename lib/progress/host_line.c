/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A line whose slots are in memory that ranks share (lib/host/slots.h). "In" takes results, and
 * adds up what is complete; "out" writes this rank's rows. No rank sends packets, except the leader
 * of a host whose sums go to a switch: to the switch, its worker stands for the whole host.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/control/client.h"
#include "lib/progress/line.h"
#include "lib/progress/shard.h"

struct sml_line *sml_line_new_shared(struct sml_host *host, struct sml_transport *transport,
				     struct sml_control *control)
{
	struct sml_line *line =
		transport ? sml_line_new(transport, NULL, 0) : calloc(1, sizeof(*line));

	if (line == NULL)
		return NULL;
	line->host = host;
	line->control = control;
	return line;
}

/* The slot's number in the job, and what this rank has sent there. */
static struct sml_contribution sent_in(const struct sml_worker *worker, uint16_t slot)
{
	struct sml_contribution in = worker->slots[slot].sent;

	in.slot = sml_worker_slot_number(worker, slot);
	in.use = worker->slots[slot].use;
	in.chunk = sml_worker_stream_chunk(worker, worker->chunks[slot]);
	return in;
}

/* As the admission numbers slots: without a switch, there are fewer here, but of each stream. */
static uint16_t number_for(const struct sml_line *line, const struct sml_worker *worker,
			   uint16_t slot)
{
	if (line->host->memory.terms.goes_up)
		return slot;
	return slot < worker->config.head_slots ? 0 : SML_MAX_SLOTS;
}

/* The switch, or rank 0, asks both. */
static void tell_mismatch(struct sml_line *line, const struct sml_worker *worker,
			  const struct sml_contribution *in, uint8_t other)
{
	const struct sml_disagreement found = {
		.slot = number_for(line, worker, in->slot),
		.use = in->use,
		.chunk = in->chunk,
		.ranks = {line->host->job_ranks[other], line->host->job_ranks[line->host->rank]},
	};

	if (line->mismatch_told)
		return;
	line->mismatch_told = true;
	sml_control_mismatch(line->control, &found);
}

static void take(struct sml_line *line, struct sml_shard *shard, uint16_t slot, uint64_t now_ns,
		 struct sml_news *news)
{
	struct sml_worker *worker = &shard->worker;
	struct sml_contribution in = sent_in(worker, slot);
	uint32_t ticket;
	const void *lanes = sml_host_result(line->host, in.slot, in.use, &ticket);
	enum sml_worker_verdict verdict = sml_worker_take(worker, slot, ticket, lanes, now_ns);

	sml_line_note(shard, verdict, false, news);
}

/* If it is complete, and no other rank does. */
static bool add_up(struct sml_line *line, struct sml_worker *worker, uint16_t slot)
{
	struct sml_contribution in = sent_in(worker, slot);
	uint8_t other = line->host->rank;

	if (sml_host_add(line->host, &in, &other))
		return true;
	if (other != line->host->rank)
		tell_mismatch(line, worker, &in, other);
	return false;
}

static enum sml_host_state look(struct sml_line *line, struct sml_worker *worker, uint16_t slot)
{
	uint32_t number = sml_worker_slot_number(worker, slot);
	enum sml_host_state state = sml_host_look(line->host, number, worker->slots[slot].use);

	if (state == SML_HOST_FULL && add_up(line, worker, slot))
		state = sml_host_look(line->host, number, worker->slots[slot].use);
	return state;
}

/* ---- the leader's packets ---- */

/* For all ranks of the host; what the worker ignores is not for them either. */
static void take_packet(struct sml_line *line, const struct sml_packet *packet, uint64_t now_ns,
			struct sml_news *news)
{
	struct sml_shard *shard = line->shards[0];
	const struct sml_header *header = packet->bytes;
	uint16_t slot = sml_worker_answered(&shard->worker, packet->bytes, packet->length);
	struct sml_contribution in;

	if (slot != SML_NO_SLOT) {
		in = sent_in(&shard->worker, slot);
		sml_host_publish(line->host, &in, sml_be32(header->chunk_be), header + 1);
	}
	sml_line_note(shard,
		      sml_worker_receive(&shard->worker, packet->bytes, packet->length, now_ns),
		      true, news);
}

static bool take_packets(struct sml_line *line, struct sml_packet *packets, uint64_t now_ns,
			 struct sml_news *news)
{
	unsigned n = line->transport->ops->receive(line->transport, packets);

	for (unsigned i = 0; i < n; i++)
		take_packet(line, &packets[i], now_ns, news);
	line->n_takes++;
	return n > 0;
}

static void put_packet(struct sml_line *line, uint16_t slot)
{
	struct sml_shard *shard = line->shards[0];
	uint8_t *packet = sml_batch_place(&line->out);
	size_t length = sml_worker_write_header(&shard->worker, slot, packet);

	memcpy(packet + SML_HEADER_BYTES,
	       sml_host_sum(line->host, sml_worker_slot_number(&shard->worker, slot),
			    shard->worker.slots[slot].use),
	       length - SML_HEADER_BYTES);
	sml_batch_add(&line->out, (uint32_t)length, shard->stripe);
}

static bool has_room(const struct sml_line *line)
{
	const struct sml_worker *worker = &line->shards[0]->worker;

	return sml_batch_has_room(&line->out, SML_HEADER_BYTES + 4u * worker->config.shape.lanes);
}

/* Complete sums, in the order in which this rank has contributed. */
static void put_sums(struct sml_line *line, uint64_t now_ns)
{
	struct sml_worker *worker = &line->shards[0]->worker;
	uint16_t slot = worker->gathering.first, next;

	for (; slot != SML_NO_SLOT && has_room(line); slot = next) {
		next = worker->send_links[slot].next;
		if (worker->frozen || look(line, worker, slot) != SML_HOST_SUMMED)
			continue;
		sml_worker_launch(worker, slot, now_ns);
		put_packet(line, slot);
	}
}

/* ---- both directions ---- */

static bool take_results(struct sml_line *line, uint64_t now_ns, struct sml_news *news)
{
	struct sml_shard *shard = line->shards[0];
	struct sml_worker *worker = &shard->worker;
	uint16_t slot = worker->in_flight.first, next;
	bool any = false;

	for (; slot != SML_NO_SLOT; slot = next) {
		next = worker->send_links[slot].next;
		if (look(line, worker, slot) != SML_HOST_DONE)
			continue;
		take(line, shard, slot, now_ns, news);
		any = true;
		if (worker->frozen)
			break;
	}
	return any;
}

bool sml_host_line_receive(struct sml_line *line, struct sml_packet *packets, uint64_t now_ns,
			   struct sml_news *news)
{
	bool any = line->transport ? take_packets(line, packets, now_ns, news)
				   : take_results(line, now_ns, news);

	sml_host_tell(line->host);
	return any;
}

static void contribute(struct sml_line *line, struct sml_worker *worker, uint16_t slot)
{
	struct sml_contribution in = sent_in(worker, slot);
	uint8_t other;

	sml_worker_fill(worker, slot, sml_host_row(line->host, in.slot, in.use));
	other = sml_host_arrive(line->host, &in);
	if (other != line->host->rank)
		tell_mismatch(line, worker, &in, other);
}

/* True: this rank has contributed to something, or has a packet to send again. */
static bool put(struct sml_line *line, uint64_t now_ns)
{
	struct sml_worker *worker = &line->shards[0]->worker;
	bool any = false;
	uint16_t slot;

	while ((!line->transport || has_room(line)) &&
	       (slot = sml_worker_choose(worker, now_ns)) != SML_NO_SLOT) {
		if (worker->config.gathers && worker->slots[slot].place == SML_IN_FLIGHT)
			put_packet(line, slot);
		else
			contribute(line, worker, slot);
		any = true;
	}
	return any;
}

bool sml_host_line_send(struct sml_line *line, uint64_t now_ns)
{
	bool any;

	if (!line->transport)
		return put(line, now_ns);
	if (sml_line_is_full(line))
		return sml_line_flush(line);
	sml_batch_clear(&line->out);
	any = put(line, now_ns);
	put_sums(line, now_ns);
	/* Sums that this rank has added up: they wait for nobody else. */
	line->host->has_sum = false;
	if (line->out.n == 0)
		return any;
	return sml_line_flush(line) || any;
}
